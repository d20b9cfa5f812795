import Foundation
import Testing

/// One file of the repository.
struct SourceFile: Sendable, CustomTestStringConvertible {
    let path: String
    let text: String
    var testDescription: String { path }
    var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() }
    /// The folder below `Sources`.
    var target: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }
    var imports: [String] {
        lines.compactMap { line in
            let words = line.split(separator: " ")
            guard let index = words.firstIndex(of: "import"), index <= 2, index + 1 < words.count,
                words[..<index].allSatisfy({
                    ["package", "internal", "private", "public"].contains($0) || $0.hasPrefix("@")
                })
            else { return nil }
            return String(words[index + 1].split(separator: ".")[0])
        }
    }
}

/// The files of this repository.
enum Tree {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    static let everywhere: Set<String> = ["Glibc", "Synchronization", "Logging"]

    /// The targets that each target may import.
    static let mayImport: [String: Set<String>] = [
        "Sys": ["CSys"], "OpenSSL": ["COpenSSL"], "Codings": ["CBrotli", "CZlib"],
        "IDNA": ["CIdn2"],
        "PublicSuffixList": ["CPsl"],
        "HTTPServer": ["CMicrohttpd", "Sys"], "Postgres": ["CPostgres", "Sys"],
        "Curl": ["CCurl", "CSys", "Sys"],
        "FerryCore": ["IDNA", "PublicSuffixList"],
        "FerryAPI": ["FerryCore", "HTTPServer", "OpenSSL", "Sys"],
        "FerryScheduler": ["FerryCore"],
        "FerryStore": ["FerryCore", "FerryScheduler", "Postgres", "Sys"],
        "FerryEngine": ["FerryCore", "Codings", "Curl", "OpenSSL", "Sys", "CSys"],
        "FerryWebhooks": ["FerryCore", "Curl", "OpenSSL", "Sys"],
        "FerryServer": [
            "FerryCore", "FerryAPI", "FerryScheduler", "FerryStore", "FerryEngine", "FerryWebhooks",
            "HTTPServer", "Postgres",
            "Curl",
            "OpenSSL", "Sys", "CSys",
        ],
        "FerryCLI": ["ArgumentParser", "FerryCore", "Curl", "OpenSSL", "Sys"],
        "ferry": ["ArgumentParser", "FerryServer", "FerryCLI", "Sys"],
    ]

    static let sourceFiles = (try? files(below: "Sources", ending: ".swift")) ?? []
    static let swiftFiles = sourceFiles + ((try? files(below: "Tests", ending: ".swift")) ?? [])

    static func text(_ path: String) throws -> String {
        try String(contentsOfFile: root + "/" + path, encoding: .utf8)
    }

    static func files(below folder: String, ending: String) throws -> [SourceFile] {
        let names =
            FileManager.default.enumerator(atPath: root + "/" + folder)?.compactMap { $0 as? String } ?? []
        return try names.filter { $0.hasSuffix(ending) }.sorted().map {
            SourceFile(path: "\(folder)/\($0)", text: try text("\(folder)/\($0)"))
        }
    }
}
