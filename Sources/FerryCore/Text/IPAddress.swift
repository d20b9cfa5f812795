/// An IPv4 or IPv6 address, with the first byte in the most significant place.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    /// `true` for IPv6.
    public let isIPv6: Bool
    /// First 8 bytes of an IPv6 address; 0 for IPv4.
    public let high: UInt64
    /// Last 8 bytes of an IPv6 address; an IPv4 address in the lowest 32 bits.
    public let low: UInt64

    /// Creates an IPv4 address.
    public init(v4: UInt32) {
        (isIPv6, high, low) = (false, 0, UInt64(v4))
    }

    /// Creates an IPv6 address.
    public init(v6High: UInt64, low: UInt64) {
        (isIPv6, high, self.low) = (true, v6High, low)
    }

    /// Reads `a.b.c.d` in decimal without leading zeros, or an IPv6 address without brackets or zone (RFC
    /// 4291 §2.2); `nil` for anything else.
    public init?(text: some StringProtocol) {
        let text = String(text)
        if text.utf8.contains(UInt8(ascii: ":")) {
            guard let groups = Self.groups(text) else { return nil }
            let words = groups.map(UInt64.init)
            self.init(
                v6High: words[0] << 48 | words[1] << 32 | words[2] << 16 | words[3],
                low: words[4] << 48 | words[5] << 32 | words[6] << 16 | words[7])
        } else {
            guard let address = Self.dottedQuad(text[...]) else { return nil }
            self.init(v4: address)
        }
    }

    /// Reads an IPv4 address as `description` writes it: four decimal numbers without leading zeros. `nil`
    /// for anything else.
    init?(dottedDecimal text: [UInt8]) {
        guard text.count <= 15 else { return nil }
        var (address, number, digitCount, dotCount): (UInt32, UInt32, Int, Int) = (0, 0, 0, 0)
        for byte in text {
            if byte == UInt8(ascii: ".") {
                guard digitCount > 0, dotCount < 3 else { return nil }
                (address, number, digitCount, dotCount) = (address << 8 | number, 0, 0, dotCount + 1)
            } else {
                guard byte &- 48 < 10, digitCount == 0 || number > 0 else { return nil }
                (number, digitCount) = (number * 10 + UInt32(byte &- 48), digitCount + 1)
                guard number < 256 else { return nil }
            }
        }
        guard dotCount == 3, digitCount > 0 else { return nil }
        self.init(v4: address << 8 | number)
    }

    /// Reads an IPv4 address as inet_aton(3) does: one to four numbers, each decimal, octal (`0…`) or
    /// hexadecimal (`0x…`), of which the last fills the remaining bytes; `nil` for anything else.
    public init?(legacyV4 text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count) else { return nil }
        var address: UInt64 = 0
        for (index, part) in parts.enumerated() {
            guard let value = Self.number(part) else { return nil }
            let isLast = index == parts.count - 1
            let bitCount = isLast ? 32 - 8 * UInt64(index) : 8
            guard value < 1 << bitCount else { return nil }
            address |= isLast ? value : value << (24 - 8 * UInt64(index))
        }
        self.init(v4: UInt32(address))
    }

    /// Returns `true` if a label of a host name is a number for inet_aton(3), in range or not.
    public static func isNumber(_ label: Substring) -> Bool {
        let bytes = Array(label.utf8)
        if bytes.count >= 2, bytes[0] == UInt8(ascii: "0"), bytes[1] | 32 == UInt8(ascii: "x") {
            return bytes[2...].allSatisfy { Character(Unicode.Scalar($0)).isHexDigit }
        }
        return !bytes.isEmpty && bytes.allSatisfy { (48...57).contains($0) }
    }

    /// The IPv4 address in an IPv4-mapped one (`::ffff:a.b.c.d`); every other address unchanged.
    public var canonical: IPAddress {
        isIPv6 && high == 0 && low >> 32 == 0xFFFF ? IPAddress(v4: UInt32(truncatingIfNeeded: low)) : self
    }

    /// `true` if the address is the machine's own loopback: 127.0.0.0/8, `::1`, and what is mapped to these.
    var isLoopback: Bool {
        let address = canonical
        return address.isIPv6 ? high == 0 && low == 1 : address.low >> 24 == 127
    }

    /// `a.b.c.d`, or an IPv6 address without brackets, in lower case, whose longest run of two or more zero
    /// groups is `::` (WHATWG URL §3.6).
    public var description: String {
        guard isIPv6 else {
            return stride(from: 24, through: 0, by: -8).map { "\(low >> UInt64($0) & 0xFF)" }
                .joined(separator: ".")
        }
        let groups = [high, low].flatMap { word in
            stride(from: 48, through: 0, by: -16).map { word >> UInt64($0) & 0xFFFF }
        }
        var gap = 0..<0
        var start = 0
        for (index, group) in groups.enumerated() {
            if group != 0 { start = index + 1 }
            if index + 1 - start > max(1, gap.count) { gap = start..<(index + 1) }
        }
        let text = { (groups: ArraySlice<UInt64>) in
            groups.map { String($0, radix: 16) }.joined(separator: ":")
        }
        guard !gap.isEmpty else { return text(groups[...]) }
        return text(groups[..<gap.lowerBound]) + "::" + text(groups[gap.upperBound...])
    }

    private static func number(_ text: Substring) -> UInt64? {
        guard isNumber(text) else { return nil }
        if text.utf8.count >= 2, text.utf8.first == UInt8(ascii: "0") {
            let isHexadecimal = text.dropFirst().utf8.first.map { $0 | 32 == UInt8(ascii: "x") } ?? false
            let digits = text.dropFirst(isHexadecimal ? 2 : 1)
            return digits.isEmpty ? 0 : UInt64(digits, radix: isHexadecimal ? 16 : 8)
        }
        return UInt64(text)
    }

    private static func dottedQuad(_ text: Substring) -> UInt32? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var address: UInt32 = 0
        for part in parts {
            guard (1...3).contains(part.utf8.count), part.utf8.allSatisfy({ (48...57).contains($0) }),
                part.utf8.count == 1 || part.utf8.first != UInt8(ascii: "0"), let byte = UInt8(part)
            else { return nil }
            address = address << 8 | UInt32(byte)
        }
        return address
    }

    /// Returns the eight groups of an IPv6 address.
    private static func groups(_ text: String) -> [UInt16]? {
        var parts = text.split(separator: ":", omittingEmptySubsequences: false)
        // A leading or trailing "::" leaves two empty parts, where one stands for the gap.
        if parts.first?.isEmpty == true {
            guard parts.count > 2, parts[1].isEmpty else { return nil }
            parts.removeFirst()
        }
        if parts.last?.isEmpty == true {
            guard parts.count > 1, parts[parts.count - 2].isEmpty else { return nil }
            parts.removeLast()
        }
        var groups: [UInt16] = []
        var gap: Int?
        for (index, part) in parts.enumerated() {
            if part.isEmpty {
                guard gap == nil else { return nil }
                gap = groups.count
            } else if part.utf8.contains(UInt8(ascii: ".")) {
                guard index == parts.count - 1, let address = dottedQuad(part) else { return nil }
                groups += [UInt16(address >> 16), UInt16(truncatingIfNeeded: address)]
            } else {
                guard part.utf8.count <= 4, part.utf8.first != UInt8(ascii: "+"),
                    let group = UInt16(part, radix: 16)
                else { return nil }
                groups.append(group)
            }
        }
        guard let gap else { return groups.count == 8 ? groups : nil }
        guard groups.count < 8 else { return nil }
        return groups[..<gap] + [UInt16](repeating: 0, count: 8 - groups.count) + groups[gap...]
    }
}

/// A range of addresses, such as `10.0.0.0/8` or `fd00::/8`, or a single address.
public struct IPNetwork: Sendable, Hashable {
    /// Lowest address of the range.
    public let address: IPAddress
    /// Length of the prefix in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    public let prefixLength: Int

    /// Reads CIDR notation (RFC 4632 §3.1). Ignores bits after the prefix; converts an IPv4-mapped range to
    /// the IPv4 range. `nil` for anything else.
    public init?(cidr: some StringProtocol) {
        let parts = String(cidr).split(separator: "/", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let written = IPAddress(text: parts[0]) else { return nil }
        var length = written.isIPv6 ? 128 : 32
        if parts.count == 2 {
            guard parts[1].utf8.count <= 3, parts[1].utf8.allSatisfy({ (48...57).contains($0) }),
                let number = Int(parts[1]), number <= length
            else { return nil }
            length = number
        }
        let address = length >= 96 ? written.canonical : written
        self.init(address, address.isIPv6 == written.isIPv6 ? length : length - 96)
    }

    init(_ address: IPAddress, _ prefixLength: Int) {
        let (high, low) = Self.mask(prefixLength, isIPv6: address.isIPv6)
        self.address =
            address.isIPv6
            ? IPAddress(v6High: address.high & high, low: address.low & low)
            : IPAddress(v4: UInt32(truncatingIfNeeded: address.low & low))
        self.prefixLength = prefixLength
    }

    /// Returns `true` if the range contains the address. An IPv4-mapped address is IPv6 here; pass its
    /// `canonical` address.
    public func contains(_ other: IPAddress) -> Bool {
        let (high, low) = Self.mask(prefixLength, isIPv6: address.isIPv6)
        return other.isIPv6 == address.isIPv6 && other.high & high == address.high
            && other.low & low == address.low
    }

    private static func mask(_ length: Int, isIPv6: Bool) -> (high: UInt64, low: UInt64) {
        guard isIPv6 else { return (0, UInt64(~UInt32(0) << UInt32(32 - length))) }
        return (
            length >= 64 ? ~0 : ~(UInt64.max >> UInt64(length)),
            length <= 64 ? 0 : UInt64.max << UInt64(128 - length)
        )
    }
}
