import FerryCore
import Glibc

/// Returns `true` if an interface of this machine has the address now (getifaddrs(3)). If the interfaces
/// cannot be listed, returns `true` as well, so that a transfer is refused and cannot reach Ferry itself.
@Sendable
func isOwnAddress(_ address: IPAddress) -> Bool {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&first) == 0 else { return true }
    defer { freeifaddrs(first) }
    var next = first
    while let entry = next {
        if let raw = entry.pointee.ifa_addr, IPAddress(UnsafeRawPointer(raw))?.canonical == address {
            return true
        }
        next = entry.pointee.ifa_next
    }
    return false
}

extension IPAddress {
    /// Reads a `sockaddr`. `nil` for other families than AF_INET and AF_INET6.
    fileprivate init?(_ raw: UnsafeRawPointer) {
        switch Int32(raw.loadUnaligned(as: sa_family_t.self)) {
        case AF_INET:
            self.init(v4: UInt32(bigEndian: raw.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
        case AF_INET6:
            let place = MemoryLayout<sockaddr_in6>.offset(of: \.sin6_addr) ?? 8
            self.init(
                v6High: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: place, as: UInt64.self)),
                low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: place + 8, as: UInt64.self)))
        default: return nil
        }
    }
}
