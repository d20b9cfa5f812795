import Glibc

/// An IPv4 or IPv6 address with a port, as libcurl connects to it. Needs no allocation.
public struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// `true` for IPv6. An IPv4-mapped address is IPv6 here; the egress policy unwraps it.
    public let isIPv6: Bool
    /// Upper half of the address, first byte in the highest bits; 0 for IPv4.
    public let high: UInt64
    /// Lower half of the address. IPv4 uses the lowest 32 bits.
    public let low: UInt64
    /// The TCP port.
    public let port: UInt16

    /// Creates an IPv4 address.
    public init(ipv4: UInt32, port: UInt16) {
        (isIPv6, high, low, self.port) = (false, 0, UInt64(ipv4), port)
    }

    /// Creates an IPv6 address.
    public init(ipv6High: UInt64, low: UInt64, port: UInt16) {
        (isIPv6, high, self.low, self.port) = (true, ipv6High, low, port)
    }

    /// Parses a numeric address (inet_pton(3)). `nil` for other text and for addresses with a zone
    /// identifier.
    public init?(_ text: UnsafePointer<CChar>, port: UInt16) {
        var four = in_addr()
        var six = in6_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            self.init(ipv4: UInt32(bigEndian: four.s_addr), port: port)
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            self.init(six, port: port)
        } else {
            return nil
        }
    }

    /// Reads a `sockaddr`. `nil` for other families than AF_INET and AF_INET6.
    init?(_ raw: UnsafeRawPointer, length: Int) {
        switch Int32(raw.loadUnaligned(as: sa_family_t.self)) {
        case AF_INET where length >= MemoryLayout<sockaddr_in>.size:
            let four = raw.loadUnaligned(as: sockaddr_in.self)
            self.init(ipv4: UInt32(bigEndian: four.sin_addr.s_addr), port: UInt16(bigEndian: four.sin_port))
        case AF_INET6 where length >= MemoryLayout<sockaddr_in6>.size:
            let six = raw.loadUnaligned(as: sockaddr_in6.self)
            self.init(six.sin6_addr, port: UInt16(bigEndian: six.sin6_port))
        default:
            return nil
        }
    }

    private init(_ address: in6_addr, port: UInt16) {
        let (high, low) = withUnsafeBytes(of: address) {
            ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
        self.init(ipv6High: UInt64(bigEndian: high), low: UInt64(bigEndian: low), port: port)
    }

    /// The address in network byte order: 4 or 16 bytes.
    public var bytes: [UInt8] {
        let all = [high, low].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> (56 - 8 * $0)) }
        }
        return isIPv6 ? all : Array(all[12...])
    }

    /// The address without port, as inet_ntop(3) writes it.
    public var host: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let bytes = bytes
        inet_ntop(isIPv6 ? AF_INET6 : AF_INET, bytes, &text, socklen_t(text.count))
        return text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }

    /// Address and port, as in a URL.
    public var description: String { isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
