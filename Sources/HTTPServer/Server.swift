internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// An HTTP/1.1 server on one address: poll(2) threads of libmicrohttpd, which only parse and send, and a
/// handler.
///
/// `init` listens, `start` serves, `drain` waits for requests in progress, `stop` ends. Usable on any thread.
/// Repeated calls do nothing, and a stopped server cannot be started again.
public final class Server: Sendable {
    private enum State: ~Copyable {
        case listening(ListeningSocket)
        case serving(Daemon)
        case stopped
    }
    private struct Daemon: Sendable {
        nonisolated(unsafe) let pointer: OpaquePointer
        /// The listening socket, closed after the threads of the daemon have ended.
        let descriptor: Int32
        var isQuiet = false
    }
    private let core: ServerCore
    private let reaper: ConnectionReaper
    private let state: Mutex<State>
    /// The port that clients connect to; chosen by the kernel if `init` was given 0.
    public let port: UInt16

    /// Binds and listens. From now on clients can connect; they wait until `start`. `address`: an IPv4 or
    /// IPv6 address without brackets. `log` receives messages of libmicrohttpd, on any of its threads.
    public init(
        address: String, port: UInt16, limits: ServerLimits = ServerLimits(), handler: any RequestHandler,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(ServerError) {
        let socket = try ListeningSocket(host: address, port: port, backlog: limits.listenBacklog)
        self.port = socket.port
        core = ServerCore(handler: handler, limits: limits, log: log)
        reaper = ConnectionReaper(core)
        state = Mutex(.listening(socket))
    }

    deinit { stop() }

    /// Number of requests between the end of their header fields and the end of their response.
    public var inFlight: Int { core.exchanges.withLock { $0.count } }
    /// Number of open connections, idle ones included.
    public var connections: Int { core.peers.withLock { $0.count } }

    /// Starts the threads. Does nothing if the server runs already or was stopped.
    public func start() throws(ServerError) {
        let isStarted: Bool? = state.withLock { state in
            switch consume state {
            case .listening(let socket):
                let descriptor = socket.take()
                let daemon = startDaemon(core, descriptor)
                state = daemon.map { .serving(Daemon(pointer: $0, descriptor: descriptor)) } ?? .stopped
                if daemon == nil { close(descriptor) }
                return daemon != nil
            case .serving(let daemon):
                state = .serving(daemon)
                return nil
            case .stopped:
                state = .stopped
                return nil
            }
        }
        if isStarted == false { throw .library }
        if isStarted == true { reaper.start() }
    }

    /// Accepts no more connections, closes the others after their next response and waits until no request is
    /// in progress. Returns `false` if the deadline passes first. Blocks. The application has to end event
    /// streams.
    @discardableResult
    public func drain(deadlineSeconds: Double) -> Bool {
        core.isDraining.store(true, ordering: .sequentiallyConsistent)
        closeListeningSocket()
        return waitUntilEmpty(seconds: deadlineSeconds)
    }

    /// Sends 503 to all waiting requests, closes streams and stops the threads. Blocks for at most `seconds`,
    /// for clients that do not read their response. Does nothing when called again. Must not be called by a
    /// handler: a thread of the server cannot wait for its own end.
    public func stop(seconds: Double = 1) {
        core.isDraining.store(true, ordering: .sequentiallyConsistent)
        core.isStopping.store(true, ordering: .sequentiallyConsistent)
        closeListeningSocket()
        // A connection that is suspended later has seen `isStopping` under the same lock, and is closed
        // instead.
        for exchange in core.exchanges.withLock({ $0.members }) { exchange.stop() }
        _ = waitUntilEmpty(seconds: seconds)
        let daemon: Daemon? = state.withLock { state in
            switch consume state {
            case .serving(let daemon):
                state = .stopped
                return daemon
            default:
                state = .stopped
                return nil
            }
        }
        guard let daemon else { return }
        MHD_stop_daemon(daemon.pointer)
        close(daemon.descriptor)
        reaper.stop()
        Unmanaged.passUnretained(core).release()
    }

    private func closeListeningSocket() {
        state.withLock { state in
            switch consume state {
            case .serving(var daemon):
                if !daemon.isQuiet {
                    MHD_quiesce_daemon(daemon.pointer)
                    // Refuses clients from now on. close(2) would free the descriptor's number while threads
                    // still use it.
                    shutdown(daemon.descriptor, Int32(SHUT_RDWR))
                    daemon.isQuiet = true
                }
                state = .serving(daemon)
            default: state = .stopped
            }
        }
    }

    private func waitUntilEmpty(seconds: Double) -> Bool {
        let deadline = monotonicNanoseconds() + Int64(min(max(seconds, 0), 1e9) * 1e9)
        while inFlight > 0 {
            let left = deadline - monotonicNanoseconds()
            guard left > 0 else { return false }
            var event = pollfd(fd: core.emptied.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&event, 1, Int32(clamping: left / 1_000_000 + 1))
            core.emptied.clear()
        }
        return true
    }
}

/// Starts libmicrohttpd. The daemon owns a reference to `core` until `stop` releases it.
private func startDaemon(_ core: ServerCore, _ descriptor: Int32) -> OpaquePointer? {
    let context = Unmanaged.passRetained(core)
    let raw = context.toOpaque()
    let limits = core.limits
    func item(_ option: MHD_OPTION, _ value: Int, _ pointer: UnsafeMutableRawPointer? = nil) -> MHD_OptionItem
    {
        MHD_OptionItem(option: option, value: value, ptr_value: pointer)
    }
    let began:
        @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?, OpaquePointer?)
            -> UnsafeMutableRawPointer? = requestBegan
    let ended: MHD_RequestCompletedCallback = requestEnded
    let changed: MHD_NotifyConnectionCallback = connectionChanged
    let logged: MHD_LogCallback = libraryLogged
    let keep: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafeMutablePointer<CChar>?) -> Int =
        keepEscapes
    var options = [
        // First, so that libmicrohttpd reports errors of the other options to it.
        item(.EXTERNAL_LOGGER, unsafeBitCast(logged, to: Int.self), raw),
        item(.LISTEN_SOCKET, Int(descriptor)),
        item(.NOTIFY_COMPLETED, unsafeBitCast(ended, to: Int.self), raw),
        item(.NOTIFY_CONNECTION, unsafeBitCast(changed, to: Int.self), raw),
        item(.URI_LOG_CALLBACK, unsafeBitCast(began, to: Int.self), raw),
        item(.UNESCAPE_CALLBACK, unsafeBitCast(keep, to: Int.self), raw),
        item(.CONNECTION_LIMIT, max(limits.connections, limits.threads)),
        item(.PER_IP_CONNECTION_LIMIT, limits.connectionsPerAddress),
        item(.CONNECTION_TIMEOUT, limits.idleTimeoutSeconds),
        item(.CONNECTION_MEMORY_LIMIT, limits.connectionMemory),
        item(.CONNECTION_MEMORY_INCREMENT, limits.connectionMemory / 4),
    ]
    if limits.threads > 1 { options.append(item(.THREAD_POOL_SIZE, limits.threads)) }
    options.append(item(.END, 0))
    let flags =
        MHD_USE_POLL_INTERNAL_THREAD.rawValue | MHD_ALLOW_SUSPEND_RESUME.rawValue | MHD_USE_ERROR_LOG.rawValue
    let daemon = cmhd_start(flags, requestContinues, raw, &options)
    if daemon == nil { context.release() }
    return daemon
}
