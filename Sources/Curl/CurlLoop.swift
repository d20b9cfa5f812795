import Synchronization
import Sys

/// A thread that drives any number of transfers with one multi handle, sleeping in epoll_wait(2).
///
/// Everything about transfers happens on this thread, in closures that receive its `CurlMulti`. Connections
/// are kept and used again within one loop only: transfers under different address policies need different
/// loops.
package final class CurlLoop: Sendable {
    package typealias Command = @Sendable (CurlMulti) -> Void

    private final class Shared: Sendable {
        let commands = Mailbox<Command>()
        let lastTurn = Atomic<Int64>(monotonicNanoseconds())
    }

    private let shared = Shared()
    private let thread: Mutex<Thread?>

    /// Starts the thread. `keptConnections`: the most idle connections to keep, at least as many as transfers
    /// may live at once.
    ///
    /// Throws `UnusableCurl`, `CurlError` or `SystemError`; no thread runs then.
    package init(name: String, keptConnections: Int) throws {
        _ = try CurlRuntime.loaded.get()
        let sockets = Handover(try SocketSet())
        let shared = shared
        let result = Mailbox<CurlError?>()
        thread = Mutex(
            Thread(name: name) {
                do throws(CurlError) {
                    let sockets = sockets.value
                    let multi = try CurlMulti(sockets: sockets, keptConnections: keptConnections)
                    result.send(nil)
                    CurlLoop.run(multi, sockets, shared)
                } catch {
                    result.send(error)
                }
            })
        if let error = result.wait(milliseconds: -1).first ?? nil { throw error }
    }

    deinit { shared.commands.close() }

    /// Runs `command` on the loop's thread, in the order of the calls. Any thread, never waits. Returns
    /// false, and drops the command, after `stop()`.
    @discardableResult
    package func perform(_ command: @escaping Command) -> Bool { shared.commands.send(command) }

    /// The same for what is not urgent: it does not wake the loop, which comes round once a second anyway.
    @discardableResult
    package func performLater(_ command: @escaping Command) -> Bool {
        shared.commands.send(command, wakes: false)
    }

    /// When the loop last came round, in monotonic nanoseconds. It does so at least once a second; an older
    /// value means that something blocks it.
    package var lastTurnNanoseconds: Int64 { shared.lastTurn.load(ordering: .relaxed) }

    /// Ends all transfers (their delegates hear `CurlError.abortedByCallback`) and waits for the thread.
    /// Commands given before are still run. Not from the loop's thread. Twice is once.
    package func stop() {
        shared.commands.close()
        let thread = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        thread?.join()
    }

    private static func run(_ multi: CurlMulti, _ sockets: SocketSet, _ shared: Shared) {
        let box = shared.commands
        sockets.watch(box.descriptor, reads: true, writes: false)
        var nextSecond = multi.now + 1_000_000_000
        while true {
            let count = sockets.wait(milliseconds: patience(until: min(multi.deadline, nextSecond)))
            multi.turnBegan()
            shared.lastTurn.store(multi.now, ordering: .relaxed)
            for index in 0..<count {
                let (socket, events) = sockets.ready(index)
                if socket == box.descriptor {
                    box.wasWoken()
                } else if sockets.isWatched(socket) {
                    multi.socketReady(socket, events)
                }
            }
            multi.runDue()
            multi.reportFinished()
            // First the question, then the taking: nothing can be sent after `true`.
            let isLast = box.isClosed
            for command in box.take() { command(multi) }
            if isLast { break }
            if multi.now >= nextSecond {
                multi.secondPassed()
                nextSecond = multi.now + 1_000_000_000
            }
            multi.turnEnds()
        }
        multi.stop()
    }

    /// Rounded up: waking a little early would make libcurl ask for another millisecond, over and over.
    private static func patience(until deadline: Int64) -> Int32 {
        let left = deadline - monotonicNanoseconds()
        return left <= 0 ? 0 : Int32(min((left + 999_999) / 1_000_000, 1_000))
    }
}

/// Something made on one thread and from then on used on another one only. Unchecked: that is its whole use.
private final class Handover<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: sending Value) { self.value = value }
}

/// State of a loop's thread that is named from anywhere. Unchecked: it is touched there only, because reading
/// it takes the loop's `CurlMulti`, which exists nowhere else.
package final class LoopBound<Value>: @unchecked Sendable {
    private var value: Value?
    private var owner: ObjectIdentifier?

    /// Makes the value on `loop`'s thread, before any command that is given afterwards.
    package convenience init(on loop: CurlLoop, make: @escaping @Sendable (CurlMulti) -> Value) {
        self.init(on: loop) { multi, _ in make(multi) }
    }

    /// The same for a value that hands out this reference to itself. It is let go when the loop stops.
    package init(on loop: CurlLoop, make: @escaping @Sendable (CurlMulti, LoopBound<Value>) -> Value) {
        loop.perform { [self] multi in
            owner = ObjectIdentifier(multi)
            value = make(multi, self)
            multi.whenStopped { [self] in value = nil }
        }
    }

    /// The value. Stops the process when asked with another loop's multi, which is a programming error.
    package func get(_ multi: CurlMulti) -> Value {
        precondition(owner == ObjectIdentifier(multi), "the state of another loop")
        guard let value else { preconditionFailure("the loop had stopped before its state was made") }
        return value
    }
}
