internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// State that all connections of a server share. The running daemon owns a reference to it.
final class ServerCore: Sendable {
    let handler: any RequestHandler
    let limits: ServerLimits
    let log: @Sendable (String) -> Void
    let exchanges = Mutex(Slab<RequestExchange>())
    let peers = Mutex(Slab<Peer>())
    /// Set when the server stops. No connection may be suspended after that; waiting requests get 503 or are
    /// closed.
    let isStopping = Atomic(false)
    /// Set when the server drains. Each response then closes its connection.
    let isDraining = Atomic(false)
    /// Signalled when the last request ends while the server drains or stops.
    let emptied = EventDescriptor()
    /// Duplicates of sockets whose client may still be sending, owned by the mailbox's reader
    /// (`ConnectionReaper`).
    let lingering = Mailbox<Int32>()
    private let serial = Atomic(UInt64.random(in: .min ... .max))

    init(handler: any RequestHandler, limits: ServerLimits, log: @escaping @Sendable (String) -> Void) {
        self.handler = handler
        self.limits = limits
        self.log = log
    }

    func enter(_ exchange: RequestExchange) -> Int {
        exchanges.withLock { $0.insert(exchange) }
    }

    func leave(_ slot: Int) {
        let isEmpty = exchanges.withLock { exchanges in
            exchanges.remove(slot)
            return exchanges.count == 0
        }
        if isEmpty && isDraining.load(ordering: .relaxed) { emptied.signal() }
    }

    /// Returns `r-` and 13 base32 digits, unique in this process: 15 bytes, which Swift stores inline.
    func makeRequestID() -> String {
        var bits = serial.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        bits ^= bits >> 31
        let digits: StaticString = "0123456789abcdefghjkmnpqrstvwxyz"
        return String(unsafeUninitializedCapacity: 15) { text in
            text[0] = UInt8(ascii: "r")
            text[1] = UInt8(ascii: "-")
            for index in 2..<15 {
                text[index] = digits.utf8Start[Int(bits & 31)]
                bits >>= 5
            }
            return 15
        }
    }
}

/// A set whose members know their index, so that insertion and removal need no hashing.
struct Slab<Element: Sendable>: Sendable {
    private var entries: [Element?] = []
    private var free: [Int] = []

    var count: Int { entries.count - free.count }
    var members: [Element] { entries.compactMap { $0 } }

    mutating func insert(_ element: Element) -> Int {
        if let slot = free.popLast() {
            entries[slot] = element
            return slot
        }
        entries.append(element)
        return entries.count - 1
    }

    mutating func remove(_ slot: Int) {
        entries[slot] = nil
        free.append(slot)
    }
}

/// An accepted connection, from accept(2) to close(2). libmicrohttpd owns the socket.
final class Peer: Sendable {
    let descriptor: Int32
    /// Address in text form. An IPv4-mapped IPv6 address is given as IPv4.
    let address: String
    /// Monotonic nanoseconds since which no request is served; 0 while one is.
    let idleSince: Atomic<Int64>
    // Written once, before the first callback of the connection returns.
    nonisolated(unsafe) var slot = -1
    private let isClosed = Mutex(false)

    init(descriptor: Int32, address: UnsafePointer<sockaddr>?) {
        self.descriptor = descriptor
        self.address = address.map(text(of:)) ?? ""
        idleSince = Atomic(monotonicNanoseconds())
    }

    /// Writes to the socket without libmicrohttpd. Returns `false` if the kernel does not take all bytes at
    /// once. Call only on the thread of the connection.
    func write(_ bytes: [UInt8]) -> Bool {
        send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) == bytes.count
    }

    /// Marks the socket as closed: another file may get its descriptor number from now on.
    func close() { isClosed.withLock { $0 = true } }

    /// Shuts down a connection that has not sent a complete request head since `time`. libmicrohttpd's own
    /// timeout begins again with each byte.
    func shutDown(idleSinceBefore time: Int64) {
        let since = idleSince.load(ordering: .acquiring)
        guard since != 0, since < time else { return }
        isClosed.withLock { isClosed in
            if !isClosed { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }
}

private func text(of address: UnsafePointer<sockaddr>) -> String {
    var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    let raw = UnsafeRawPointer(address)
    switch Int32(address.pointee.sa_family) {
    case AF_INET:
        var bytes = raw.loadUnaligned(as: sockaddr_in.self).sin_addr
        inet_ntop(AF_INET, &bytes, &buffer, socklen_t(buffer.count))
    case AF_INET6:
        var bytes = raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr
        inet_ntop(AF_INET6, &bytes, &buffer, socklen_t(buffer.count))
    default: return ""
    }
    let length = buffer.firstIndex(of: 0) ?? 0
    let text = String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return text.hasPrefix("::ffff:") && text.contains(".") ? String(text.dropFirst(7)) : text
}
