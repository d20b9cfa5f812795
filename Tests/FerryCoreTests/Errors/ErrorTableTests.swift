import FerryCore
import Foundation
import Testing

@Suite("Table of errors")
struct ErrorTableTests {
    /// Rows of the table of transfer errors in `docs/errors.md`, as cells without back quotes.
    private static func rows() throws -> [[String]] {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/errors.md"), encoding: .utf8)
        let section = try #require(page.components(separatedBy: "## Transfer errors").last)
        return section.split(separator: "\n").filter { $0.hasPrefix("| `") }.dropFirst().map { line in
            line.split(separator: "|").map {
                $0.trimmingCharacters(in: .whitespaces).replacingOccurrences(of: "`", with: "")
            }
        }
    }

    @Test("docs/errors.md has a row for each code, in order, with its class, phases and retryability")
    func page() throws {
        let rows = try Self.rows()
        #expect(rows.map { $0[0] } == TransferError.Code.allCases.map(\.rawValue))
        for (row, code) in zip(rows, TransferError.Code.allCases) {
            try #require(row.count == 6, "\(row)")
            #expect(row[1] == code.errorClass.rawValue, "\(code)")
            let isAny = code.phases == TransferError.Phase.allCases
            let phases = isAny ? "any" : code.phases.map(\.rawValue).joined(separator: ", ")
            #expect(row[2] == phases, "\(code)")
            #expect(row[3] == code.repetition.rawValue, "\(code)")
            #expect(row[4].count > 10 && row[5].count > 10, "\(code) has a cause and a remedy")
        }
    }

    @Test("every class has a code")
    func classes() {
        let used = Set(TransferError.Code.allCases.map(\.errorClass))
        #expect(Set(TransferError.Class.allCases) == used)
        #expect(TransferError.Code.allCases.allSatisfy { !$0.phases.isEmpty })
    }
}
