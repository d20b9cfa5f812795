import FerryCore
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Expected bytes", .onOwnThread) struct ExpectedBytesTests {
    @Test("a job that expects bytes is placed by them, others by what their origin has sent")
    func placement() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let isBulk = { (change: (inout JobSpec) -> Void) in
            fixture.attempt(.download, "http://a.example/") { change(&$0.spec) }.isExpectedToBeBulk
        }
        #expect(isBulk { _ in } == nil)
        #expect(isBulk { $0.schedule.expectedBytesToReceive = (1 << 20) - 1 } == false)
        #expect(isBulk { $0.schedule.expectedBytesToReceive = 1 << 20 } == true)
        #expect(isBulk { $0.schedule.expectedBytesToSend = 1 << 20 } == true)
        #expect(isBulk { $0.integrity.size = 5 } == false)
    }

    @Test("the progress of a body of unknown length has the job's estimate, of a known one its length")
    func progress() throws {
        let first = Atomic<Bool>(true)
        let gate = Gate()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            let isFirst = first.exchange(false, ordering: .relaxed)
            connection.send("HTTP/1.1 200 OK\r\n" + (isFirst ? "" : "Content-Length: 9000\r\n") + "\r\nabc")
            _ = gate.pass()
        }
        let fixture = try Fixture()
        defer {
            gate.open()
            origin.stop()
            fixture.stop()
        }
        for length in [nil, 9_000] as [Int64?] {
            let attempt = fixture.attempt(.download, origin.url) {
                $0.spec.schedule.expectedBytesToReceive = 4_000
            }
            fixture.engine.begin([attempt])
            #expect(eventually { fixture.engine.progress(of: attempt.job)?.bytesReceived == 3 })
            let progress = fixture.engine.progress(of: attempt.job)
            #expect(progress?.estimate == .toReceive(4_000) && progress?.bytesExpectedToReceive == length)
            fixture.engine.cancel(attempt.job)
            _ = fixture.sink.arrived.wait()
        }
    }
}
