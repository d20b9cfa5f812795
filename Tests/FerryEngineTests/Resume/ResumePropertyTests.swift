import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

/// A response that is cut after every single byte, and a server that then resumes correctly, changes its
/// file, or lies: in the end there is the exact file or an error, never a mixture.
@Suite(.serialized, .onOwnThread) struct ResumePropertyTests {
    /// Validator and framing of the first answer.
    enum Shape: String, CaseIterable { case tagged, dated, chunked, weak, bare }

    /// Behavior of the server after the first answer was cut off.
    enum Sequel: String, CaseIterable {
        case honest, ignoresRange, changed, changedUnderItsTag, changedWithoutSaying, early, late, otherTotal
        case multipart, unsatisfiable, untagged, coded, tooLong, tooShort, wrongLength, unreadable, cutAgain
        case unasked
    }

    private static let old = patternBytes(90, seed: 1)
    private static let new = patternBytes(90, seed: 2)
    private static let dates =
        "Date: Sun, 06 Nov 1994 08:49:39 GMT\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"

    private static func chunked(_ bytes: [UInt8]) -> [UInt8] {
        let (half, size) = (bytes.count / 2, String(bytes.count / 2, radix: 16))
        let rest = String(bytes.count - half, radix: 16)
        return Array("\(size)\r\n".utf8) + bytes[..<half] + Array("\r\n\(rest)\r\n".utf8) + bytes[half...]
            + Array("\r\n0\r\n\r\n".utf8)
    }

    private static func whole(_ shape: Shape, _ bytes: [UInt8], tag: String) -> [UInt8] {
        let length = "Content-Length: \(bytes.count)\r\n"
        let head =
            switch shape {
            case .tagged: "ETag: \"\(tag)\"\r\n" + length
            case .dated: (tag == "old" ? dates : "") + length
            case .weak: "ETag: W/\"\(tag)\"\r\n" + dates + length
            case .chunked: "ETag: \"\(tag)\"\r\nTransfer-Encoding: chunked\r\n"
            case .bare: length
            }
        return Array("HTTP/1.1 200 OK\r\n\(head)\r\n".utf8) + (shape == .chunked ? chunked(bytes) : bytes)
    }

    private static func part(
        _ bytes: ArraySlice<UInt8>, _ range: String, tag: String = "ETag: \"old\"\r\n" + dates,
        more: String = "", length: Int? = nil
    ) -> [UInt8] {
        let head = "Content-Range: \(range)\r\nContent-Length: \(length ?? bytes.count)\r\n\(tag)\(more)"
        return Array("HTTP/1.1 206 Partial Content\r\n\(head)\r\n".utf8) + bytes
    }

    /// To `Range: bytes=start-`; `again` counts such requests of one job.
    private static func sequel(_ sequel: Sequel, _ shape: Shape, from start: Int, again: Int) -> [UInt8] {
        let (rest, last, range) = (
            old[start...], old.count - 1, "bytes \(start)-\(old.count - 1)/\(old.count)"
        )
        switch sequel {
        case .honest, .unasked: return part(rest, range)
        case .ignoresRange: return whole(shape, old, tag: "old")
        case .changed: return whole(shape, new, tag: "new")
        case .changedUnderItsTag: return part(new[start...], range, tag: "ETag: \"new\"\r\n")
        case .changedWithoutSaying: return part(new[start...], range, tag: "")
        case .early: return part(old[(start - 1)...], "bytes \(start - 1)-\(last)/\(old.count)")
        case .late: return part(rest.dropFirst(), "bytes \(start + 1)-\(last)/\(old.count)")
        case .otherTotal: return part(rest, "bytes \(start)-\(last)/\(old.count + 1)")
        case .multipart:
            return part(rest, range, more: "Content-Type: multipart/byteranges; boundary=x\r\n")
        case .unsatisfiable:
            return Array("HTTP/1.1 416 No\r\nContent-Range: bytes */7\r\nContent-Length: 0\r\n\r\n".utf8)
        case .untagged: return part(rest, range, tag: "")
        case .coded: return part(rest, range, more: "Content-Encoding: gzip\r\n")
        case .tooLong:
            return Array(
                ("HTTP/1.1 206 P\r\nETag: \"old\"\r\n\(dates)Content-Range: \(range)\r\n"
                    + "Transfer-Encoding: chunked\r\n\r\n").utf8) + chunked(Array(rest) + [1, 2, 3, 4])
        case .tooShort:
            guard rest.count > 2, again == 0 else { return part(rest, range) }
            return part(rest.dropLast(2), "bytes \(start)-\(last - 2)/\(old.count)")
        case .wrongLength: return part(rest, range, length: rest.count + 1)
        case .unreadable: return part(rest, "bytes \(start)-x/\(old.count)")
        case .cutAgain:
            let answer = part(rest, range)
            return again == 0 ? Array(answer.dropLast(rest.count / 2)) : answer
        }
    }

    /// Returns the bytes that the file must have in the end.
    private static func expected(_ sequel: Sequel) -> [UInt8] {
        [.changed, .changedUnderItsTag, .changedWithoutSaying].contains(sequel) ? new : old
    }

    private final class Counts: Sendable {
        private let counts = Mutex<[String: Int]>([:])
        func next(_ name: String) -> Int {
            counts.withLock { counts in
                defer { counts[name, default: 0] += 1 }
                return counts[name] ?? 0
            }
        }
    }

    /// `/SHAPE/SEQUEL/CUT`: the first answer stops after so many bytes.
    private static func origin() throws -> ScriptedOrigin {
        let counts = Counts()
        return try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let words = request.path.split(separator: "/").map(String.init)
                guard words.count == 3, let shape = Shape(rawValue: words[0]),
                    let sequel = Sequel(rawValue: words[1]), let cut = Int(words[2])
                else { return }
                if counts.next(request.path) == 0 {
                    connection.send(Array(whole(shape, old, tag: "old").prefix(cut)))
                    return
                }
                let start = request.header("range").flatMap { Int($0.dropFirst(6).dropLast()) }
                if let start {
                    let answer = Self.sequel(
                        sequel, shape, from: start, again: counts.next("again" + request.path))
                    guard connection.send(answer), sequel != .cutAgain, sequel != .wrongLength else { return }
                    continue
                }
                let bytes = expected(sequel)
                let isLie = sequel == .unasked && counts.next("lie" + request.path) == 0
                let answer = isLie ? part(bytes[3...], "bytes 3-89/90") : whole(shape, bytes, tag: "any")
                guard connection.send(answer) else { return }
            }
        }
    }

    @Test("a download that is cut after any byte yields the exact file, never a mixture")
    func everyByte() throws {
        let (origin, fixture) = (
            try Self.origin(),
            try Fixture {
                $0.fileSync = .none
                $0.memoryByteCountMax = 0
            }
        )
        defer {
            fixture.stop()
            origin.stop()
        }
        var open: [(path: String, job: JobID?)] = []
        for shape in Shape.allCases {
            let sequels = shape == .tagged ? Sequel.allCases : [.honest, .changed, .untagged, .cutAgain]
            for sequel in sequels {
                for cut in 0...Self.whole(shape, Self.old, tag: "old").count {
                    open.append((path: "\(shape.rawValue)/\(sequel.rawValue)/\(cut)", job: nil))
                }
            }
        }
        let paths = open.map(\.path)
        for number in 1...6 as ClosedRange<Int32> {
            var next: [(path: String, job: JobID?)] = []
            for start in stride(from: 0, to: open.count, by: 200) {
                let batch = open[start..<min(start + 200, open.count)]
                fixture.engine.begin(
                    batch.map { one in
                        fixture.attempt(.download, "\(origin.url)/\(one.path)", job: one.job, number: number)
                        {
                            $0.to(one.path)
                        }
                    })
                for result in fixture.sink.arrived.wait(for: batch.count) {
                    if result.success != nil {
                        fixture.engine.removePartialFiles(of: [result.attempt.job])
                    } else {
                        #expect(result.failure?.isRetryable == true, "\(String(describing: result.failure))")
                        let path = result.attempt.spec.destination?.path ?? ""
                        next.append((path: path, job: result.attempt.job))
                    }
                }
            }
            open = next
        }
        #expect(open.isEmpty, "\(open.prefix(3))")
        for path in paths {
            let sequel = try #require(Sequel(rawValue: path.split(separator: "/").map(String.init)[1]))
            let bytes = readFile(fixture.root + "/" + path)
            // A file that was complete before the cut, or was not resumed, is unchanged.
            if bytes != Self.expected(sequel), bytes != Self.old || !isWhole(path) {
                Issue.record("\(path): \(bytes.map { "\($0.count) bytes" } ?? "nothing")")
            }
        }
        #expect(eventually { fixture.files() == Set(paths.map { "tenant/" + $0 }) })
        let ranges = origin.requests.filter { $0.header("range") != nil }
        #expect(ranges.count > 1_000, "most attempts resume")
        #expect(ranges.allSatisfy { !$0.path.hasPrefix("/weak") && !$0.path.hasPrefix("/bare") })
        // Without If-Range only after the server has answered it with the whole of the same file.
        let bare = Set(ranges.filter { $0.header("if-range") == nil }.map(\.path))
        #expect(bare.allSatisfy { $0.hasPrefix("/tagged/ignoresRange/") } && !bare.isEmpty, "\(bare)")
    }

    /// Whether the first answer was not cut at all; the last line feed of chunked coding is not waited for.
    private func isWhole(_ path: String) -> Bool {
        let words = path.split(separator: "/").map(String.init)
        guard let shape = Shape(rawValue: words[0]), let cut = Int(words[2]) else { return false }
        return cut >= Self.whole(shape, Self.old, tag: "old").count - (shape == .chunked ? 1 : 0)
    }
}
