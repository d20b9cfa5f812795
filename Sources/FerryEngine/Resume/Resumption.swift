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
        // The last byte is requested again if it may be the file's last: a response without bytes could not
        // tell whether the server's file is still the same.
        let isWhole = found.total.map { $0 == kept.byteCount } ?? true
        let ranges = isWhole ? kept.clipped(to: size - 1) : kept
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

    /// The request's fields `Range` and, if there is a validator, `If-Range` (RFC 9110 §13.1.5, §14.2).
    var headers: [JobSpec.Pair] {
        let range = JobSpec.Pair("Range", "bytes=\(offset)-")
        return record.validator.map { [range, JobSpec.Pair("If-Range", $0.text)] } ?? [range]
    }

    /// Returns the length of the whole file if the response continues exactly these bytes, otherwise `nil`.
    /// The response must be a 206 whose range begins at `offset`, from the same URL, with the same total
    /// length and validator, and without a content coding.
    ///
    /// `isRenewed`: whether the job's link was changed.
    func total(continuedBy head: ResponseHead, from url: WebURL, isRenewed: Bool) -> Int64? {
        guard head.status == 206, head.contentCodings.isEmpty, PartialRecord.source(of: url) == record.source,
            let range = ContentRange(head), range.first == offset,
            head.contentLength ?? range.byteCount == range.byteCount
        else { return nil }
        if let validator = record.validator, !validator.matches(head) {
            guard validator.isLeftOut(of: head), !isRenewed, record.total != nil, range.total == record.total
            else { return nil }
        }
        switch (range.total, record.total) {
        case (let total?, let known?): return total == known ? total : nil
        // Without a validator, the two lengths have to agree.
        case (let total?, nil): return record.validator == nil ? nil : total
        case (nil, let known?): return range.last + 1 == known ? known : nil
        case (nil, nil): return nil
        }
    }
}

/// The field `Content-Range: bytes 5-9/10` of a response to one range (RFC 9110 §14.4).
struct ContentRange: Sendable, Equatable {
    let first: Int64
    /// The last byte, inclusive.
    let last: Int64
    /// Bytes of the whole file; `nil` if the server does not tell (`*`).
    let total: Int64?

    var byteCount: Int64 { last - first + 1 }
    var isWhole: Bool { first == 0 && last + 1 == total }

    /// `nil` if there is none or more than one, or if it is malformed.
    init?(_ head: ResponseHead) {
        let fields = head.all("content-range")
        guard fields.count == 1, head.mimeType != "multipart/byteranges" else { return nil }
        let words = fields[0].split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let parts = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]),
            first <= last, last < Int64.max
        else { return nil }
        total = parts[1] == "*" ? nil : Self.number(parts[1])
        guard parts[1] == "*" || total.map({ last < $0 }) == true else { return nil }
        self.first = first
        self.last = last
    }

    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }
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

    /// The record of a whole response that is about to be received; `nil` if it could not be continued.
    init?(_ head: ResponseHead, of spec: JobSpec, from hop: Hop) {
        guard Self.isPossible(spec), hop.method == "GET", head.status == 200, head.contentCodings.isEmpty,
            head.first("accept-ranges").map({ equalIgnoringCase($0, "none") }) != true
        else { return nil }
        let validator = Validator(head)
        guard validator != nil || spec.retry.resumesWithoutValidator && head.contentLength != nil else {
            return nil
        }
        self.init(
            identity: Self.identity(of: spec.request), source: Self.source(of: hop.url),
            validator: validator, total: head.contentLength)
        describe(head.mimeType, head.announcedDigests(of: .whole))
    }
}
