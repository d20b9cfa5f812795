internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// An HTTP/1.1 server on one address: libmicrohttpd's poll(2) threads, which only parse and send, and a
/// handler.
///
/// Life: `init` listens, `start` serves, `drain` lets go of clients, `stop` ends. Safe to use from any
/// thread; each step counts once, and a server that was stopped cannot be started again.
package final class Server: Sendable {
    private enum State: ~Copyable {
        case listening(ListeningSocket)
        case serving(Daemon)
        case stopped
    }
    private struct Daemon: Sendable {
        nonisolated(unsafe) let pointer: OpaquePointer
        /// The listening socket; its threads may look at it until they have ended.
        let descriptor: Int32
        var isQuiet = false
    }
    private let core: ServerCore
    private let warden: ConnectionReaper
    private let state: Mutex<State>
    /// The port that clients connect to; the kernel's choice when 0 was asked for.
    package let port: UInt16

    /// Binds and listens: clients can connect from here on, and wait until `start`.
    /// `address`: an IPv4 or IPv6 address without brackets. `log` gets libmicrohttpd's own messages.
    package init(
        address: String, port: UInt16, limits: ServerLimits = ServerLimits(), handler: any RequestHandler,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(ServerError) {
        let socket = try ListeningSocket(host: address, port: port, backlog: limits.listenBacklog)
        self.port = socket.port
        core = ServerCore(handler: handler, limits: limits, log: log)
        warden = ConnectionReaper(core)
        state = Mutex(.listening(socket))
    }

    deinit { stop() }

    /// Requests between their headers and the end of their answer.
    package var inFlight: Int { core.exchanges.withLock { $0.count } }
    /// Open connections, idle ones included.
    package var connections: Int { core.peers.withLock { $0.count } }

    /// Starts the threads. Does nothing when it serves already or has been stopped.
    package func start() throws(ServerError) {
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
        if isStarted == true { warden.start() }
    }

    /// Takes no new connections, ends the others with their next answer and waits until nothing is in
    /// flight. Returns whether that came true within the deadline. Blocks; event streams must be ended by
    /// their makers.
    @discardableResult
    package func drain(deadlineSeconds: Double) -> Bool {
        core.isDraining.store(true, ordering: .sequentiallyConsistent)
        closeListeningSocket()
        return waitUntilEmpty(seconds: deadlineSeconds)
    }

    /// Answers 503 to every request that waits, cuts streams, and ends the threads. Blocks for so many
    /// `seconds` at most, for clients that do not read their answer. Does nothing the second time. Not for
    /// handlers: a server's thread cannot wait for its own end.
    package func stop(seconds: Double = 1) {
        core.isDraining.store(true, ordering: .sequentiallyConsistent)
        core.isStopping.store(true, ordering: .sequentiallyConsistent)
        closeListeningSocket()
        // Whoever rests later has seen `isStopping` under the same lock, and does not.
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
        warden.stop()
        Unmanaged.passUnretained(core).release()
    }

    private func closeListeningSocket() {
        state.withLock { state in
            switch consume state {
            case .serving(var daemon):
                if !daemon.isQuiet {
                    MHD_quiesce_daemon(daemon.pointer)
                    // Refuses clients from now on; to close it would free its number under the threads.
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

/// The daemon keeps a reference to `core` until it has been stopped.
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
        // First, so that the others' complaints reach it.
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
