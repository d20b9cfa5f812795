/// The server that an address of any scheme leads to: what the egress policy judges. `WebURL` and `ProxyURL`
/// are addresses that name more than that.
public struct EndpointAddress: Sendable, Hashable {
    /// Protocol that is spoken with an endpoint.
    public enum Scheme: String, Sendable, CaseIterable {
        case http, https, socks5

        /// Returns `true` if public addresses may be connected on this port.
        func allows(port: UInt16) -> Bool {
            switch self {
            case .http, .https, .socks5: !portsOfOtherProtocols.contains(port)
            }
        }
    }

    /// Scheme.
    public let scheme: Scheme
    /// Host as `WebURL.host` spells it.
    public let host: String
    /// Port that is connected.
    public let port: UInt16
    /// The address if the host is one, else `nil`.
    public let address: IPAddress?
}

extension WebURL {
    /// The server that the URL leads to.
    public var endpoint: EndpointAddress {
        EndpointAddress(scheme: scheme.endpoint, host: host, port: port, address: address)
    }
}

extension WebURL.Scheme {
    /// The scheme among those of all addresses.
    public var endpoint: EndpointAddress.Scheme { self == .http ? .http : .https }
}

/// The "bad ports" of the Fetch standard (§2.9), and those of databases, caches and control planes that
/// accept text lines of other protocols.
private let portsOfOtherProtocols: Set<UInt16> = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
    109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 138, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515,
    526, 530,
    531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 873, 989, 990, 993, 995, 1433, 1521, 1719, 1720, 1723,
    2049, 2375,
    2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 5900, 6000, 6379, 6566, 6665,
    6666, 6667,
    6668, 6669, 6679, 6697, 9042, 10080, 10250, 11211, 27017, 27018, 27019,
]
