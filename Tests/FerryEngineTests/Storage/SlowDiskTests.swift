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
        let origin = try RangeOrigin(Self.bytes)
        let fixture = try Fixture {
            $0.fileThreadCount = 1
            $0.fileSync = .full
        }
        defer {
            fixture.stop()
            origin.stop()
        }
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

        // The second one is there so that the first has had its time.
        let attempts = (1...2).map { number in
            fixture.attempt(.download, origin.url) {
                $0.to("large\(number)")
                $0.spec.segmentCountMax = segmentCount
            }
        }
        let received = { (attempt: Attempt) in fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0 }
        // What has arrived when it stops, and what every part may write before it tells the disk.
        let most =
            EngineLimits.digestLagMax + Int64(EngineLimits.bulkReceiveBufferSize)
            + Int64(segmentCount) * EngineLimits.partWriteBehindByteCount
        for attempt in attempts {
            fixture.engine.begin([attempt])
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

    @Test("directories whose names differ only in Unicode form stay distinct, also within one batch")
    func unicodeForms() throws {
        let fixture = try Fixture { $0.fileThreadCount = 1 }
        defer { fixture.stop() }
        let gate = Gate()
        fixture.lease.gate.withLock { $0 = gate }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1".utf8)
        }
        defer { origin.stop() }
        let download = { (path: String) in fixture.attempt(.download, origin.url) { $0.to(path) } }
        fixture.engine.begin([download("first")])
        #expect(fixture.lease.asked.wait().count == 1)
        fixture.lease.gate.withLock { $0 = nil }
        // What the only file thread finds when it is back, it publishes together.
        let directories = ["caf\u{E9}", "cafe\u{301}"]
        for directory in directories {
            let attempt = download(directory + "/x")
            fixture.engine.begin([attempt])
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
