import FerryCore
import FerryEngine
import Synchronization
import Sys
import TestSupport
import Testing

@Suite("Attempts that reach nobody lend their slots")
struct LentSlotTests {
    /// Takes connections, and says nothing.
    private func silent(_ gate: Gate) throws -> ScriptedOrigin {
        try ScriptedOrigin { _ in _ = gate.pass(seconds: 600) }
    }

    @Test("until they end, with one stream and with several", arguments: [1, 4])
    func silence(parts: Int) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let gate = Gate()
        let origin = try silent(gate)
        defer {
            gate.open()
            origin.stop()
        }
        let began = monotonicNanoseconds()
        let attempt = fixture.attempt(.download, "https://127.0.0.1:\(origin.port)/file") {
            $0.spec.segmentCountMax = parts
        }
        fixture.engine.begin([attempt])
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        #expect(monotonicNanoseconds() - began >= 1_000_000_000)
        fixture.engine.cancel(attempt.job)
        let result = try #require(fixture.sink.arrived.wait().first)
        #expect(result.isCancelled && result.lentSeconds > 0)
        #expect(fixture.sink.lent.withLock { $0 } == 0)
    }

    @Test("who has reached somebody keeps it, however long the answer takes")
    func slowAnswer() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let gate = Gate()
        let (slow, dead) = (
            try ScriptedOrigin { connection in
                _ = connection.readRequest()
                _ = gate.pass(seconds: 600)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }, try silent(gate)
        )
        defer {
            gate.open()
            slow.stop()
            dead.stop()
        }
        let answered = fixture.attempt(.data, slow.url)
        fixture.engine.begin([answered])
        let unreached = fixture.attempt(.data, "https://127.0.0.1:\(dead.port)/")
        fixture.engine.begin([unreached])
        // Both are of that age by now.
        #expect(fixture.sink.lendings.wait() == [unreached.job])
        gate.open()
        let results = fixture.sink.arrived.wait(for: 2)
        let result = try #require(results.first { $0.attempt.job == answered.job })
        #expect(result.text == "ok" && result.lentSeconds == 0)
        #expect(fixture.sink.lendings.wait(seconds: 0).isEmpty)
    }

    @Test("it is back with the first request, and the time of others does not count")
    func reached() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let gate = Gate()
        let requested = Signal<Int>()
        // A proxy that takes its time: SOCKS5 (RFC 1928), so that nothing is sent through it before.
        let proxy = try ScriptedOrigin { connection in
            _ = connection.read(Int(connection.read(2).last ?? 0))
            _ = gate.pass(seconds: 600)
            connection.send([5, 0])
            _ = connection.read(Int(connection.read(5).last ?? 0) + 2)
            connection.send([5, 0, 0, 1, 127, 0, 0, 1, 0, 80])
            _ = connection.readRequest()
            requested.fire(fixture.sink.lent.withLock { $0 })
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        defer {
            gate.open()
            proxy.stop()
        }
        fixture.engine.begin([
            fixture.attempt(.data, "http://example.test/") {
                try? $0.pass("socks5://127.0.0.1:\(proxy.port)")
            }
        ])
        _ = fixture.sink.lendings.wait()
        #expect(fixture.sink.lent.withLock { $0 } == 1)
        gate.open()
        #expect(requested.wait() == [0])
        let result = try #require(fixture.sink.arrived.wait().first)
        #expect(result.text == "ok" && result.lentSeconds > 0, "\(result.outcome)")
    }
}
