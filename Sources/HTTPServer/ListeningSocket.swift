internal import Glibc

/// A listening TCP socket on one address; its owner closes it. Connections wait in its backlog until they are
/// accepted.
struct ListeningSocket: ~Copyable {
    private(set) var descriptor: Int32
    let port: UInt16

    /// Binds and listens. `host`: an IPv4 or IPv6 address (inet_pton(3)) without brackets. `port` 0: the
    /// kernel chooses a port.
    init(host: String, port: UInt16, backlog: Int) throws(ServerError) {
        let name = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        var four = sockaddr_in()
        var six = sockaddr_in6()
        let family: Int32
        if inet_pton(AF_INET, host, &four.sin_addr) == 1 {
            family = AF_INET
            four.sin_family = sa_family_t(AF_INET)
            four.sin_port = port.bigEndian
        } else if inet_pton(AF_INET6, host, &six.sin6_addr) == 1 {
            family = AF_INET6
            six.sin6_family = sa_family_t(AF_INET6)
            six.sin6_port = port.bigEndian
        } else {
            throw .invalidAddress(host)
        }
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(family, type, 0)
        guard descriptor >= 0 else { throw serverError("socket", name) }
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let bound =
            family == AF_INET
            ? bind(descriptor, &four, socklen_t(MemoryLayout<sockaddr_in>.size))
            : bind(descriptor, &six, socklen_t(MemoryLayout<sockaddr_in6>.size))
        guard bound, listen(descriptor, Int32(clamping: backlog)) == 0 else {
            let error = serverError("listen", name)
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.port = boundPort(descriptor)
    }

    /// Passes ownership of the descriptor to the caller.
    consuming func take() -> Int32 {
        let descriptor = descriptor
        discard self
        return descriptor
    }

    deinit { close(descriptor) }
}

private func bind<Address>(_ descriptor: Int32, _ address: inout Address, _ size: socklen_t) -> Bool {
    withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.bind(descriptor, $0, size) == 0 }
    }
}

private func boundPort(_ descriptor: Int32) -> UInt16 {
    var address = sockaddr_in6()
    var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
    withUnsafeMutablePointer(to: &address) { pointer in
        _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
    }
    // The port has the same offset in sockaddr_in and sockaddr_in6.
    return UInt16(bigEndian: address.sin6_port)
}

private func serverError(_ call: String, _ name: String) -> ServerError {
    switch errno {
    case EADDRINUSE: .addressInUse(name)
    case EADDRNOTAVAIL: .addressNotAvailable(name)
    case EACCES, EPERM: .permissionDenied(name)
    default: .system(call: call, reason: String(cString: strerror(errno)))
    }
}
