import FerryCore
import FerryWebhooks
import Sys
import TestSupport
import Testing

/// Causes that could hold up the sender's loop, and the detection of them.
@Suite("The sender's loop")
struct SenderLoopTests {
    @Test("a response with an unrequested coding is not an answer")
    func coded() throws {
        let receiver = try Receiver(
            .answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"))
        let bench = try Bench()
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        let first = try #require(
            bench.deliver([.example(url: receiver.url, type: "job.challenge")]).first)
        #expect(first.verdict != .accepted && first.error == "response_invalid")
    }

    @Test("the loop's age grows while it is blocked and resets afterwards")
    func age() throws {
        let receiver = try Receiver(.answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
        let (isHeld, gate) = (Signal<Void>(), Gate())
        let bench = try Bench { configuration in
            configuration.takeAnswer = { _, _, done in
                isHeld.fire(())
                _ = gate.pass()
                done(true)
            }
        }
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        bench.queue.add([.example(url: receiver.url, type: "job.challenge")])
        bench.sender.wake()
        #expect(isHeld.wait().count == 1)
        #expect(eventually { bench.sender.loopAgeSeconds > 2 })
        gate.open()
        #expect(eventually { bench.sender.loopAgeSeconds < 2 })
    }
}
