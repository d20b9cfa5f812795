import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// A disk that does not come back, and a network that does not wait for it.
@Suite(.serialized, .onOwnThread) struct SlowDiskTests {
    private static let bytes = patternBytes(Int(EngineLimits.digestLagMax) + (16 << 20))

    @Test("a disk that hangs pauses reading at the allowed lag", arguments: [1, 3])
    func hanging(_ segmentCount: Int) throws {
        let gates = [Gate(), Gate()]
        let origins = try gates.map { gate in
            try RangeOrigin(Self.bytes) { answer, _, _ in answer.beforeHead = { _ = gate.pass() } }
        }
        let fixture = try Fixture {
            $0.fileThreadCount = 1
            $0.fileSync = .full
        }
        defer {
            gates.forEach { $0.open() }
            fixture.stop()
            origins.forEach { $0.stop() }
        }
        // The second one is there so that the first has had its time.
        let attempts = origins.enumerated().map { index, origin in
            fixture.attempt(.download, origin.url) {
                $0.to("large\(index + 1)")
                $0.spec.segmentCountMax = segmentCount
            }
        }
        fixture.engine.begin(attempts)
        #expect(eventually { origins.allSatisfy { $0.requests.count == 1 } })
        let gate = Gate()
        fixture.lease.gate.withLock { $0 = gate }
        // The only file thread asks whether it may publish, and hears nothing.
        let small = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1".utf8)
        }
        defer { small.stop() }
        fixture.engine.begin([fixture.attempt(.download, small.url) { $0.to("small") }])
        #expect(fixture.lease.asked.wait().count == 1)
        fixture.lease.gate.withLock { $0 = nil }

        let received = { (attempt: Attempt) in fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0 }
        // What has arrived when it stops, and what every part may write before it tells the disk.
        let most =
            EngineLimits.digestLagMax + Int64(EngineLimits.bulkReceiveBufferSize)
            + Int64(segmentCount) * EngineLimits.partWriteBehindByteCount
        for (attempt, gate) in zip(attempts, gates) {
            gate.open()
            #expect(eventually { received(attempt) > EngineLimits.digestLagMax })
            for attempt in attempts { #expect(received(attempt) <= most) }
        }
        #expect(fixture.sink.arrived.wait(for: 1, seconds: 0).isEmpty, "nothing ends without the disk")
        gate.open()
        // It hashes and syncs all of both.
        let results = fixture.sink.arrived.wait(for: 3, seconds: 600)
        #expect(results.count == 3 && results.allSatisfy { $0.success != nil }, "\(results.map(\.outcome))")
        for number in 1...2 {
            let isExact = readFile(fixture.root + "/large\(number)") == Self.bytes
            #expect(isExact)
        }
    }

    @Test("an attempt that waits for the check of its destination can be stopped", arguments: [1, 3])
    func stopWhileChecking(_ segmentCount: Int) throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1".utf8)
        }
        let fixture = try Fixture { $0.fileThreadCount = 1 }
        let gate = Gate()
        defer {
            gate.open()
            fixture.stop()
            origin.stop()
        }
        fixture.lease.gate.withLock { $0 = gate }
        fixture.engine.begin([fixture.attempt(.download, origin.url) { $0.to("first") }])
        #expect(fixture.lease.asked.wait().count == 1)
        // The directory of the first one has just been checked.
        let attempt = fixture.attempt(.download, origin.url) {
            $0.to("other/second")
            $0.spec.segmentCountMax = segmentCount
        }
        fixture.engine.begin([attempt])
        fixture.engine.stop(attempt.job, .suspend)
        let results = fixture.sink.arrived.wait()
        #expect(results.map(\.attempt.job) == [attempt.job] && results[0].isSuspended)
        #expect(origin.requests.count == 1)
        gate.open()
        #expect(fixture.sink.arrived.wait().first?.success != nil)
    }

    @Test("directories whose names differ only in Unicode form stay distinct, also within one batch")
    func unicodeForms() throws {
        let fixture = try Fixture { $0.fileThreadCount = 1 }
        defer { fixture.stop() }
        let (gate, answers) = (Gate(), Gate())
        let origin = try ScriptedOrigin.answering { request, _ in
            if request.path != "/first" { _ = answers.pass() }
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1".utf8)
        }
        defer {
            answers.open()
            gate.open()
            origin.stop()
        }
        let directories = ["caf\u{E9}", "cafe\u{301}"]
        let attempts = directories.map { directory in
            fixture.attempt(.download, origin.url) { $0.to(directory + "/x") }
        }
        fixture.engine.begin(attempts)
        #expect(eventually { origin.requests.count == 2 })
        fixture.lease.gate.withLock { $0 = gate }
        fixture.engine.begin([fixture.attempt(.download, origin.url + "/first") { $0.to("first") }])
        #expect(fixture.lease.asked.wait().count == 1)
        fixture.lease.gate.withLock { $0 = nil }
        // What the only file thread finds when it is back, it publishes together.
        answers.open()
        for attempt in attempts {
            #expect(eventually { fixture.engine.progress(of: attempt.job)?.bytesReceived == 1 })
        }
        gate.open()
        let results = fixture.sink.arrived.wait(for: 3)
        #expect(results.count == 3 && results.allSatisfy { $0.success != nil }, "\(results.map(\.outcome))")
        for directory in directories {
            let bytes = readFile(fixture.root + "/\(directory)/x")
            #expect(bytes == [UInt8(ascii: "1")])
        }
    }
}
