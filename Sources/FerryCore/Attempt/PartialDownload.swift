/// The bytes of a download so far, from which a later attempt or another job can resume.
public struct PartialDownload: Sendable, Equatable {
    /// Bytes so far.
    public var byteCount: Int64
    /// Bytes of the whole file, or `nil` if not known.
    public var total: Int64?
    /// Creates a partial download.
    public init(byteCount: Int64, total: Int64?) {
        self.byteCount = byteCount
        self.total = total
    }
}

extension PartialDownload {
    /// Progress to show for a job with such bytes while no attempt runs.
    var progress: TransferProgress {
        TransferProgress(bytesReceived: byteCount, bytesExpectedToReceive: total)
    }

    /// Appends the packed form to `bytes`.
    func pack(into bytes: inout [UInt8]) {
        bytes.appendPacked(UInt64(max(0, byteCount)))
        bytes.appendPacked(total.map { UInt64(max(0, $0)) + 1 } ?? 0)
    }

    /// Reads what `pack(into:)` appended.
    init(_ reader: inout PackedReader) throws(PackedReader.Damage) {
        byteCount = try reader.number(Int64.self)
        let total = try reader.number(Int64.self)
        self.total = total == 0 ? nil : total - 1
    }
}
