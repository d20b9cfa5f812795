import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

/// The law of an upload: it has succeeded only if the server has got exactly its bytes and has said so,
/// whatever became of the exchange at whatever byte; and what must not be repeated is not.
@Suite(.serialized, .onOwnThread) struct UploadPropertyTests {
    private static let seed: UInt64 = 7_114
    private static let bytes = patternBytes(64, seed: seed)
    private static let answer = Array("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok".utf8)

    /// One connection's part in the test: what it does wrong.
    private struct Fault: Sendable {
        let fault: WireFault
        /// In the request; nil: in the answer.
        let isInRequest: Bool
        let place: Int

        static func all(requestByteCount: Int) -> [Fault] {
            let requests = [WireFault.cut, .reset, .stall].flatMap { fault in
                (0..<requestByteCount).map { Fault(fault: fault, isInRequest: true, place: $0) }
            }
            let answers = [WireFault.cut, .reset, .stall, .flip].flatMap { fault in
                (0..<answer.count).map { Fault(fault: fault, isInRequest: false, place: $0) }
            }
            return requests + answers
        }
    }

    /// Requests and bodies that the server has received.
    private final class Book: Sendable {
        let faults = Mutex<[Fault]>([])
        /// Bodies that came whole, by path.
        let whole = Tally()
        let wrong = Atomic<Int>(0)
        let requestByteCount = Atomic<Int>(0)
    }

    private static func serve(_ connection: OriginConnection, _ book: Book) {
        let fault = book.faults.withLock { $0.popLast() }
        if let fault, fault.isInRequest {
            _ = connection.read(fault.place)
            return fault.fault.send([], after: 0, seed: seed, on: connection)
        }
        guard let request = connection.readRequest() else { return }
        let body = connection.readBody(of: request)
        let length = request.lines.reduce(2) { $0 + $1.utf8.count + 2 } + body.count
        book.requestByteCount.store(length, ordering: .relaxed)
        guard body.count == bytes.count else { return }
        if body != bytes { book.wrong.wrappingAdd(1, ordering: .relaxed) }
        _ = book.whole.next(request.path)
        guard let fault else {
            connection.send(answer)
            connection.sayGoodbye()
            return
        }
        fault.fault.send(answer, after: fault.place, seed: seed, on: connection)
    }

    private static func run(_ method: String, isSecure: Bool, _ choose: ([Fault]) -> [Fault]) throws {
        let (book, authority) = (Book(), try TestAuthority.shared.get())
        let origin = try ScriptedOrigin(as: isSecure ? authority.server : nil) { serve($0, book) }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let run = PropertyRun(fixture: fixture, seed: seed, byteCount: bytes.count) { _, draft in
            draft.payload = bytes
            draft.spec.source = .inline(.init(form: .base64, byteCount: bytes.count))
            draft.spec.request.method = method
            if isSecure { draft.trust(authority.certificate) }
        }
        // How long a request is.
        #expect(run.finish(.upload, origin.url, [.init(path: "/u0000")]).isEmpty)
        let faults = choose(Fault.all(requestByteCount: book.requestByteCount.load(ordering: .relaxed)))
        #expect(faults.count > 100)
        book.faults.withLock { $0 = faults }
        // Whose connection a fault meets is left to chance.
        let cases = (1...faults.count).map {
            PropertyRun.Case(path: "/u\(10_000 + $0)", mayFail: true, stalls: true)
        }
        let failed = run.finish(.upload, origin.url, cases)
        #expect(book.wrong.load(ordering: .relaxed) == 0)
        #expect(book.faults.withLock { $0.isEmpty }, "every fault was met")
        let unfinished = Set(failed.map(\.0.path))
        for one in cases {
            let count = book.whole[one.path]
            #expect(count > 0 || unfinished.contains(one.path), "seed \(seed), \(one.path)")
            if method == "POST" { #expect(count <= 1, "seed \(seed), \(one.path) was sent twice") }
        }
        // Only an answer that says so ends what may be repeated.
        let isClear = { (code: TransferError.Code) in
            [
                .unacceptableStatus, .responseInvalid, .responseTooLarge, .redirectInvalid,
                .requestNotRepeatable,
            ]
            .contains(code) || method == "POST"
        }
        for (one, error) in failed where !isClear(error.code) {
            Issue.record("seed \(seed), \(one.path): \(error)")
        }
    }

    @Test("an upload succeeds only if the server has all of it, whatever fails at any byte")
    func idempotent() throws {
        try Self.run("PUT", isSecure: false) { $0 }
    }

    @Test("an upload over TLS succeeds only if the server has all of it, whatever fails at any byte")
    func secure() throws {
        var random = SeededRandom(seed: Self.seed)
        try Self.run("PUT", isSecure: true) { Array($0.shuffled(using: &random).prefix(300)) }
    }

    @Test("a POST arrives completely at most once, whatever fails at any byte")
    func once() throws {
        try Self.run("POST", isSecure: false) { $0 }
    }
}
