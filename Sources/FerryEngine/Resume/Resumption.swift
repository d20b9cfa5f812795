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

/// The response whose bytes begin a file.
struct FirstResponse {
    let head: ResponseHead
    /// Bytes of the whole file, or `nil` if that is unknown.
    let total: Int64?
    let attempt: Attempt
    /// The request that was answered.
    let hop: Hop

    /// What a later request needs to continue the bytes; `nil` if none can.
    var record: PartialRecord? { PartialRecord(head, total: total, of: attempt.spec, from: hop) }
}

extension PartialRecord {
    /// Whether a later attempt can continue a job's download at all: the request must leave `Range` and
    /// `If-Range` to Ferry, and ask for no content coding.
    static func isPossible(_ spec: JobSpec) -> Bool {
        spec.kind == .download && spec.request.method == "GET" && spec.request.acceptEncoding == .identity
            && !spec.request.headers.contains { header in
                equalIgnoringCase(header.name, "range") || equalIgnoringCase(header.name, "if-range")
                    || equalIgnoringCase(header.name, "accept-encoding")
                        && !equalIgnoringCase(header.value, "identity")
            }
    }

    /// The record of a response whose bytes begin the file; `nil` if they could not be continued. `total`:
    /// bytes of the whole file, or `nil` if that is unknown.
    init?(_ head: ResponseHead, total: Int64?, of spec: JobSpec, from hop: Hop) {
        guard Self.isPossible(spec), hop.method == "GET", [200, 206].contains(head.status),
            head.contentCodings.isEmpty || total != nil,
            head.first("accept-ranges").map({ equalIgnoringCase($0, "none") }) != true
        else { return nil }
        let validator = Validator(head)
        guard
            validator != nil || spec.integrity.provesFile
                || spec.retry.resumesWithoutValidator && total != nil
        else { return nil }
        self.init(
            identity: Self.identity(of: spec.request), source: Self.source(of: hop.url),
            validator: validator, total: total)
        codings = head.contentCodings
        describe(head.mimeType, head.announcedDigests(of: .whole))
    }

    /// What the record says about the file.
    var known: KnownFile {
        KnownFile(validator: validator, total: total, source: source, codings: codings, mimeType: mimeType)
    }

    /// Returns the first byte to request if there are `count` bytes from byte 0 on. The last one is requested
    /// again if it may be the file's last: a response without bytes could not tell whether the server's file
    /// is still the same.
    func offset(after count: Int64) -> Int64 { min(count, (total ?? count) - 1) }
}
