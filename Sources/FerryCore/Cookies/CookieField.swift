/// A request, as far as the cookies of a jar depend on it.
struct CookieRequest {
    let path: String
    let isSecure: Bool
    let isSameSite: Bool
    let now: Timestamp
}

/// The value of a `Cookie` field while it is made (RFC 6265bis §5.8.3).
struct CookieField {
    /// The pairs as they were added, with separators.
    private var octets: [UInt8] = []
    /// The pairs and what orders them.
    private var pairs: [(order: Cookie.Order, range: Range<Int>)] = []
    /// `true` if the pairs were added in order.
    private var isOrdered = true

    /// Adds the pair of a cookie.
    mutating func add(_ name: [UInt8], _ value: [UInt8], _ order: Cookie.Order) {
        if octets.isEmpty {
            octets.reserveCapacity(512)
        } else {
            octets.append(UInt8(ascii: ";"))
            octets.append(UInt8(ascii: " "))
        }
        let start = octets.count
        if !name.isEmpty {
            octets.append(contentsOf: name)
            octets.append(UInt8(ascii: "="))
        }
        octets.append(contentsOf: value)
        if isOrdered, let last = pairs.last, order < last.order { isOrdered = false }
        pairs.append((order, start..<octets.count))
    }

    /// The value, or `nil` without a pair.
    var value: [UInt8]? {
        if pairs.isEmpty { return nil }
        if isOrdered { return octets }
        var value: [UInt8] = []
        value.reserveCapacity(octets.count)
        for pair in pairs.sorted(by: { ($0.order, $0.range.lowerBound) < ($1.order, $1.range.lowerBound) }) {
            if !value.isEmpty {
                value.append(UInt8(ascii: ";"))
                value.append(UInt8(ascii: " "))
            }
            value.append(contentsOf: octets[pair.range])
        }
        return value
    }
}
