internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// Thread that checks what libmicrohttpd does not: suspended requests and streams, bodies and header fields
/// that arrive too slowly, and files that shrink while they are sent. It also keeps sockets open that must
/// not be reset while their client still sends (RFC 9112 §9.6).
final class ConnectionReaper: Sendable {
    private let core: ServerCore
    private let isOver = Atomic(false)
    private let thread = Mutex<Thread?>(nil)

    private static let tickMilliseconds: Int32 = 500
    private static let lingerNanoseconds: Int64 = 2_000_000_000
    private static let maximumLingering = 256

    init(_ core: ServerCore) {
        self.core = core
    }

    /// Starts the thread. Call once.
    func start() {
        thread.withLock { $0 = Thread(name: "http-reaper") { [self] in run() } }
    }

    /// Stops the thread and waits for its end. Calling it again does nothing.
    func stop() {
        isOver.store(true, ordering: .releasing)
        core.lingering.close()
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        var lingering: [Lingering] = []
        var inspectedAt: Int64 = 0
        while !isOver.load(ordering: .acquiring) {
            var descriptors = [pollfd(fd: core.lingering.descriptor, events: Int16(POLLIN), revents: 0)]
            descriptors += lingering.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
            _ = poll(&descriptors, nfds_t(descriptors.count), Self.tickMilliseconds)
            if descriptors[0].revents != 0 { core.lingering.wasWoken() }
            let now = monotonicNanoseconds()
            lingering = lingering.filter { $0.isOpen(now) }
            for descriptor in core.lingering.take() {
                if lingering.count < Self.maximumLingering {
                    lingering.append(Lingering(descriptor: descriptor, until: now + Self.lingerNanoseconds))
                } else {
                    close(descriptor)
                }
            }
            if now - inspectedAt >= Int64(Self.tickMilliseconds) * 1_000_000 {
                inspectedAt = now
                inspect(now)
            }
        }
        for entry in lingering { close(entry.descriptor) }
        for descriptor in core.lingering.take() { close(descriptor) }
    }

    private func inspect(_ now: Int64) {
        let exchanges = core.exchanges.withLock { $0.members }
        for exchange in exchanges { exchange.inspect(now: now) }
        // One second later than libmicrohttpd's own timeout, which closes ordinary idle connections.
        let time = now - Int64(core.limits.idleTimeoutSeconds + 1) * 1_000_000_000
        let peers = core.peers.withLock { $0.members }
        for peer in peers { peer.shutDown(idleSinceBefore: time) }
    }
}

/// Duplicate of a socket that libmicrohttpd has shut down. Kept open until the client has read the response
/// and closed its side, or `until` has passed (monotonic nanoseconds).
private struct Lingering {
    let descriptor: Int32
    let until: Int64

    /// Discards received bytes. Closes the descriptor and returns `false` if the client has closed its side
    /// or the time is over.
    func isOpen(_ now: Int64) -> Bool {
        let isOpen = now < until && drain()
        if !isOpen { close(descriptor) }
        return isOpen
    }

    private func drain() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 1) { buffer in
            // A limit on reads in one call, so that one client that sends without end does not delay the
            // others.
            for _ in 0..<16 {
                let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
                if count == 0 { return false }
                if count < 0 { return errno == EAGAIN || errno == EINTR }
            }
            return true
        }
    }
}
