import FerryCore
import Glibc
import OpenSSL

/// Validator of a server's file (RFC 9110 §8.8).
enum Validator: Sendable, Equatable {
    /// A strong entity tag, with its quotes.
    case entityTag(FieldOctets)
    /// A date that was at least one second old.
    case lastModified(FieldOctets)

    /// Value of the `If-Range` field (RFC 9110 §13.1.5): the octets that the server sent.
    var value: FieldOctets {
        switch self {
        case .entityTag(let value), .lastModified(let value): value
        }
    }

    /// `nil` if the response has no field that surely changes with its bytes.
    init?(_ head: ResponseHead) {
        let tags = head.octets("etag")
        if tags.count == 1, Self.isEntityTag(tags[0].bytes) {
            guard tags[0].bytes.first == 0x22, tags[0].bytes.count <= Self.byteCountMax else { return nil }
            self = .entityTag(tags[0])
            return
        }
        // RFC 9110 §8.8.2.2: the file could have changed again within the second that the date names. A
        // malformed entity tag counts as none.
        let dates = head.octets("last-modified")
        guard tags.count <= 1, dates.count == 1, dates[0].bytes.count <= Self.byteCountMax,
            DateValidator(lastModified: dates[0].text, date: head.first("date"), now: .ofThisNode)?.isStrong
                == true
        else { return nil }
        self = .lastModified(dates[0])
    }

    /// The entity tag; `nil` for a date.
    var entityTag: FieldOctets? { if case .entityTag(let tag) = self { tag } else { nil } }

    /// Whether a response has the same validator. `false` if it has none.
    func matches(_ head: ResponseHead) -> Bool {
        switch self {
        case .entityTag(let value): head.octets("etag") == [value]
        case .lastModified(let value): head.octets("last-modified") == [value]
        }
    }

    /// Whether a response to `If-Range` leaves the validator out, as it may with a date and must not with a
    /// tag (RFC 9110 §15.3.7). Counts only for the URL that the validator came from: another server may not
    /// support `If-Range`.
    func isLeftOut(of head: ResponseHead) -> Bool {
        guard case .lastModified = self else { return false }
        return head.first("last-modified") == nil && head.first("etag") == nil
    }

    private static let byteCountMax = 1_024

    /// `entity-tag` (RFC 9110 §8.8.3), weak or strong.
    private static func isEntityTag(_ text: [UInt8]) -> Bool {
        let opaque = text.starts(with: #"W/""#.utf8) ? text.dropFirst(2) : text[...]
        guard opaque.count >= 2, opaque.first == 0x22, opaque.last == 0x22 else { return false }
        return opaque.dropFirst().dropLast().allSatisfy { $0 == 0x21 || $0 >= 0x23 && $0 != 0x7F }
    }
}

extension Timestamp {
    /// The time of this node, to read years of two digits.
    fileprivate static var ofThisNode: Timestamp { Timestamp(microseconds: Int64(time(nil)) * 1_000_000) }
}

/// Record of the bytes of a partial file. Stored beside it, so that a later attempt, also of another process,
/// can continue them.
struct PartialRecord: Sendable, Equatable {
    /// Identity of the request (`PartialRecord.identity(of:)`).
    var identity: String
    /// Hash of the response's final URL without its query (`PartialRecord.source(of:)`).
    var source: String
    /// `nil` if there is none, and the job resumes without.
    var validator: Validator?
    /// Bytes of the whole file; `nil` if that is unknown.
    var total: Int64?
    /// Media type in the first response, `type/subtype`: later responses need not repeat it. `nil` if there
    /// was none.
    var mimeType: String?
    /// The content codings with which the bytes are stored, in the order in which they were applied.
    var codings: [String] = []
    /// Digests that the server has announced for the file.
    var announced: [ExpectedDigest] = []
    /// The inode of the partial file, which tells whether another file has taken its place.
    var inode: UInt64 = 0
    /// Whether bytes were only appended: within one boot the file's size then says how many there are.
    var isSequential = true
    /// The boot in which `ranges` was written; the contents of the page cache do not outlast it.
    var boot = ""
    /// Bytes that have been written.
    var ranges = ByteRanges()
    /// Bytes that have reached stable storage.
    var synced = ByteRanges()

    /// Notes what the first response says about the file, up to the record's limits.
    mutating func describe(_ type: String?, _ digests: [ExpectedDigest]) {
        mimeType = type.flatMap { $0.utf8.count <= EngineLimits.recordedTypeByteCountMax ? $0 : nil }
        announced = Array(digests.prefix(EngineLimits.laterDigestCountMax))
    }

    /// Returns the record of the file after it is cut to that size.
    func clipped(to size: Int64) -> PartialRecord {
        var record = self
        record.ranges = ranges.clipped(to: size)
        record.synced = synced.clipped(to: size)
        return record
    }

    /// Returns the bytes that can be used in a file of that size.
    func usable(size: Int64) -> ByteRanges {
        guard boot == Boot.identifier, !boot.isEmpty else { return synced.clipped(to: size) }
        return isSequential ? ByteRanges([0..<size]) : ranges.clipped(to: size)
    }
}

extension PartialRecord {
    /// Hash of a job's request: method, URL and the header fields that are not secret. If the job's link was
    /// changed, of the first one: the validator tells whether the file is the same.
    static func identity(of request: JobSpec.RequestSpec) -> String {
        var text = "\(request.method) \(request.original?.url ?? request.url)\n"
        for header in request.original?.headers ?? request.headers {
            text += "\(header.name.lowercased()):\(header.value)\n"
        }
        return Base64.encode(Digest.of(Array(text.utf8)))
    }

    /// Hash of the URL that a response came from. Queries are left out: signatures in them change with each
    /// redirect.
    static func source(of url: WebURL) -> String {
        let text = url.string.prefix { $0 != "?" && $0 != "#" }
        return Base64.encode(Digest.of(Array(text.utf8)))
    }

    private static let version: Int64 = 1

    func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.beginObject()
        writer.member("version", Self.version)
        writer.member("identity", identity)
        writer.member("source", source)
        switch validator {
        case .entityTag(let value): writer.member("etag", value.text)
        case .lastModified(let value): writer.member("last_modified", value.text)
        case nil: break
        }
        writer.memberOrNull("total", total)
        if let mimeType { writer.member("content_type", mimeType) }
        if !codings.isEmpty { writer.member("content_encoding", codings.joined(separator: ",")) }
        if !announced.isEmpty { writer.write(announced) }
        writer.member("inode", "\(inode)")
        writer.member("sequential", isSequential)
        writer.member("boot", boot)
        writer.write("ranges", ranges)
        writer.write("synced", synced)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` wrote; `nil` for anything else, and if a later version wrote it.
    init?(json: [UInt8]) {
        // A record that is cut or damaged counts as none.
        guard let stored = try? JSON.parse(json), stored["version"]?.integer == Self.version,
            let identity = stored["identity"]?.string, let source = stored["source"]?.string,
            let inode = stored["inode"]?.string.flatMap(UInt64.init), let boot = stored["boot"]?.string,
            let isSequential = stored["sequential"]?.bool, let ranges = ByteRanges(stored["ranges"]),
            let synced = ByteRanges(stored["synced"])
        else { return nil }
        self.init(
            identity: identity, source: source,
            validator: stored["etag"]?.string.flatMap { FieldOctets(text: $0) }.map(Validator.entityTag)
                ?? stored["last_modified"]?.string.flatMap { FieldOctets(text: $0) }
                .map(Validator.lastModified),
            total: stored["total"]?.integer, inode: inode, isSequential: isSequential, boot: boot,
            ranges: ranges, synced: synced)
        mimeType = stored["content_type"]?.string
        codings = (stored["content_encoding"]?.string ?? "").split(separator: ",").map(String.init)
        announced = (stored["digests"]?.array ?? []).compactMap { ExpectedDigest($0) }
    }
}

extension ExpectedDigest {
    /// Reads one digest of a record.
    fileprivate init?(_ json: JSON) {
        guard let algorithm = json["algorithm"]?.string.flatMap(DigestAlgorithm.init(rawValue:)),
            let value = json["value"]?.string
        else { return nil }
        self.init(algorithm, Base64.decode(value), .server)
    }
}

extension ByteRanges {
    fileprivate init?(_ json: JSON?) {
        guard let pairs = json?.array else { return nil }
        self.init()
        for pair in pairs {
            guard let pair = pair.array, pair.count == 2, let start = pair[0].integer,
                let end = pair[1].integer, start >= 0, start <= end
            else { return nil }
            insert(start..<end)
        }
    }
}

extension JSONWriter {
    /// Writes the digests that the server has announced.
    fileprivate mutating func write(_ digests: [ExpectedDigest]) {
        name("digests")
        beginArray()
        for digest in digests {
            beginObject()
            member("algorithm", digest.algorithm.rawValue)
            member("value", Base64.encode(digest.value))
            endObject()
        }
        endArray()
    }

    /// Writes `[[start, end], …]`, the ends exclusive.
    fileprivate mutating func write(_ name: String, _ ranges: ByteRanges) {
        self.name(name)
        beginArray()
        for range in ranges.ranges {
            beginArray()
            value(range.lowerBound)
            value(range.upperBound)
            endArray()
        }
        endArray()
    }
}

/// Identifies this run of the kernel (random(4)).
enum Boot {
    /// Empty if the kernel does not tell; then no bytes count as written in this boot.
    static let identifier: String = {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)).filter { $0 > 0x20 }, as: UTF8.self)
    }()
}
