import FerryCore
import Sys

/// Progress of the bytes that are staged, in the form of a running job's.
final class StagingProgress {
    /// Nanoseconds between two lines.
    private static let interval: Int64 = 100_000_000

    private let row: ProgressRow
    private let byteCount: Int64?
    /// Offset and time from which the rate is computed.
    private var begin: (offset: Int64, time: Int64)?
    private var shownAt: Int64 = 0

    /// `byteCount`: size of the file, or `nil` for a stream.
    init(_ row: ProgressRow, byteCount: Int64?) {
        self.row = row
        self.byteCount = byteCount
    }

    /// Takes the offset after the bytes that were sent.
    func note(_ offset: Int64) {
        let now = monotonicNanoseconds()
        let begin = self.begin.flatMap { $0.offset <= offset ? $0 : nil } ?? (offset: offset, time: now)
        self.begin = begin
        guard now - shownAt >= Self.interval else { return }
        shownAt = now
        var progress = [JSON.Member("bytes_sent", .integer(offset))]
        let rate = Double(offset - begin.offset) * 1e9 / Double(max(1, now - begin.time))
        if rate > 0 { progress.append(.init("bytes_per_second", .number(rate))) }
        if let byteCount {
            progress.append(.init("bytes_expected_to_send", .integer(byteCount)))
            if rate > 0 {
                progress.append(.init("seconds_remaining", .number(Double(byteCount - offset) / rate)))
            }
        }
        row.show(
            .object([
                .init("state", .string("running")), .init("kind", .string("upload")),
                .init("progress", .object(progress)),
            ]))
    }
}
