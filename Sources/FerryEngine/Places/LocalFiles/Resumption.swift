import FerryCore
import Glibc

/// Bytes of an earlier attempt that this one wants to continue: locked, and checked as far as possible
/// without the server.
final class Resumption: Sendable {
    let file: PartialFile
    let record: PartialRecord
    /// The bytes that are not requested again.
    let ranges: ByteRanges
    var byteCount: Int64 { ranges.byteCount }
    /// The first byte to request, if there is no gap before it.
    var offset: Int64 { ranges.prefixByteCount }

    /// Opens and locks the partial file `name`. `nil` if its bytes cannot be used: it has no record, another
    /// request fetched it, an attempt that only seemed dead holds it, or none of its bytes has outlasted a
    /// power cut. Throws `storage_unavailable` if it cannot be read now.
    ///
    /// `withGaps`: whether bytes behind a gap count; otherwise they are cut off.
    init?(
        _ name: String, of destination: Destination, in place: StorageDirectory, identity: String,
        withGaps: Bool
    ) throws(TransferError) {
        guard
            let json = try place.contents(
                PartialNames.record(of: name), byteCountMax: EngineLimits.recordByteCountMax),
            let found = PartialRecord(json: json), found.identity == identity,
            let (descriptor, status) = try place.ownFile(name)
        else { return nil }
        let usable = found.usable(size: Int64(status.st_size))
        let kept = withGaps ? usable : ByteRanges([0..<usable.prefixByteCount])
        let size = kept.ranges.last?.upperBound ?? 0
        // Segments request the last byte again if it may be the file's last, as `offset(after:)` says.
        let isWhole = found.total.map { $0 == kept.byteCount } ?? true
        let ranges = withGaps && isWhole ? kept.clipped(to: size - 1) : kept
        guard UInt64(status.st_ino) == found.inode, !ranges.isEmpty, size <= found.total ?? .max,
            flock(descriptor, LOCK_EX | LOCK_NB) == 0
        else {
            close(descriptor)
            return nil
        }
        place.giveModes(descriptor, status)
        var record = found.clipped(to: size)
        record.isSequential = !withGaps
        record.ranges = kept
        // If bytes were only appended, the size says how many.
        let isIntact =
            found.isSequential != withGaps && found.boot == Boot.identifier && size == Int64(status.st_size)
            && found.synced == record.synced && (record.isSequential || found.ranges == kept)
        self.record = record
        self.ranges = ranges
        file = PartialFile(
            destination, name: name, descriptor: descriptor, byteCount: ranges.ranges.last?.upperBound ?? 0,
            record: record, onDisk: found)
        guard !isIntact else { return }
        // Bytes behind a gap or from before a power cut do not count. They are cut off, since the size would
        // count them as written in this boot.
        guard ftruncate(descriptor, off_t(size)) == 0,
            file.checkpoint(syncs: false, ranges: kept)
        else {
            file.letGo()
            return nil
        }
    }
}
