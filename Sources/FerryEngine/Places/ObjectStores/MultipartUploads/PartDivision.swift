import FerryCore

/// Division of an object into the parts of a multipart upload, which are numbered from 1. A pure value.
struct PartDivision: Sendable, Equatable {
    /// Bytes of a part of an object that is not divided into too many of them. Stores take parts of 5 MiB and
    /// more; larger ones need fewer requests, and smaller ones are lost less with a connection.
    static let usualPartByteCount: Int64 = 16 << 20
    /// Sizes of larger parts are multiples of this.
    private static let step: Int64 = 1 << 20

    /// Bytes of the object.
    let total: Int64
    /// Bytes of each part but the last.
    let partByteCount: Int64

    /// Divides an object of so many bytes, always in the same way.
    init(total: Int64) {
        self.total = total
        let least = (total - 1) / Int64(Limits.multipartPartCountMax) + 1
        partByteCount = max(Self.usualPartByteCount, (least + Self.step - 1) / Self.step * Self.step)
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
