import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// The law of a download in parts: whatever one of the answers is, at whatever byte it goes wrong, in
/// whatever order they come, the file is exact in the end or the job has failed.
@Suite(.serialized, .onOwnThread) struct PartsPropertyTests {
    private static let seed: UInt64 = 31_415
    /// Enough for two parts, and not much more.
    private static let bytes = patternBytes((2 << 20) + 12_345, seed: seed)
    private static let other = patternBytes((2 << 20) + 12_345, seed: seed + 1)

    /// Fault of one answer as a whole.
    enum Lie: String, CaseIterable, Sendable {
        /// Another range than was asked for, and says so.
        case exchanged
        /// Says the range that was asked for and gives another one's bytes.
        case mislabelled
        /// A part of another file, under the same tag, and under its own.
        case changed, changedSilently
        case otherTotal, shorter, longer, whole, unsatisfiable, late
    }

    private static func answer(_ lie: Lie, to request: ScriptedOrigin.Request) -> [UInt8] {
        let start = request.header("range").flatMap { Int($0.dropFirst(6).prefix { $0 != "-" }) } ?? 0
        let half = bytes.count / 2
        func part(
            _ range: Range<Int>, of bytes: [UInt8], from first: Int? = nil, total: Int? = nil,
            tag: String = "one",
            length: Int? = nil
        ) -> [UInt8] {
            let first = first ?? range.lowerBound
            return Array(
                ("HTTP/1.1 206 Partial Content\r\nETag: \"\(tag)\"\r\nContent-Range: bytes \(first)-"
                    + "\(first + range.count - 1)/\(total ?? bytes.count)\r\n"
                    + "Content-Length: \(length ?? range.count)\r\n\r\n").utf8) + bytes[range]
        }
        let rest = start..<bytes.count
        switch lie {
        case .exchanged: return start < half ? part(half..<bytes.count, of: bytes) : part(0..<half, of: bytes)
        case .mislabelled:
            let count = min(rest.count, 1 << 20)
            let elsewhere = start < half ? half : 0
            return part(elsewhere..<(elsewhere + count), of: bytes, from: start)
        case .changed: return part(rest, of: other, tag: "two")
        case .changedSilently: return part(rest, of: other)
        case .otherTotal: return part(rest, of: bytes, total: bytes.count + 1)
        case .shorter: return part(start..<(start + rest.count / 2), of: bytes, length: rest.count)
        case .longer: return part(rest, of: bytes, length: rest.count / 2)
        case .whole:
            return Array("HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8)
                + bytes
        case .unsatisfiable:
            return Array("HTTP/1.1 416 No\r\nContent-Range: bytes */7\r\nContent-Length: 0\r\n\r\n".utf8)
        case .late: return part(rest.dropFirst(), of: bytes)
        }
    }

    /// `/WHAT/PLACE/NUMBER`: so many requests of the job are answered well before the one that is not.
    private static func origin() throws -> ScriptedOrigin {
        let tally = Tally()
        return try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let words = request.path.split(separator: "/").map(String.init)
                guard words.count == 3, let place = Int(words[1]), let number = Int(words[2]) else { return }
                let proper = RangeOrigin.answer(to: request, bytes)
                guard tally.next(request.path) == number else {
                    guard connection.send(proper) else { return }
                    continue
                }
                if let lie = Lie(rawValue: words[0]) {
                    connection.send(answer(lie, to: request))
                    return
                }
                return WireFault(rawValue: words[0])?.send(proper, after: place, seed: seed, on: connection)
                    ?? ()
            }
        }
    }

    private static func run(_ cases: [PropertyRun.Case], mirror: RangeOrigin? = nil) throws {
        let origin = try Self.origin()
        let fixture = try Fixture { $0.fileSync = .none }
        defer {
            fixture.stop()
            origin.stop()
        }
        var run = PropertyRun(fixture: fixture, seed: seed, byteCount: bytes.count) { one, draft in
            draft.to(String(one.path.dropFirst()))
            draft.spec.segmentCountMax = 2
            // What arrives changed only a digest can tell.
            draft.spec.integrity.sha256 = sha256(bytes)
            if let mirror { draft.spec.mirrors = [mirror.url] }
        }
        run.atOnce = 40
        run.expectExact(cases, run.finish(.download, origin.url, cases), bytes)
    }

    /// Every byte of the heads, and some of the bodies.
    private static func places(_ fault: WireFault) -> [Int] {
        var random = SeededRandom(seed: seed + UInt64(fault.rawValue.utf8.count))
        let inBody = (0..<12).map { _ in Int.random(in: 200..<bytes.count / 2, using: &random) }
        return (fault == .cut ? Array(0..<200) : stride(from: 1, to: 200, by: 9).map { $0 }) + inBody
    }

    private static func cases(_ faults: [WireFault], numbers: [Int]) -> [PropertyRun.Case] {
        faults.flatMap { fault in
            places(fault).enumerated().map { index, place in
                PropertyRun.Case(
                    path: "/\(fault)/\(place)/\(numbers[index % numbers.count])", mayFail: fault.changesBytes,
                    stalls: fault == .stall)
            }
        }
    }

    @Test("one response of several fails at any byte")
    func bytes() throws { try Self.run(Self.cases(WireFault.allCases, numbers: [1, 0])) }

    @Test("one response of several has another range or file than requested")
    func lies() throws {
        try Self.run(
            Lie.allCases.flatMap { lie in (0...2).map { .init(path: "/\(lie)/0/\($0)", mayFail: true) } })
    }

    @Test("a mirror provides the file, whatever the first source does")
    func mirrors() throws {
        let mirror = try RangeOrigin(Self.bytes)
        defer { mirror.stop() }
        try Self.run(
            Self.cases([.cut, .flip], numbers: [0, 1]).enumerated().filter { $0.offset % 3 == 0 }.map(
                \.element)
                + Lie.allCases.map { .init(path: "/\($0)/0/1", mayFail: true) }, mirror: mirror)
    }
}
