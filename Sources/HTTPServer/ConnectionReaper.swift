internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// A thread that looks after what libmicrohttpd leaves alone: requests and streams that rest, bodies and
/// headers that drip, files that shrink while they are sent, and sockets that must not be reset while their
/// client still sends (RFC 9112 §9.6).
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

    /// Call once.
    func start() {
        thread.withLock { $0 = Thread(name: "http-warden") { [self] in run() } }
    }

    /// Ends the thread and waits for it. Later calls do nothing.
    func stop() {
        isOver.store(true, ordering: .releasing)
        core.lingering.close()
        thread.withLock { $0.take() }?.join()
    }

    private func run() {
        var lingering: [Lingering] = []
        var lookedAt: Int64 = 0
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
            if now - lookedAt >= Int64(Self.tickMilliseconds) * 1_000_000 {
                lookedAt = now
                inspect(now)
            }
        }
        for entry in lingering { close(entry.descriptor) }
        for descriptor in core.lingering.take() { close(descriptor) }
    }

    private func inspect(_ now: Int64) {
        let exchanges = core.exchanges.withLock { $0.members }
        for exchange in exchanges { exchange.inspect(now: now) }
        // A margin of one second leaves the ordinary case to libmicrohttpd's own timeout.
        let time = now - Int64(core.limits.idleTimeoutSeconds + 1) * 1_000_000_000
        let peers = core.peers.withLock { $0.members }
        for peer in peers { peer.cut(idleSinceBefore: time) }
    }
}

/// A socket that libmicrohttpd has shut down, kept until its client has read the answer and closed.
private struct Lingering {
    let descriptor: Int32
    let until: Int64

    /// Drops what has come in. False, and closed, when the client is done or its time is over.
    func isOpen(_ now: Int64) -> Bool {
        let goesOn = now < until && drain()
        if !goesOn { close(descriptor) }
        return goesOn
    }

    private func drain() -> Bool {
        withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 1) { buffer in
            // A bounded number of reads a turn, so that one flood does not starve the others.
            for _ in 0..<16 {
                let count = recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
                if count == 0 { return false }
                if count < 0 { return errno == EAGAIN || errno == EINTR }
            }
            return true
        }
    }
}
