/// The bytes of one file that are done, being fetched, and free. Every byte is exactly one of the three,
/// whatever happens to the parts. A pure value.
package struct SegmentPlan: Sendable, Equatable {
    /// Identifies a running part; never used again within a plan.
    package typealias Part = Int

    private enum State: Sendable, Equatable {
        case done, free
        /// `limit`: the end of what the part's response can provide, at or beyond the part's own end.
        case running(Part, limit: Int64)

        var part: Part? { if case .running(let part, _) = self { part } else { nil } }
    }

    private struct Piece: Sendable, Equatable {
        var start: Int64
        var end: Int64
        var state: State
        var count: Int64 { end - start }
    }

    /// In order, without gaps; two neighbours are never both done or both free.
    private var pieces: [Piece]
    /// Bytes of the file; `nil` until that is known.
    package private(set) var total: Int64?
    /// Number of done bytes.
    package private(set) var doneByteCount: Int64

    /// `done`: ranges that an earlier attempt has left, in order and not adjacent.
    package init(total: Int64?, done: [Range<Int64>] = []) {
        self.total = total
        doneByteCount = 0
        pieces = []
        let end = total ?? .max
        var start: Int64 = 0
        for range in done where range.lowerBound >= start && range.upperBound <= end && !range.isEmpty {
            if range.lowerBound > start {
                pieces.append(Piece(start: start, end: range.lowerBound, state: .free))
            }
            pieces.append(Piece(start: range.lowerBound, end: range.upperBound, state: .done))
            start = range.upperBound
            doneByteCount += Int64(range.count)
        }
        if end > start { pieces.append(Piece(start: start, end: end, state: .free)) }
        normalise()
    }

    /// Whether all bytes are done; `false` while the total is unknown.
    package var isComplete: Bool { doneByteCount == total }

    /// Number of done bytes from byte 0 on without a gap.
    package var prefix: Int64 {
        guard let first = pieces.first, first.state == .done else { return 0 }
        return first.end
    }

    /// The done bytes in order, as ranges that are not adjacent.
    package var doneRanges: [Range<Int64>] {
        pieces.compactMap { $0.state == .done ? $0.start..<$0.end : nil }
    }

    /// Number of running parts.
    package var runningCount: Int { pieces.count { $0.state.part != nil } }
    /// Whether bytes are free.
    package var hasFree: Bool { pieces.contains { $0.state == .free } }

    /// Returns the bytes that a part still has to fetch; `nil` if it has all or was ended.
    package func rest(of part: Part) -> Range<Int64>? {
        guard let index = index(of: part) else { return nil }
        return pieces[index].start..<pieces[index].end
    }

    /// Returns the end of what the part's response can provide; `nil` as for `rest`.
    package func limit(of part: Part) -> Int64? {
        guard let index = index(of: part), case .running(_, let limit) = pieces[index].state else {
            return nil
        }
        return limit
    }

    /// Assigns a range to a new part and returns it: the first free one, otherwise the second half of the
    /// largest rest. `nil` if no range is worth a request.
    ///
    /// `halfMin`: bytes that each half of a part's rest must have.
    package mutating func begin(_ part: Part, halfMin: (Part) -> Int64) -> Range<Int64>? {
        // No input reaches this: a part begins once, when its request is made.
        precondition(index(of: part) == nil, "the part runs already")
        if let index = pieces.firstIndex(where: { $0.state == .free }) {
            pieces[index].state = .running(part, limit: pieces[index].end)
            return pieces[index].start..<pieces[index].end
        }
        guard total != nil else { return nil }
        let largestFirst = pieces.indices.filter { pieces[$0].state.part != nil }
            .sorted { (pieces[$0].count, $1) > (pieces[$1].count, $0) }
        for index in largestFirst {
            guard let largest = pieces[index].state.part, pieces[index].count / 2 >= max(1, halfMin(largest))
            else {
                continue
            }
            return split(index, for: part)
        }
        return nil
    }

    private mutating func split(_ index: Int, for part: Part) -> Range<Int64> {
        let piece = pieces[index]
        let middle = piece.start + piece.count / 2
        // Two writers do not share a page of the file, if possible.
        let aligned = middle & ~Int64(4_095)
        let cut = aligned > piece.start ? aligned : middle
        pieces[index].end = cut
        pieces.insert(
            Piece(start: cut, end: piece.end, state: .running(part, limit: piece.end)), at: index + 1)
        return cut..<piece.end
    }

    /// The part's response has begun and ends at `limit`: bytes that it cannot provide become free.
    package mutating func answered(_ part: Part, until limit: Int64) {
        guard let index = index(of: part) else { return }
        let piece = pieces[index]
        if limit >= piece.end {
            pieces[index].state = .running(part, limit: limit)
        } else if limit > piece.start {
            pieces[index] = Piece(start: piece.start, end: limit, state: .running(part, limit: limit))
            pieces.insert(Piece(start: limit, end: piece.end, state: .free), at: index + 1)
            normalise()
        } else {
            end(part)
        }
    }

    /// Marks so many received bytes as done. Returns how many of them belong to the part.
    package mutating func advance(_ part: Part, by count: Int) -> Int {
        guard let index = index(of: part) else { return 0 }
        let taken = min(Int64(count), pieces[index].count)
        guard taken > 0 else { return 0 }
        let start = pieces[index].start
        pieces[index].start += taken
        doneByteCount += taken
        if index > 0, pieces[index - 1].state == .done {
            pieces[index - 1].end += taken
        } else {
            pieces.insert(Piece(start: start, end: start + taken, state: .done), at: index)
        }
        if pieces.contains(where: { $0.count == 0 }) { normalise() }
        return Int(taken)
    }

    /// Ends a part. Its rest goes to the part before it, if that part's response reaches further, and is free
    /// otherwise.
    package mutating func end(_ part: Part) {
        guard let index = index(of: part) else { return }
        pieces[index].state = .free
        normalise()
        for index in pieces.indices.dropFirst() where pieces[index].state == .free {
            guard case .running(_, let limit) = pieces[index - 1].state else { continue }
            let end = min(limit, pieces[index].end)
            guard end > pieces[index].start else { continue }
            pieces[index - 1].end = end
            pieces[index].start = end
        }
        normalise()
    }

    /// The only part of a file of unknown length has reached its end.
    package mutating func finish() {
        guard total == nil, let end = pieces.first(where: { $0.state != .done })?.start else { return }
        total = end
        pieces.removeAll { $0.start >= end }
    }

    private func index(of part: Part) -> Int? { pieces.firstIndex { $0.state.part == part } }

    /// Removes empty pieces and joins equal neighbours.
    private mutating func normalise() {
        var joined: [Piece] = []
        joined.reserveCapacity(pieces.count)
        for piece in pieces where piece.count > 0 {
            if let last = joined.last, last.state == piece.state, piece.state.part == nil {
                joined[joined.count - 1].end = piece.end
            } else {
                joined.append(piece)
            }
        }
        pieces = joined
    }
}
