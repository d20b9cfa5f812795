/// UTC offsets of a place over time. All times in seconds since 1970.
public struct TimeZoneRules: Sendable, Equatable {
    /// A change of the UTC offset.
    public struct Transition: Sendable, Equatable {
        /// Time of the change.
        public var at: Int64
        /// Seconds east of Greenwich from then on.
        public var offset: Int64
    }

    /// Transitions in ascending order.
    private let transitions: [Transition]
    /// Offset before the first transition.
    private let firstOffset: Int64
    /// Rule after the last transition, or `nil` if the offset stays the same.
    private let footer: PosixTimeZone?

    /// The rules of UTC.
    public static let utc = TimeZoneRules(transitions: [], firstOffset: 0, footer: nil)

    init(transitions: [Transition], firstOffset: Int64, footer: PosixTimeZone?) {
        self.transitions = transitions
        self.firstOffset = firstOffset
        self.footer = footer
    }

    /// Returns the offset at a time, in seconds east of Greenwich.
    public func offset(at second: Int64) -> Int64 {
        if let footer, second >= transitions.last?.at ?? Int64.min { return footer.offset(at: second) }
        let next = index(after: second)
        return next == 0 ? firstOffset : transitions[next - 1].offset
    }

    /// Returns the next transition after a time, or `nil` if there is none.
    public func nextTransition(after second: Int64) -> Transition? {
        let next = index(after: second)
        if next < transitions.count { return transitions[next] }
        return footer?.nextTransition(after: second)
    }

    /// Returns the index of the first transition after a time.
    private func index(after second: Int64) -> Int {
        var (low, high) = (0, transitions.count)
        while low < high {
            let middle = (low + high) / 2
            if transitions[middle].at <= second { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: Wall clocks

    /// Returns the first instant at which the wall clock shows `local` (seconds as if it were UTC). If the
    /// clock is put forward over `local`, returns the end of the gap. If two instants show it, returns the
    /// earlier one.
    public func instant(local: Int64) -> Int64 {
        // No clock differs from UTC by more than 26 hours.
        var start = local - 100_000
        var offset = offset(at: start)
        while true {
            let instant = max(start, local - offset)
            guard let next = nextTransition(after: start), instant >= next.at else { return instant }
            (start, offset) = (next.at, next.offset)
        }
    }

    /// Returns the latest time that the wall clock has shown until `second`; later than the present one
    /// shortly after the clock was put back.
    public func latestLocal(through second: Int64) -> Int64 {
        var latest = second + offset(at: second)
        var start = second - 172_800
        var offset = offset(at: start)
        while let next = nextTransition(after: start), next.at <= second {
            latest = max(latest, next.at - 1 + offset)
            (start, offset) = (next.at, next.offset)
        }
        return latest
    }
}

// MARK: TZif

extension TimeZoneRules {
    /// Reads a TZif file of version 2 or later (RFC 9636 §3). Returns `nil` if it is damaged, something else,
    /// or has leap seconds, which Ferry's clocks do not count.
    public init?(tzif bytes: [UInt8]) {
        var reader = TZifReader(bytes: bytes)
        guard let first = reader.header(), first.version >= UInt8(ascii: "2"),
            reader.skip(first.byteCount(timeSize: 4)), let header = reader.header(), header.leapCount == 0,
            (1...256).contains(header.typeCount), header.timeCount <= 10_000
        else { return nil }
        var times: [Int64] = []
        for _ in 0..<header.timeCount {
            guard let time = reader.integer(byteCount: 8), time > times.last ?? Int64.min else { return nil }
            times.append(time)
        }
        guard let types = reader.bytes(header.timeCount) else { return nil }
        var offsets: [Int64] = []
        for _ in 0..<header.typeCount {
            guard let offset = reader.integer(byteCount: 4), abs(offset) < 100_000, reader.skip(2) else {
                return nil
            }
            offsets.append(offset)
        }
        guard types.allSatisfy({ Int($0) < offsets.count }),
            reader.skip(header.charCount + header.standardCount + header.universalCount),
            let text = reader.line()
        else { return nil }
        var footer: PosixTimeZone?
        if !text.isEmpty {
            footer = PosixTimeZone(text)
            guard footer != nil else { return nil }
        }
        self.init(
            transitions: zip(times, types).map { Transition(at: $0, offset: offsets[Int($1)]) },
            firstOffset: offsets[0], footer: footer)
    }
}

private struct TZifReader {
    struct Header {
        var version: UInt8
        var universalCount: Int
        var standardCount: Int
        var leapCount: Int
        var timeCount: Int
        var typeCount: Int
        var charCount: Int

        /// Returns the size of the data block after the header.
        func byteCount(timeSize: Int) -> Int {
            timeCount * (timeSize + 1) + typeCount * 6 + charCount + leapCount * (timeSize + 4)
                + standardCount + universalCount
        }
    }

    let bytes: [UInt8]
    private var offset = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func skip(_ count: Int) -> Bool {
        guard count <= bytes.count - offset else { return false }
        offset += count
        return true
    }

    mutating func bytes(_ count: Int) -> ArraySlice<UInt8>? {
        let start = offset
        return skip(count) ? bytes[start..<offset] : nil
    }

    /// Reads a signed big-endian integer.
    mutating func integer(byteCount: Int) -> Int64? {
        guard let slice = bytes(byteCount) else { return nil }
        let value = slice.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let unused = 64 - byteCount * 8
        return Int64(bitPattern: value << UInt64(unused)) >> Int64(unused)
    }

    mutating func header() -> Header? {
        guard let magic = bytes(4), magic.elementsEqual("TZif".utf8), let version = bytes(1)?.first, skip(15)
        else { return nil }
        var counts: [Int] = []
        for _ in 0..<6 {
            guard let count = integer(byteCount: 4), (0...1_000_000).contains(count) else { return nil }
            counts.append(Int(count))
        }
        return Header(
            version: version, universalCount: counts[0], standardCount: counts[1], leapCount: counts[2],
            timeCount: counts[3], typeCount: counts[4], charCount: counts[5])
    }

    /// Reads the text between two line feeds.
    mutating func line() -> ArraySlice<UInt8>? {
        guard bytes(1)?.first == 10, let end = bytes[offset...].firstIndex(of: 10) else { return nil }
        return bytes[offset..<end]
    }
}

/// Finds the rules of a place by its IANA name (`Europe/Berlin`). May be called on any thread; may read a
/// small file.
public protocol TimeZoneSource: Sendable {
    /// Returns the rules, or `nil` if there is no such place.
    func rules(named name: String) -> TimeZoneRules?
}

/// A fixed set of places, for uses without files.
public struct KnownTimeZones: TimeZoneSource {
    private let zones: [String: TimeZoneRules]
    /// Creates a set; the default has UTC only.
    public init(_ zones: [String: TimeZoneRules] = ["UTC": .utc]) { self.zones = zones }
    /// Returns the rules of a place, or `nil` if it is not in the set.
    public func rules(named name: String) -> TimeZoneRules? { zones[name] }
}
