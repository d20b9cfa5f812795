/// A set of bytes of one file: half-open ranges in order, not adjacent.
struct ByteRanges: Sendable, Equatable {
    private(set) var ranges: [Range<Int64>] = []

    init() {}

    /// The ranges may overlap and come in any order; empty ones and those below zero are left out.
    init(_ ranges: some Sequence<Range<Int64>>) {
        for range in ranges { insert(range) }
    }

    var isEmpty: Bool { ranges.isEmpty }

    /// Number of bytes.
    var byteCount: Int64 { ranges.reduce(0) { $0 + $1.upperBound - $1.lowerBound } }

    /// Number of bytes from byte 0 on without a gap.
    var prefixByteCount: Int64 { ranges.first.flatMap { $0.lowerBound == 0 ? $0.upperBound : nil } ?? 0 }

    mutating func insert(_ range: Range<Int64>) {
        guard range.lowerBound >= 0, !range.isEmpty else { return }
        var (start, end) = (range.lowerBound, range.upperBound)
        let first = ranges.firstIndex { $0.upperBound >= start } ?? ranges.endIndex
        var last = first
        while last < ranges.endIndex, ranges[last].lowerBound <= end {
            start = min(start, ranges[last].lowerBound)
            end = max(end, ranges[last].upperBound)
            last += 1
        }
        ranges.replaceSubrange(first..<last, with: [start..<end])
    }

    /// Returns the bytes that are not in `others`.
    func subtracting(_ others: ByteRanges) -> ByteRanges {
        var rest = ranges
        for other in others.ranges {
            rest = rest.flatMap { range in
                guard range.overlaps(other) else { return [range] }
                return [
                    range.lowerBound..<max(range.lowerBound, other.lowerBound),
                    min(range.upperBound, other.upperBound)..<range.upperBound,
                ]
            }
        }
        return ByteRanges(rest)
    }

    /// Returns the bytes below `byteCount`.
    func clipped(to byteCount: Int64) -> ByteRanges {
        ByteRanges(ranges.map { min($0.lowerBound, byteCount)..<min($0.upperBound, byteCount) })
    }
}
