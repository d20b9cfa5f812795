import FerryCore

/// Division of an object into the parts of a multipart upload, which are numbered from 1. A pure value.
struct PartDivision: Sendable, Equatable {
    /// Bytes of a part of an object that is not divided into too many of them. Stores take parts of 5 MiB and
    /// more; larger ones need fewer requests, and smaller ones are lost less with a connection.
    static let usualPartByteCount: Int64 = 16 << 20
    /// Bytes of a part of a copy from another server, which is in memory while it is sent, if that is enough.
    static let copiedPartByteCount: Int64 = 8 << 20
    /// Bytes of a part of a copy at most.
    private static let copiedPartByteCountMax: Int64 = 32 << 20
    /// Bytes of a copy at most.
    static let copyByteCountMax = copiedPartByteCountMax * Int64(Limits.multipartPartCountMax)
    /// Sizes of larger parts are multiples of this.
    private static let step: Int64 = 1 << 20

    /// Bytes of the object.
    let total: Int64
    /// Bytes of each part but the last.
    let partByteCount: Int64

    /// Divides an object of so many bytes, always in the same way.
    /// `byteCount`: bytes of a part, if there are not too many of them.
    init(total: Int64, atLeast byteCount: Int64 = usualPartByteCount) {
        self.total = total
        partByteCount = Self.partByteCount(of: total, atLeast: byteCount)
    }

    /// Divides what has come of an object into parts of this size. `isWhole`: whether that is all of it; if
    /// not, what follows the last whole part is left out.
    init(arrived byteCount: Int64, isWhole: Bool, partByteCount: Int64) {
        total = isWhole ? byteCount : byteCount / partByteCount * partByteCount
        self.partByteCount = partByteCount
    }

    private static func partByteCount(of total: Int64, atLeast byteCount: Int64) -> Int64 {
        let least = (total - 1) / Int64(Limits.multipartPartCountMax) + 1
        return max(byteCount, (least + step - 1) / step * step)
    }

    /// Returns the bytes of a part of a copy of so many bytes; `nil`: their number is not known.
    static func partByteCount(ofCopy total: Int64?) -> Int64 {
        guard let total else { return usualPartByteCount }
        return min(copiedPartByteCountMax, partByteCount(of: total, atLeast: copiedPartByteCount))
    }

    /// Divides an object as an earlier upload has done it. `nil` if that is no division.
    init?(total: Int64, partByteCount: Int64) {
        guard partByteCount >= Self.step,
            (total - 1) / partByteCount < Int64(Limits.multipartPartCountMax)
        else { return nil }
        self.total = total
        self.partByteCount = partByteCount
    }

    /// Number of parts. An object without bytes has one, which has none either.
    var count: Int { max(1, Int((total + partByteCount - 1) / partByteCount)) }

    /// Returns the bytes of a part.
    func range(of part: Int) -> Range<Int64> {
        let start = Int64(part - 1) * partByteCount
        return start..<min(start + partByteCount, total)
    }
}
