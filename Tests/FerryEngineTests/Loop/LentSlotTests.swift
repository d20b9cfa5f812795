import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Slots of stalled attempts", .onOwnThread)
struct LentSlotTests {
    /// Takes connections, and says nothing.
    private func silent(_ gate: Gate) throws -> ScriptedOrigin {
        try ScriptedOrigin { _ in _ = gate.pass(seconds: 600) }
    }

    @Test(
        "an attempt that moves no byte lends its slot until it ends, with one stream and with several",
        arguments: [1, 4])
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

    @Test(
        "an attempt that has reached its server lends its slot after a longer pause, each time",
        arguments: [1, 4])
    func slowAnswer(parts: Int) throws {
        let fixture = try Fixture { $0.stallSeconds = 2 }
        defer { fixture.stop() }
        let (answer, end) = (Gate(), Gate())
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = answer.pass(seconds: 600)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            _ = end.pass(seconds: 600)
            connection.send("k")
        }
        defer {
            answer.open()
            end.open()
            origin.stop()
        }
        let began = monotonicNanoseconds()
        let attempt = fixture.attempt(.download, origin.url) {
            $0.to("file")
            $0.spec.segmentCountMax = parts
        }
        fixture.engine.begin([attempt])
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        #expect(monotonicNanoseconds() - began >= 2_000_000_000)
        #expect(fixture.sink.lent.withLock { $0 } == 1)
        #expect(fixture.sink.unanswered.wait() == [origin.url])
        // Lent again: it was back with what came.
        answer.open()
        #expect(fixture.sink.received.wait().map(\.status) == [200])
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        #expect(fixture.sink.lent.withLock { $0 } == 1)
        end.open()
        let result = try #require(fixture.sink.arrived.wait().first)
        #expect(result.success?.size == 2 && result.lentSeconds > 0, "\(result.outcome)")
        #expect(fixture.sink.lent.withLock { $0 } == 0)
    }

    @Test("a host that does not respond is reported until the report is accepted, then no more")
    func told() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = gate.pass(seconds: 600)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let fixture = try Fixture { $0.stallSeconds = 1 }
        defer {
            gate.open()
            origin.stop()
            fixture.stop()
        }
        fixture.sink.acceptsStallReports.withLock { $0 = false }
        fixture.engine.begin([fixture.attempt(.data, origin.url)])
        #expect(fixture.sink.unanswered.wait(for: 3).count >= 3)
        fixture.sink.acceptsStallReports.withLock { $0 = true }
        #expect(fixture.sink.stallReported.wait().count == 1)
        gate.open()
        // That it answers is told as well.
        #expect(fixture.sink.received.wait().map(\.status) == [200])
        #expect(try #require(fixture.sink.arrived.wait().first).text == "ok")
    }

    /// Sends a body without end, `byteCount` bytes each `milliseconds`.
    private func slow(_ byteCount: Int, each milliseconds: Int, _ gate: Gate) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            _ = connection.readRequest()
            guard connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n") else { return }
            let bytes = [UInt8](repeating: 0, count: byteCount)
            while !gate.pass(seconds: Double(milliseconds) / 1_000) {
                guard connection.send(bytes) else { return }
            }
        }
    }

    @Test("while slots are missing, silent and slow attempts lend theirs, and take them back afterwards")
    func missing() throws {
        let fixture = try Fixture { $0.stallSeconds = 600 }
        defer { fixture.stop() }
        let gate = Gate()
        let origins = try [
            silent(gate), slow(1, each: 500, gate), slow(1 << 16, each: 20, gate),
        ]
        defer {
            gate.open()
            for origin in origins { origin.stop() }
        }
        let attempts = origins.map { origin in
            fixture.attempt(.download, origin.url) { $0.to("file-\(origin.port)") }
        }
        fixture.engine.begin(attempts)
        let received = { (index: Int) in
            fixture.engine.progress(of: attempts[index].job)?.bytesReceived ?? 0
        }
        #expect(eventually { received(1) > 2 && received(2) > 1 << 17 })
        #expect(fixture.engine.attemptCounts() == [attempts[0].tenant: 3])
        #expect(fixture.sink.lent.withLock { $0 } == 0)
        fixture.sink.isMissing.store(true, ordering: .relaxed)
        fixture.engine.lendSlots()
        #expect(Set(fixture.sink.lendings.wait(for: 2)) == [attempts[0].job, attempts[1].job])
        // Bytes that trickle do not take the slot back.
        let before = received(1)
        #expect(eventually { received(1) > before + 2 })
        #expect(fixture.sink.lent.withLock { $0 } == 2 && fixture.sink.early.withLock { $0 } == 2)
        fixture.sink.isMissing.store(false, ordering: .relaxed)
        #expect(eventually { fixture.sink.lent.withLock { $0 } == 1 }, "the next byte takes it back")
        for attempt in attempts { fixture.engine.cancel(attempt.job) }
        #expect(fixture.sink.arrived.wait(for: 3).count == 3)
        #expect(fixture.sink.lent.withLock { $0 } == 0 && fixture.sink.early.withLock { $0 } == 0)
    }

    @Test("an early loan becomes an ordinary one when the attempt is stalled")
    func settled() throws {
        let fixture = try Fixture { $0.stallSeconds = 2 }
        defer { fixture.stop() }
        let gate = Gate()
        let origin = try silent(gate)
        defer {
            gate.open()
            origin.stop()
        }
        let attempt = fixture.attempt(.download, origin.url) { $0.to("file") }
        fixture.sink.isMissing.store(true, ordering: .relaxed)
        fixture.engine.begin([attempt])
        fixture.engine.lendSlots()
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        #expect(eventually { fixture.sink.early.withLock { $0 } == 0 })
        #expect(fixture.sink.lent.withLock { $0 } == 1)
        fixture.engine.cancel(attempt.job)
        #expect(fixture.sink.arrived.wait().count == 1)
        #expect(fixture.sink.lent.withLock { $0 } == 0 && fixture.sink.early.withLock { $0 } == 0)
    }

    @Test("the rate of an attempt is known after half a second, and not after a loop was late")
    func rate() {
        let (start, half) = (Int64(7_000_000_000), Int64(500_000_000))
        var slot = HeldSlot(since: start)
        slot.measure(1_000_000, at: start + half - 1, isLate: false)
        #expect(slot.slowRate == nil)
        slot.measure(100, at: start + half, isLate: false)
        #expect(slot.slowRate == 200)
        slot.measure(100 + 4_096, at: start + 2 * half, isLate: false)
        #expect(slot.slowRate == nil)
        slot.measure(100 + 4_096, at: start + 3 * half, isLate: false)
        #expect(slot.slowRate == 0)
        slot.measure(100 + 4_096, at: start + 4 * half, isLate: true)
        #expect(slot.slowRate == nil)
        slot.measure(0, at: start + 5 * half, isLate: false)
        #expect(slot.slowRate == nil, "the body begins again")
        slot.measure(0, at: start + 6 * half, isLate: false)
        slot.lend(at: start + 6 * half)
        let isTakenBack = slot.takeBack(at: start + 7 * half)
        #expect(isTakenBack && slot.slowRate == nil)
        slot.measure(0, at: start + 8 * half - 1, isLate: false)
        #expect(slot.slowRate == nil)
    }

    @Test("the slot is taken back with the first request, and lent time does not count")
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
