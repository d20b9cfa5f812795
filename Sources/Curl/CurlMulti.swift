import CCurl
import CSys
import Glibc
import Sys

/// The transfers of one loop: a multi handle, its sockets in the loop's epoll, and its deadline.
///
/// Not `Sendable`: it exists on the loop's thread only, so holding one is the proof of being there.
package final class CurlMulti {
    enum Command {
        case add(Transfer)
        case remove(Transfer)
        case applyPause(Transfer)
    }

    private let raw: UnsafeMutableRawPointer
    private let sockets: SocketSet
    private var live: [UnsafeMutableRawPointer: Transfer] = [:]
    private var idleHandles: [EasyHandle] = []
    private let idleHandleLimit: Int
    private var commands: [Command] = []
    /// libcurl forbids most of its functions while it is calling us (CURLM_RECURSIVE_API_CALL).
    private var isInsideLibcurl = false
    private var isStopping = false
    /// Latest first.
    private var timers: [(at: Int64, body: () -> Void)] = []
    private var everySecond: [(Int64) -> Void] = []
    private var afterEachTurn: [() -> Void] = []
    private var whenStopped: [() -> Void] = []

    /// When libcurl wants to be called, in monotonic nanoseconds; nil when it waits for sockets only.
    private var libcurlDeadline: Int64?
    /// The loop's clock, read once per turn: monotonic nanoseconds.
    package fileprivate(set) var now = monotonicNanoseconds()

    init(sockets: SocketSet, keptConnections: Int) throws(CurlError) {
        guard let raw = curl_multi_init() else { throw CurlError(CURLE_OUT_OF_MEMORY) }
        self.raw = raw
        self.sockets = sockets
        idleHandleLimit = keptConnections
        ccurl_multi_set_callbacks(
            raw, socketChanged, deadlineChanged, Unmanaged.passUnretained(self).toOpaque())
        // The default grows to four times the transfers; a smaller one than the live limit closes what the
        // next transfer needs. Limits of our own decide what may run, libcurl's would only hide a queue.
        ccurl_multi_set_long(raw, CURLMOPT_MAXCONNECTS, keptConnections)
        ccurl_multi_set_long(raw, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0)
        ccurl_multi_set_long(raw, CURLMOPT_MAX_HOST_CONNECTIONS, 0)
    }

    deinit {
        for transfer in live.values { curl_multi_remove_handle(raw, transfer.easy.raw) }
        curl_multi_cleanup(raw)
    }

    /// The number of transfers that have begun and not ended.
    package var liveCount: Int { live.count }

    /// Begins a transfer; the delegate is retained until `finished` or `cancel()`.
    ///
    /// Throws what an impossible option says; nothing has begun then and the delegate is not called.
    package func start(_ request: TransferRequest, delegate: any EasyDelegate) throws(CurlError) -> Transfer {
        guard !isStopping else { throw CurlError(CURLE_ABORTED_BY_CALLBACK, text: "the loop has stopped") }
        let easy = if let idle = idleHandles.popLast() { idle } else { try EasyHandle() }
        try easy.configure(request)
        let context = EasyContext(delegate: delegate)
        easy.install(context, sendsBody: request.body != .none)
        let transfer = Transfer(easy: easy, context: context, multi: self)
        live[easy.raw] = transfer
        enqueue(.add(transfer))
        return transfer
    }

    /// Calls `body` about once a second with the monotonic nanoseconds, until the loop stops.
    package func everySecond(_ body: @escaping (Int64) -> Void) { everySecond.append(body) }

    /// Calls `body` whenever the loop is about to sleep, until it stops.
    package func afterEachTurn(_ body: @escaping () -> Void) { afterEachTurn.append(body) }

    /// Calls `body` once, after so many nanoseconds, unless the loop stops before.
    package func after(nanoseconds: Int64, _ body: @escaping () -> Void) {
        let at = now + nanoseconds
        let place = timers.lastIndex { $0.at > at }.map { $0 + 1 } ?? 0
        timers.insert((at, body), at: place)
    }

    /// Calls `body` at the loop's end, after the last delegate has been told.
    func whenStopped(_ body: @escaping () -> Void) { whenStopped.append(body) }

    func enqueue(_ command: Command) {
        commands.append(command)
        if !isInsideLibcurl { runCommands() }
    }

    /// Commands that a delegate gave during libcurl's call; delegates called meanwhile may add more.
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
            inside { _ = curl_multi_add_handle(raw, transfer.easy.raw) }
        case .remove(let transfer):
            guard live[transfer.easy.raw] === transfer else { return }
            remove(transfer, isReusable: false)
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

    /// `isReusable`: only after a success. A transfer that ends before it is connected, by a name that does
    /// not resolve for instance, leaves its buffer in the handle (libcurl 7.88), and curl_easy_reset(3) does
    /// not free it: CURLOPT_BUFFERSIZE would fail from then on, and with it every transfer on this handle.
    private func remove(_ transfer: Transfer, isReusable: Bool) {
        live[transfer.easy.raw] = nil
        inside { _ = curl_multi_remove_handle(raw, transfer.easy.raw) }
        if isReusable { keep(transfer.easy) }
    }

    private func keep(_ easy: EasyHandle) {
        guard idleHandles.count < idleHandleLimit else { return }
        easy.reset()
        idleHandles.append(easy)
    }

    // MARK: Called by the loop

    func turnBegan() { now = monotonicNanoseconds() }

    func turnEnds() { for body in afterEachTurn { body() } }

    func socketReady(_ descriptor: Int32, _ events: UInt32) {
        var mask: Int32 = 0
        if events & EPOLLIN.rawValue != 0 { mask |= CURL_CSELECT_IN }
        if events & EPOLLOUT.rawValue != 0 { mask |= CURL_CSELECT_OUT }
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { mask |= CURL_CSELECT_ERR }
        act(descriptor, mask)
    }

    /// When something is due.
    var deadline: Int64 { min(libcurlDeadline ?? .max, timers.last?.at ?? .max) }

    /// Does what is due.
    func runDue() {
        if let due = libcurlDeadline, due <= now {
            libcurlDeadline = nil
            act(-1, 0)
        }
        while let timer = timers.last, timer.at <= now {
            timers.removeLast()
            timer.body()
        }
    }

    private func act(_ descriptor: Int32, _ mask: Int32) {
        var running: Int32 = 0
        inside { _ = curl_multi_socket_action(raw, descriptor, mask, &running) }
        runCommands()
    }

    /// Tells the delegates of the transfers that have ended; they may start new ones at once.
    func reportFinished() {
        var left: Int32 = 0
        while let message = curl_multi_info_read(raw, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle,
                let transfer = live[handle]
            else { continue }
            // Not after the removal: `message` points into the handle.
            finish(transfer, ccurl_message_result(message))
        }
    }

    private func finish(_ transfer: Transfer, _ code: CURLcode) {
        let outcome = transfer.easy.outcome(code, transfer.context)
        let delegate = transfer.context.delegate
        transfer.context.delegate = nil
        remove(transfer, isReusable: code == CURLE_OK)
        delegate?.finished(outcome)
    }

    func secondPassed() {
        for body in everySecond { body(now) }
    }

    /// Ends what still lives: each delegate hears `CurlError.abortedByCallback`, and nothing new begins.
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

    fileprivate func setDeadline(_ milliseconds: Int) {
        libcurlDeadline = milliseconds < 0 ? nil : monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
    }

    fileprivate func watch(_ easy: UnsafeMutableRawPointer?, _ descriptor: Int32, _ what: Int32) {
        let reads = what == CURL_POLL_IN || what == CURL_POLL_INOUT
        let writes = what == CURL_POLL_OUT || what == CURL_POLL_INOUT
        if writes, let easy { live[easy]?.context.socket = descriptor }
        sockets.watch(descriptor, reads: reads, writes: writes)
    }
}

private let socketChanged: curl_socket_callback = { easy, descriptor, what, raw, _ in
    guard let raw else { return 0 }
    Unmanaged<CurlMulti>.fromOpaque(raw).takeUnretainedValue().watch(easy, descriptor, what)
    return 0
}

private let deadlineChanged: curl_multi_timer_callback = { _, milliseconds, raw in
    guard let raw else { return 0 }
    Unmanaged<CurlMulti>.fromOpaque(raw).takeUnretainedValue().setDeadline(milliseconds)
    return 0
}
