import CCurl
import CSys
import Glibc
import Sys

/// Transfers of one loop: its multi handles, whose sockets are in the loop's epoll(7) set.
///
/// Not `Sendable`: an instance exists only on the thread of its loop. Code that has one runs on that thread.
public final class CurlMulti {
    enum Command {
        case add(Transfer)
        case remove(Transfer)
        case applyPause(Transfer)
    }

    /// The first handle stays. Others are added while more transfers run than it accepts.
    private var handles: [MultiHandle]
    private let keptConnections: Int
    private let sockets: SocketSet
    /// The handle that uses each socket, by descriptor number.
    private var owners: [MultiHandle?] = []
    private var live: [UnsafeMutableRawPointer: Transfer] = [:]
    private var commands: [Command] = []
    /// libcurl rejects most calls from within its callbacks (CURLM_RECURSIVE_API_CALL).
    private var isInsideLibcurl = false
    private var isStopping = false
    /// Sorted by time, latest first.
    private var timers: [(at: Int64, body: () -> Void)] = []
    private var everySecond: [(Int64) -> Void] = []
    private var afterEachTurn: [() -> Void] = []
    private var whenStopped: [() -> Void] = []

    /// Monotonic nanoseconds, read once in each turn of the loop.
    public fileprivate(set) var now = monotonicNanoseconds()

    init(sockets: SocketSet, keptConnections: Int) throws(CurlError) {
        self.sockets = sockets
        self.keptConnections = keptConnections
        handles = []
        handles.append(try MultiHandle(of: self, keptConnections: keptConnections))
    }

    deinit {
        for transfer in live.values { curl_multi_remove_handle(transfer.handle.raw, transfer.easy.raw) }
    }

    /// Starts a transfer. Retains the delegate until `finished` or `cancel()`.
    ///
    /// Throws if an option is invalid; the transfer has not started then, and the delegate is not called.
    public func start(_ request: TransferRequest, delegate: any EasyDelegate) throws(CurlError) -> Transfer {
        guard !isStopping else { throw CurlError(CURLE_ABORTED_BY_CALLBACK, text: "the loop has stopped") }
        let handle = try handleWithCapacity()
        let easy = try EasyHandle()
        try easy.configure(request)
        let context = EasyContext(delegate: delegate)
        easy.install(context, for: request)
        let transfer = Transfer(easy: easy, context: context, multi: self, handle: handle)
        live[easy.raw] = transfer
        handle.liveCount += 1
        enqueue(.add(transfer))
        return transfer
    }

    /// Returns the first handle with room, so that kept connections are found again.
    private func handleWithCapacity() throws(CurlError) -> MultiHandle {
        for handle in handles where handle.liveCount < MultiHandle.transferCountMax { return handle }
        let handle = try MultiHandle(of: self, keptConnections: keptConnections)
        handles.append(handle)
        return handle
    }

    /// Calls `body` about once a second with the monotonic nanoseconds, until the loop stops.
    public func everySecond(_ body: @escaping (Int64) -> Void) { everySecond.append(body) }

    /// Calls `body` at the end of each turn, before the loop sleeps, until it stops.
    public func afterEachTurn(_ body: @escaping () -> Void) { afterEachTurn.append(body) }

    /// Calls `body` once, after `nanoseconds`, unless the loop stops before.
    public func after(nanoseconds: Int64, _ body: @escaping () -> Void) {
        // From now, not from the begin of this turn of the loop: a server's Retry-After is a least time.
        let at = monotonicNanoseconds() + nanoseconds
        let place = timers.lastIndex { $0.at > at }.map { $0 + 1 } ?? 0
        timers.insert((at, body), at: place)
    }

    /// Calls `body` when the loop ends, after all delegates have been told.
    func whenStopped(_ body: @escaping () -> Void) { whenStopped.append(body) }

    func enqueue(_ command: Command) {
        commands.append(command)
        if !isInsideLibcurl { runCommands() }
    }

    /// Runs commands that delegates have enqueued during libcurl's call. Delegates called by them may enqueue
    /// more.
    private func runCommands() {
        while !commands.isEmpty {
            let batch = commands
            commands = []
            for command in batch { run(command) }
        }
    }

    private func run(_ command: Command) {
        switch command {
        case .add(let transfer):
            guard live[transfer.easy.raw] === transfer else { return }
            inside { _ = curl_multi_add_handle(transfer.handle.raw, transfer.easy.raw) }
        case .remove(let transfer):
            guard live[transfer.easy.raw] === transfer else { return }
            remove(transfer)
        case .applyPause(let transfer):
            guard live[transfer.easy.raw] === transfer else { return }
            inside { transfer.applyPause() }
        }
    }

    private func inside(_ body: () -> Void) {
        let outer = isInsideLibcurl
        isInsideLibcurl = true
        body()
        isInsideLibcurl = outer
    }

    /// Removes a transfer. Its easy handle is not used again: libcurl 7.88 keeps a pointer to the last field
    /// of the former response, and frees the field. A response whose head begins with a folded line would be
    /// written there (https://github.com/curl/curl/pull/11103).
    private func remove(_ transfer: Transfer) {
        live[transfer.easy.raw] = nil
        transfer.handle.liveCount -= 1
        transfer.handle.idleSince = now
        inside { _ = curl_multi_remove_handle(transfer.handle.raw, transfer.easy.raw) }
    }

    // MARK: Called by the loop

    func turnBegan() { now = monotonicNanoseconds() }

    func turnEnds() { for body in afterEachTurn { body() } }

    func socketReady(_ descriptor: Int32, _ events: UInt32) {
        guard let owner = owner(of: descriptor) else { return }
        var mask: Int32 = 0
        if events & EPOLLIN.rawValue != 0 { mask |= CURL_CSELECT_IN }
        if events & EPOLLOUT.rawValue != 0 { mask |= CURL_CSELECT_OUT }
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { mask |= CURL_CSELECT_ERR }
        act(owner, descriptor, mask)
    }

    /// When the next timer is due, in monotonic nanoseconds.
    var deadline: Int64 {
        var deadline = timers.last?.at ?? .max
        for handle in handles { deadline = min(deadline, handle.deadline ?? .max) }
        return deadline
    }

    /// Runs the timers that are due.
    func runDue() {
        // By index: a timer may add a handle.
        for index in handles.indices {
            let handle = handles[index]
            guard let due = handle.deadline, due <= now else { continue }
            handle.deadline = nil
            act(handle, -1, 0)
        }
        while let timer = timers.last, timer.at <= now {
            timers.removeLast()
            timer.body()
        }
    }

    private func act(_ handle: MultiHandle, _ descriptor: Int32, _ mask: Int32) {
        var running: Int32 = 0
        inside { _ = curl_multi_socket_action(handle.raw, descriptor, mask, &running) }
        handle.hasMessages = true
        runCommands()
    }

    /// Calls `finished` of transfers that have ended. Delegates may start new transfers within the call.
    func reportFinished() {
        for index in handles.indices where handles[index].hasMessages {
            handles[index].hasMessages = false
            reportFinished(handles[index])
        }
    }

    private func reportFinished(_ handle: MultiHandle) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(handle.raw, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle,
                let transfer = live[easy]
            else { continue }
            // The removal must be last: `message` points into the handle.
            finish(transfer, ccurl_message_result(message))
        }
    }

    private func finish(_ transfer: Transfer, _ code: CURLcode) {
        let outcome = transfer.easy.outcome(code, transfer.context)
        let delegate = transfer.context.delegate
        transfer.context.delegate = nil
        remove(transfer)
        delegate?.finished(outcome)
    }

    func secondPassed() {
        for body in everySecond { body(now) }
        for index in handles.indices.dropFirst().reversed() {
            let handle = handles[index]
            if handle.liveCount == 0 && now - handle.idleSince > MultiHandle.idleMax {
                handles.remove(at: index)
            }
        }
    }

    /// Ends all transfers with `CurlError.abortedByCallback`. No transfer can start after that.
    func stop() {
        isStopping = true
        everySecond = []
        afterEachTurn = []
        timers = []
        for transfer in Array(live.values) where transfer.context.delegate != nil {
            finish(transfer, CURLE_ABORTED_BY_CALLBACK)
        }
        runCommands()
        for body in whenStopped { body() }
        whenStopped = []
    }

    private func owner(of descriptor: Int32) -> MultiHandle? {
        Int(descriptor) < owners.count ? owners[Int(descriptor)] : nil
    }

    /// Registers what libcurl wants to know about a socket (CURLMOPT_SOCKETFUNCTION). libcurl may have closed
    /// a socket, and another handle may have a new one with the same number, before libcurl reports the
    /// removal: the removal of a socket that now belongs to another handle is ignored.
    func watch(
        _ easy: UnsafeMutableRawPointer?, _ descriptor: Int32, _ what: Int32, for handle: MultiHandle
    ) {
        let reads = what == CURL_POLL_IN || what == CURL_POLL_INOUT
        let writes = what == CURL_POLL_OUT || what == CURL_POLL_INOUT
        let number = Int(descriptor)
        if what == CURL_POLL_REMOVE {
            if let easy, let context = live[easy]?.context, context.sendsBody { context.released(descriptor) }
            guard let owner = owner(of: descriptor), owner === handle else { return }
            owners[number] = nil
        } else {
            if number >= owners.count {
                owners.append(contentsOf: repeatElement(nil, count: number + 64 - owners.count))
            }
            owners[number] = handle
        }
        if let easy, let context = live[easy]?.context {
            if writes { context.socket = descriptor }
            // While a connection is being established, libcurl waits for the socket to become writable.
            if reads, context.connectedAt == 0 { context.connectedAt = now }
        }
        sockets.watch(descriptor, reads: reads, writes: writes)
    }
}
