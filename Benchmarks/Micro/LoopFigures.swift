import Curl
import Glibc
import Sys
import TestSupport

/// Costs of a small transfer for the loop and libcurl alone: 1 KiB from a real nginx over kept connections.
enum LoopFigures {
    private static let transferCount = 20_000

    static func print(atOnce: Int) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("small", [UInt8](repeating: 7, count: 1024))
        let loop = try CurlLoop(name: "bench", keptConnections: atOnce)
        defer { loop.stop() }
        let ended = Mailbox<Int>()
        let url = nginx.url + "/small"
        let begin = monotonicNanoseconds()
        let cpu = threadCPUNanoseconds(of: loop)
        loop.perform { multi in
            let run = Run(multi, url, left: transferCount, ended)
            for _ in 0..<atOnce { run.startNext() }
        }
        guard ended.wait(milliseconds: 120_000) == [0] else { throw TestSupportError("transfers failed") }
        let wall = (monotonicNanoseconds() - begin) / Int64(transferCount)
        let busy = (threadCPUNanoseconds(of: loop) - cpu) / Int64(transferCount)
        Swift.print(
            "\(busy) ns  loop: a 1 KiB transfer, \(atOnce) at once (processor time; \(wall) ns passed)")
    }

    /// From the call that cancels a running transfer until its server sees the connection closed.
    static func printCancelling() throws {
        let closed = Mailbox<Int64>()
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
            if connection.waitUntilClosed() { closed.send(monotonicNanoseconds()) }
        }
        defer { origin.stop() }
        let loop = try CurlLoop(name: "bench", keptConnections: 1)
        defer { loop.stop() }
        let url = origin.url
        var times: [Int64] = []
        for _ in 0..<cancelCount {
            let begun = Mailbox<Void>()
            let transfer = LoopBound(on: loop) { multi in
                try? multi.start(TransferRequest(url: url), delegate: Halfway(begun))
            }
            guard begun.wait(milliseconds: 20_000).count == 1 else { throw TestSupportError("no byte came") }
            let begin = monotonicNanoseconds()
            loop.perform { transfer.get($0)?.cancel() }
            guard let end = closed.wait(milliseconds: 20_000).first else {
                throw TestSupportError("a connection was not closed")
            }
            times.append(end - begin)
        }
        times.sort()
        Swift.print(
            "\(times[cancelCount / 2]) ns  loop: cancel to closed socket (the longest of \(cancelCount): "
                + "\(times[cancelCount - 1]) ns)")
    }

    private static let cancelCount = 200

    /// Says when the first bytes have come.
    private final class Halfway: EasyDelegate {
        private let begun: Mailbox<Void>
        init(_ begun: Mailbox<Void>) { self.begun = begun }
        func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
            begun.send(())
            return .proceed
        }
        func finished(_ outcome: TransferOutcome) {}
    }

    /// Processor time of the loop's thread.
    private static func threadCPUNanoseconds(of loop: CurlLoop) -> Int64 {
        let answer = Mailbox<Int64>()
        loop.perform { _ in
            var time = timespec()
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
            answer.send(Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        }
        return answer.wait(milliseconds: -1).first ?? 0
    }
}

/// Starts a transfer whenever one has ended. Loop thread only.
private final class Run {
    private let multi: CurlMulti
    private let url: String
    private let ended: Mailbox<Int>
    private var left: Int
    private var live = 0
    private var failed = 0

    init(_ multi: CurlMulti, _ url: String, left: Int, _ ended: Mailbox<Int>) {
        self.multi = multi
        self.url = url
        self.left = left
        self.ended = ended
    }

    func startNext() {
        guard left > 0 else {
            if live == 0 { ended.send(failed) }
            return
        }
        left -= 1
        live += 1
        do {
            _ = try multi.start(TransferRequest(url: url), delegate: One(self))
        } catch {
            over(isWhole: false)
        }
    }

    fileprivate func over(isWhole: Bool) {
        live -= 1
        if !isWhole { failed += 1 }
        startNext()
    }

    private final class One: EasyDelegate {
        private let run: Run
        private var byteCount = 0
        init(_ run: Run) { self.run = run }
        func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
            byteCount += bytes.count
            return .proceed
        }
        func finished(_ outcome: TransferOutcome) {
            run.over(isWhole: outcome.error == nil && byteCount == 1024)
        }
    }
}
