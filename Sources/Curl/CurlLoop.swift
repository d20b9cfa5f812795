import Synchronization
import Sys

/// A thread that drives any number of transfers, sleeping in epoll_wait(2).
///
/// All work on transfers happens on this thread, in closures that get its `CurlMulti`. Connections are kept
/// and reused within one loop only: transfers under different egress policies need different loops.
public final class CurlLoop: Sendable {
    /// Work on the thread of the loop.
    public typealias Command = @Sendable (CurlMulti) -> Void

    private final class Shared: Sendable {
        let commands = Mailbox<Command>()
        let lastTurn = Atomic<Int64>(monotonicNanoseconds())
    }

    private let shared = Shared()
    private let thread: Mutex<Thread?>

    /// Starts the thread. `keptConnections`: how many idle connections to keep; at least the number of
    /// concurrent transfers.
    ///
    /// Throws `UnusableCurl`, `CurlError` or `SystemError`; no thread runs then.
    public init(name: String, keptConnections: Int) throws {
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

    /// Runs `command` on the thread of the loop, in the order of the calls. Returns `false` and drops the
    /// command after `stop()`. Usable on any thread; never blocks.
    @discardableResult
    public func perform(_ command: @escaping Command) -> Bool { shared.commands.send(command) }

    /// Like `perform`, without waking the loop: the command runs in its next turn, within one second.
    @discardableResult
    public func performLater(_ command: @escaping Command) -> Bool {
        shared.commands.send(command, wakes: false)
    }

    /// Start of the loop's last turn in monotonic nanoseconds. A value older than one second means that
    /// something blocks the loop.
    public var lastTurnNanoseconds: Int64 { shared.lastTurn.load(ordering: .relaxed) }

    /// Ends all transfers with `CurlError.abortedByCallback` and waits for the thread. Commands sent before
    /// still run. Must not be called on the loop's thread. Calling it again does nothing.
    public func stop() {
        shared.commands.close()
        let thread = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        thread?.join()
    }

    private static func run(_ multi: CurlMulti, _ sockets: SocketSet, _ shared: Shared) {
        let commands = shared.commands
        sockets.watch(commands.descriptor, reads: true, writes: false)
        var nextSecond = multi.now + 1_000_000_000
        while true {
            let count = sockets.wait(milliseconds: milliseconds(until: min(multi.deadline, nextSecond)))
            multi.turnBegan()
            shared.lastTurn.store(multi.now, ordering: .relaxed)
            for index in 0..<count {
                let (socket, events) = sockets.ready(index)
                if socket == commands.descriptor {
                    commands.wasWoken()
                } else if sockets.isWatched(socket) {
                    multi.socketReady(socket, events)
                }
            }
            multi.runDue()
            multi.reportFinished()
            // Read before the commands are taken: after `true` no command can be sent.
            let isLast = commands.isClosed
            for command in commands.take() { command(multi) }
            if isLast { break }
            if multi.now >= nextSecond {
                multi.secondPassed()
                nextSecond = multi.now + 1_000_000_000
            }
            multi.turnEnds()
        }
        multi.stop()
    }

    /// Rounded up: waking too early would make libcurl request another millisecond, repeatedly.
    private static func milliseconds(until deadline: Int64) -> Int32 {
        let left = deadline - monotonicNanoseconds()
        return left <= 0 ? 0 : Int32(min((left + 999_999) / 1_000_000, 1_000))
    }
}

/// A value created on one thread and used only on another one from then on, which makes `@unchecked` safe.
private final class Handover<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: sending Value) { self.value = value }
}

/// State of a loop's thread that other threads can refer to. Unchecked: reading it needs the loop's
/// `CurlMulti`, which exists only on that thread.
public final class LoopBound<Value>: @unchecked Sendable {
    private var value: Value?
    private var owner: ObjectIdentifier?

    /// Creates the value on the thread of `loop`, before any command that is sent later.
    public convenience init(on loop: CurlLoop, make: @escaping @Sendable (CurlMulti) -> Value) {
        self.init(on: loop) { multi, _ in make(multi) }
    }

    /// Like `init(on:make:)`, for a value that passes on this reference to itself. The value is released when
    /// the loop stops.
    public init(on loop: CurlLoop, make: @escaping @Sendable (CurlMulti, LoopBound<Value>) -> Value) {
        loop.perform { [self] multi in
            owner = ObjectIdentifier(multi)
            value = make(multi, self)
            multi.whenStopped { [self] in value = nil }
        }
    }

    /// Returns the value. Ends the process if `multi` belongs to another loop, which is a programming error.
    public func get(_ multi: CurlMulti) -> Value {
        // No input reaches this: a loop passes itself.
        precondition(owner == ObjectIdentifier(multi), "the state of another loop")
        guard let value else { preconditionFailure("the loop had stopped before its state was made") }
        return value
    }
}
