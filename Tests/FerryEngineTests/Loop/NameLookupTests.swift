import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Host names that do not resolve", .onOwnThread) struct NameLookupTests {
    /// A resolver whose answers and clock the test sets.
    private final class Resolver: Sendable {
        let answers = Mutex<[String: NameAnswer]>([:])
        let asked = Signal<String>()
        let isCutOff = Atomic<Bool>(false)
        let seconds = Atomic<Int>(1_000)
        /// While it is set, lookups wait for it.
        let gate = Mutex<Gate?>(nil)

        func answer(_ name: String) -> NameAnswer {
            asked.fire(name)
            if let gate = gate.withLock({ $0 }) { _ = gate.pass() }
            return answers.withLock { $0[name] ?? .missing }
        }

        func lookup() -> NameLookup {
            NameLookup(
                isCutOff: { [self] in isCutOff.load(ordering: .relaxed) }, resolve: { [self] in answer($0) },
                clock: { [self] in Int64(seconds.load(ordering: .relaxed)) * 1_000_000_000 })
        }
    }

    private static func error(_ name: String = "missing.example", isRetryable: Bool = true) -> TransferError {
        var error = TransferError(
            .hostNotFound, "The host's name could not be resolved.", phase: .resolving,
            isRetryable: isRetryable)
        error.unresolvedHost = name
        return error
    }

    /// Returns whether the error is retryable once the lookup has judged it.
    private static func isRetryable(_ error: TransferError, _ lookup: NameLookup) -> Bool? {
        let judged = Signal<TransferError>()
        lookup.judge(error) { judged.fire($0) }
        return judged.wait().first?.isRetryable
    }

    @Test("a missing name is final only if another name has resolved in the last 30 s")
    func witness() {
        let resolver = Resolver()
        let lookup = resolver.lookup()
        #expect(Self.isRetryable(Self.error(), lookup) == true, "no name has resolved")
        lookup.noteResolved("missing.example")
        #expect(Self.isRetryable(Self.error(), lookup) == true, "it is the same name")
        #expect(resolver.asked.wait(seconds: 0).isEmpty)
        lookup.noteResolved("a.example")
        #expect(Self.isRetryable(Self.error(), lookup) == false)
        // The name itself resolved after the other one.
        lookup.noteResolved("missing.example")
        #expect(Self.isRetryable(Self.error(), lookup) == false)
        resolver.seconds.add(30, ordering: .relaxed)
        #expect(Self.isRetryable(Self.error(), lookup) == false)
        resolver.seconds.add(1, ordering: .relaxed)
        #expect(Self.isRetryable(Self.error(), lookup) == true, "the other name resolved too long ago")
    }

    @Test("on a node that is cut off, and after other answers, the error stays retryable")
    func otherAnswers() {
        let resolver = Resolver()
        let lookup = resolver.lookup()
        lookup.noteResolved("a.example")
        resolver.isCutOff.store(true, ordering: .relaxed)
        #expect(Self.isRetryable(Self.error(), lookup) == true)
        resolver.isCutOff.store(false, ordering: .relaxed)
        for answer in [NameAnswer.found, .unknown] {
            resolver.answers.withLock { $0["missing.example"] = answer }
            #expect(Self.isRetryable(Self.error(), lookup) == true, "\(answer)")
        }
        #expect(Self.isRetryable(Self.error(isRetryable: false), lookup) == false)
        #expect(resolver.asked.wait(seconds: 0).count == 2)
    }

    @Test("a lookup that takes too long, or that the stop of the engine ends, says nothing")
    func slow() {
        let resolver = Resolver()
        let lookup = resolver.lookup()
        lookup.noteResolved("a.example")
        let gate = Gate()
        resolver.gate.withLock { $0 = gate }
        defer { gate.open() }
        let judged = Signal<TransferError>()
        for _ in 0..<2 { lookup.judge(Self.error()) { judged.fire($0) } }
        #expect(resolver.asked.wait().count == 1, "one lookup for both")
        resolver.seconds.add(4, ordering: .relaxed)
        lookup.giveUpSlow()
        #expect(judged.wait(seconds: 0).isEmpty)
        resolver.seconds.add(1, ordering: .relaxed)
        lookup.giveUpSlow()
        #expect(judged.wait(for: 2).allSatisfy { $0.isRetryable })
        lookup.judge(Self.error("b.example")) { judged.fire($0) }
        lookup.giveUpAll()
        #expect(judged.wait().allSatisfy { $0.isRetryable })
    }

    @Test("after a request to another name, a name that does not exist fails the attempt for good")
    func attempts() throws {
        let resolver = Resolver()
        let fixture = try Fixture { $0.resolve = { resolver.answer($0) } }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer {
            fixture.stop()
            origin.stop()
        }
        let missing = "http://ferry.invalid/"
        let first = try #require(fixture.run(.data, missing)?.failure)
        #expect(first.code == .hostNotFound && first.isRetryable, "no other name has resolved")
        #expect(fixture.run(.data, "http://localhost:\(origin.port)/")?.success != nil)
        let second = try #require(fixture.run(.data, missing)?.failure)
        #expect(second.code == .hostNotFound && second.phase == .resolving && !second.isRetryable)
        let parts = fixture.run(.download, missing) { $0.spec.segmentCountMax = 2 }
        #expect(parts?.failure?.isRetryable == false, "\(String(describing: parts?.outcome))")
        // The other URLs of a job with mirrors may have the file.
        let mirrored = fixture.run(.download, missing) { $0.spec.mirrors = ["http://mirror.invalid/"] }
        #expect(mirrored?.failure?.isRetryable == true, "\(String(describing: mirrored?.outcome))")
        // The jobs of a host that does not exist need not wait for it.
        let probed = Signal<TransferError?>()
        fixture.engine.probe("http://ferry.invalid:80") { probed.fire($0) }
        #expect(probed.wait() == [nil])
        resolver.answers.withLock { $0["ferry.invalid"] = .unknown }
        #expect(fixture.run(.data, missing)?.failure?.isRetryable == true)
    }
}
