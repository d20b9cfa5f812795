/// Decides which addresses transfers and webhooks may connect to. Every address is checked before it is
/// connected, after name resolution and on every hop. An endpoint is checked by its name only to reject early
/// what is certain to be refused.
///
/// By default, the public internet is allowed on the ports that a scheme may use: no private, local, reserved
/// or translated range (IANA special-purpose registries), no cloud metadata service, no port of another
/// well-known protocol.
public struct EgressPolicy: Sendable {
    /// An address and port that are never connected.
    public struct Endpoint: Sendable, Hashable {
        /// The address in canonical form.
        public let address: IPAddress
        /// The port.
        public let port: UInt16
        /// Creates an endpoint. An unspecified address (`0.0.0.0`, `::`) means all addresses of this machine.
        public init(_ address: IPAddress, port: UInt16) {
            self.address = address.canonical
            self.port = port
        }
    }

    private let allowed: [IPNetwork]
    private let own: OwnEndpoints

    /// `allowing`: networks that may be reached on any port although they are not public
    /// (`FERRY_EGRESS_ALLOW`). A metadata address needs an entry of its own, as a single address. `own`:
    /// Ferry's API and database, which no entry opens.
    public init(allowing: [IPNetwork] = [], own: OwnEndpoints = OwnEndpoints()) {
        allowed = allowing
        self.own = own
    }

    /// Returns `true` if the address and port may be connected to speak the protocol of a scheme.
    public func allows(_ address: IPAddress, port: UInt16, for scheme: EndpointAddress.Scheme) -> Bool {
        let address = address.canonical
        guard port != 0, !own.contains(address, port: port) else { return false }
        if let network = allowed.first(where: { $0.contains(address) && covers($0, address) }) {
            // Behind a translator (NAT64), the embedded address is reached.
            guard let inner = embeddedAddress(address, behind: network) else { return true }
            return allows(inner, port: port, for: scheme)
        }
        return isPublic(address) && scheme.allows(port: port)
    }

    /// Returns why an endpoint is not accepted, as a sentence, or `nil` if it may be tried. Every address
    /// that it leads to is checked again before it is connected.
    public func refusal(of endpoint: EndpointAddress) -> String? {
        let (scheme, port) = (endpoint.scheme, endpoint.port)
        if let address = endpoint.address {
            if allows(address, port: port, for: scheme) { return nil }
            return isPublic(address.canonical) && !scheme.allows(port: port)
                ? portRefusal(port)
                : "This address may not be reached; an operator can allow its network (FERRY_EGRESS_ALLOW)."
        }
        let host = endpoint.host
        if HostName.isLocal(host) {
            let isReachable =
                allows(IPAddress(v4: 0x7F00_0001), port: port, for: scheme)
                || allows(IPAddress(v6High: 0, low: 1), port: port, for: scheme)
            return isReachable
                ? nil : "This host is the service's own; an operator can allow it (FERRY_EGRESS_ALLOW)."
        }
        return allowed.isEmpty && !scheme.allows(port: port) ? portRefusal(port) : nil
    }

    private func portRefusal(_ port: UInt16) -> String {
        "Port \(port) belongs to a protocol other than HTTP and may not be reached."
    }

    /// Returns `true` if an allowed network opens this address. A metadata address needs an exact entry.
    private func covers(_ network: IPNetwork, _ address: IPAddress) -> Bool {
        !metadataAddresses.contains(address) || network.prefixLength == (address.isIPv6 ? 128 : 32)
    }

    private func isPublic(_ address: IPAddress) -> Bool {
        guard address.isIPv6 else { return !deniedV4.contains { $0.contains(address) } }
        guard globalUnicast.contains(address), !deniedV6.contains(where: { $0.contains(address) }) else {
            return false
        }
        // ISATAP (RFC 5214 §6.1): the interface identifier contains the IPv4 address of the tunnel's other
        // end.
        let isISATAP = address.low >> 32 == 0x0000_5EFE || address.low >> 32 == 0x0200_5EFE
        return !isISATAP || isPublic(IPAddress(v4: UInt32(truncatingIfNeeded: address.low)))
    }

    /// Returns the IPv4 address in a NAT64 address, at the position for this prefix length (RFC 6052 §2.2),
    /// or `nil` if it is no NAT64 address.
    private func embeddedAddress(_ address: IPAddress, behind network: IPNetwork) -> IPAddress? {
        guard address.isIPv6, nat64.contains(where: { $0.contains(network.address) }) else { return nil }
        let bytes = [address.high, address.low].flatMap { word in
            (0..<8).map { UInt32(truncatingIfNeeded: word >> (56 - 8 * UInt64($0)) & 0xFF) }
        }
        // Byte 8 is reserved and skipped, except behind a prefix of 96 bits.
        let length = [48, 56, 64].contains(network.prefixLength) ? network.prefixLength : 96
        let places = (length / 8..<16).filter { length == 96 || $0 != 8 }.prefix(4)
        return IPAddress(v4: places.reduce(0) { $0 << 8 | bytes[$1] })
    }
}

private func networks(_ texts: String...) -> [IPNetwork] {
    texts.map { text in
        // No input reaches this: the texts are the constants below.
        guard let network = IPNetwork(cidr: text) else { preconditionFailure("\(text) is not a network") }
        return network
    }
}

/// IANA IPv4 Special-Purpose Address Registry, multicast, class E, and Azure's wire server, a metadata
/// service at a public address.
private let deniedV4 = networks(
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32")

/// The only part of IPv6 that is allocated for the internet. Excludes loopback, mapped, NAT64, unique local,
/// link-local, SRv6 and multicast addresses.
private let globalUnicast = IPNetwork(IPAddress(v6High: 0x2000_0000_0000_0000, low: 0), 3)

/// Ranges inside of it: IETF protocol assignments (Teredo, benchmarking, ORCHID), documentation, 6to4.
private let deniedV6 = networks("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

private let nat64 = networks("64:ff9b::/96", "64:ff9b:1::/48")

/// AWS, GCP, Azure, OpenStack; AWS ECS; Alibaba; Oracle; Azure's wire server; AWS over IPv6.
private let metadataAddresses: Set<IPAddress> = Set(
    networks(
        "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"
    ).map(\.address))
