/// What a download has got so far and a later attempt, or another job, may go on from.
package struct PartialDownload: Sendable, Equatable {
    package var byteCount: Int64
    /// Bytes of the whole file; nil: nobody knows.
    package var total: Int64?
    package init(byteCount: Int64, total: Int64?) {
        self.byteCount = byteCount
        self.total = total
    }
}

extension PartialDownload {
    /// What is shown of a job that has them while no attempt runs.
    var progress: TransferProgress {
        TransferProgress(bytesReceived: byteCount, bytesExpectedToReceive: total)
    }

    func pack(into bytes: inout [UInt8]) {
        bytes.appendPacked(UInt64(max(0, byteCount)))
        bytes.appendPacked(total.map { UInt64(max(0, $0)) + 1 } ?? 0)
    }

    init(_ reader: inout PackedReader) throws(PackedReader.Damage) {
        byteCount = try reader.number(Int64.self)
        let total = try reader.number(Int64.self)
        self.total = total == 0 ? nil : total - 1
    }
}
