internal import IDNA

/// The host of a URL: a domain name, or an address. The only place that decides how a host is spelled, so
/// that limits, the egress policy and cookies compare the same text.
public enum HostName {
    /// Returns a host with percent-encoded bytes or characters beyond ASCII in ASCII (WHATWG URL §3.5).
    public static func ascii(_ host: Substring) throws(WebURL.Failure) -> String {
        guard let bytes = percentDecoded(host), let name = String(validating: bytes, as: UTF8.self),
            let ascii = InternationalName.ascii(name)
        else { throw .invalidInternationalHost }
        return ascii
    }

    /// Returns a host in lower case and ASCII, and the address if it is one in any form that inet_aton(3)
    /// reads (`127.1`, `0x7f000001`). The host is the address in its one form then (WHATWG URL §3.6).
    static func parse(_ host: Substring) throws(WebURL.Failure) -> (String, IPAddress?) {
        guard !host.isEmpty else { throw .emptyHost }
        if host.utf8.first == UInt8(ascii: "[") { return try bracketed(host) }
        if host.utf8.contains(where: { $0 >= 0x80 || $0 == UInt8(ascii: "%") }) {
            return try checked(Substring(ascii(host)))
        }
        return try checked(host)
    }

    /// Returns `true` for names that always mean loopback addresses (RFC 6761 §6.3): `localhost` and names
    /// below it.
    static func isLocal(_ host: String) -> Bool {
        let name = host.utf8.last == UInt8(ascii: ".") ? host.dropLast() : host[...]
        return name == "localhost" || name.hasSuffix(".localhost")
    }

    private static func checked(_ host: Substring) throws(WebURL.Failure) -> (String, IPAddress?) {
        guard !host.isEmpty else { throw .emptyHost }
        var lower: [UInt8] = []
        lower.reserveCapacity(host.utf8.count)
        // Start of the last label that is not empty, and length of the current label.
        var (last, length) = (0, 0)
        for byte in host.utf8 {
            if byte == UInt8(ascii: ".") {
                guard length > 0 else { throw .invalidHost }
                length = 0
            } else {
                if length == 0 { last = lower.count }
                length += 1
                guard length <= 63, isLabelByte(byte) else { throw .invalidHost }
            }
            lower.append((UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte)
        }
        guard lower.count <= 253 else { throw .invalidHost }
        let name = String(decoding: lower, as: UTF8.self)
        let end = length == 0 ? lower.count - 1 : lower.count
        // A name whose last label is a number is an IPv4 address or invalid (WHATWG URL, "ends in a number").
        // libcurl accepts no IPv4 address with a dot at its end.
        if let address = IPAddress(dottedDecimal: lower) { return (name, address) }
        guard (48...57).contains(lower[last]),
            IPAddress.isNumber(String(decoding: lower[last..<end], as: UTF8.self)[...])
        else { return (name, nil) }
        let text = String(decoding: lower[..<end], as: UTF8.self)
        guard let address = IPAddress(legacyV4: text) else { throw .invalidHost }
        return (address.description, address)
    }

    private static func bracketed(_ host: Substring) throws(WebURL.Failure) -> (String, IPAddress?) {
        guard host.utf8.allSatisfy({ $0 < 0x80 }) else { throw .invalidHost }
        let lower = host.lowercased()
        guard !lower.utf8.contains(UInt8(ascii: "%")) else { throw .zoneIdentifier }
        guard let address = IPAddress(text: String(lower.dropFirst().dropLast())), address.isIPv6 else {
            throw .invalidHost
        }
        return ("[\(address)]", address)
    }

    private static func isLabelByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
