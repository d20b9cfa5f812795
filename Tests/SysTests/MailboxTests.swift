import Glibc
import Synchronization
import Sys
import Testing

@Suite struct MailboxTests {
    /// Expects every message once and in its sender's order.
    private static func expectAll(_ taken: [Int], senders: Int, each: Int) {
        #expect(taken.count == senders * each)
        for sender in 0..<senders {
            #expect(taken.filter { $0 / each == sender }.map { $0 % each } == Array(0..<each))
        }
    }

    private static func senders(_ count: Int, each: Int, _ box: Mailbox<Int>, urgent: Bool = true) -> [Thread]
    {
        (0..<count).map { sender in
            Thread(name: "sender") {
                for index in 0..<each {
                    // The last message of each sender wakes the owner, so that no message is left.
                    box.send(sender * each + index, wakes: urgent || index % 7 == 0 || index == each - 1)
                }
            }
        }
    }

    @Test("gathering loses nothing and never waits for messages that do not come", arguments: [0, 3, 1_000])
    func gathers(expected: Int) {
        let box = Mailbox<Int>()
        let threads = Self.senders(4, each: 5_000, box)
        var taken: [Int] = []
        while taken.count < 20_000 {
            taken += box.gather(milliseconds: 30_000, expected: expected, microseconds: 200)
        }
        threads.forEach { $0.join() }
        Self.expectAll(taken, senders: 4, each: 5_000)
    }

    @Test("gather returns as soon as the expected messages are there")
    func takesAtOnce() {
        let box = Mailbox<Int>()
        for message in 1...3 { box.send(message) }
        let start = monotonicNanoseconds()
        #expect(box.gather(milliseconds: -1, expected: 3, microseconds: 600_000_000) == [1, 2, 3])
        #expect(monotonicNanoseconds() - start < 60_000_000_000)
    }

    @Test("an urgent message wakes an owner in poll(2), which takes all messages")
    func descriptor() {
        let box = Mailbox<Int>()
        let descriptor = box.descriptor
        let threads = Self.senders(4, each: 5_000, box, urgent: false)
        var taken: [Int] = []
        while taken.count < 20_000 {
            var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let count = poll(&ready, 1, 120_000)
            #expect(count == 1, "a message waits, and nobody was woken")
            guard count == 1 else { break }
            box.wasWoken()
            taken += box.take()
        }
        threads.forEach { $0.join() }
        Self.expectAll(taken, senders: 4, each: 5_000)
    }

    @Test("a message that is not urgent does not wake the owner")
    func quiet() {
        let box = Mailbox<Int>()
        var ready = pollfd(fd: box.descriptor, events: Int16(POLLIN), revents: 0)
        #expect(box.send(1, wakes: false))
        #expect(poll(&ready, 1, 0) == 0)
        #expect(box.send(2))
        #expect(poll(&ready, 1, 0) == 1)
        box.wasWoken()
        #expect(poll(&ready, 1, 0) == 0)
        #expect(box.take() == [1, 2])
    }

    @Test("a closed mailbox refuses messages and wakes its owner")
    func closes() {
        let box = Mailbox<Int>()
        box.send(1)
        let closer = Thread(name: "closer") { box.close() }
        closer.join()
        #expect(!box.send(2))
        #expect(box.gather(milliseconds: -1, expected: 5, microseconds: 60_000_000) == [1])
        #expect(box.wait(milliseconds: -1).isEmpty && box.isClosed)
    }
}
