import FerryCore
import Glibc
import OpenSSL

/// What says that a server's bytes are still the same ones (RFC 9110 §8.8).
enum Validator: Sendable, Equatable {
    /// A strong entity tag, with its quotes.
    case entityTag(String)
    /// A date that was at least a second old, byte for byte as the server wrote it.
    case lastModified(String)

    /// What `If-Range` says (RFC 9110 §13.1.5).
    var text: String {
        switch self {
        case .entityTag(let text), .lastModified(let text): text
        }
    }

    /// Nil when the answer has nothing that can be trusted to change with its bytes.
    init?(_ head: ResponseHead) {
        let tags = head.all("etag")
        if tags.count == 1, Self.isEntityTag(tags[0].utf8) {
            guard tags[0].first == "\"", tags[0].utf8.count <= Self.byteCountMax else { return nil }
            self = .entityTag(tags[0])
            return
        }
        // RFC 9110 §8.8.2.2: the file could have changed again within the second that the date names. What
        // is no entity tag at all counts as none.
        let dates = head.all("last-modified")
        guard tags.count <= 1, dates.count == 1, dates[0].utf8.count <= Self.byteCountMax,
            let modified = httpDate(dates[0]), let now = head.first("date").flatMap(httpDate),
            now - modified >= 1
        else { return nil }
        self = .lastModified(dates[0])
    }

    /// Whether an answer names the same. One that names none cannot say so.
    func matches(_ head: ResponseHead) -> Bool {
        switch self {
        case .entityTag(let text): head.all("etag") == [text]
        case .lastModified(let text): head.all("last-modified") == [text]
        }
    }

    /// Whether an answer to our `If-Range` does without it, as it may with a date and must not with a tag
    /// (RFC 9110 §15.3.7). Says something only of the same URL: others may not know `If-Range`.
    func isLeftOut(of head: ResponseHead) -> Bool {
        guard case .lastModified = self else { return false }
        return head.first("last-modified") == nil && head.first("etag") == nil
    }

    private static let byteCountMax = 1_024

    /// `entity-tag` (RFC 9110 §8.8.3), weak or strong.
    private static func isEntityTag(_ text: String.UTF8View) -> Bool {
        let opaque = text.starts(with: #"W/""#.utf8) ? text.dropFirst(2) : text[...]
        guard opaque.count >= 2, opaque.first == 0x22, opaque.last == 0x22 else { return false }
        return opaque.dropFirst().dropLast().allSatisfy { $0 == 0x21 || $0 >= 0x23 && $0 != 0x7F }
    }
}

/// What is known about the bytes of a partial file: kept beside it, so that a later attempt, also of another
/// process, can go on from them.
struct PartialRecord: Sendable, Equatable {
    /// What was asked for (`PartialRecord.identity(of:)`).
    var identity: String
    /// Where the answer came from: its final URL, without query, hashed.
    var source: String
    /// Nil: there is none, and the job goes on all the same.
    var validator: Validator?
    /// Bytes of the whole file; nil while nobody knows.
    var total: Int64?
    /// What the first answer said of the file, `type/subtype`: later ones need not repeat it. Nil: nothing,
    /// or an earlier version wrote the record.
    var mimeType: String?
    /// And what its digests are.
    var announced: [ExpectedDigest] = []
    /// The inode of the partial: a file that was put in its place is another one.
    var inode: UInt64 = 0
    /// Bytes were only ever appended: within one boot the file's size says how many there are.
    var isSequential = true
    /// The boot in which `ranges` was written; what the page cache holds does not outlast it.
    var boot = ""
    /// Bytes that have been written.
    var ranges = ByteRanges()
    /// Bytes that have reached stable storage.
    var synced = ByteRanges()

    /// Notes what the first answer says of the file, as far as a record has room.
    mutating func describe(_ type: String?, _ digests: [ExpectedDigest]) {
        mimeType = type.flatMap { $0.utf8.count <= EngineLimits.recordedTypeByteCountMax ? $0 : nil }
        announced = Array(digests.prefix(EngineLimits.laterDigestCountMax))
    }

    /// Of the file when it has been cut to that size.
    func clipped(to size: Int64) -> PartialRecord {
        var record = self
        record.ranges = ranges.clipped(to: size)
        record.synced = synced.clipped(to: size)
        return record
    }

    /// The bytes that count now in a file of that size.
    func usable(size: Int64) -> ByteRanges {
        guard boot == Boot.identifier, !boot.isEmpty else { return synced.clipped(to: size) }
        return isSequential ? ByteRanges([0..<size]) : ranges.clipped(to: size)
    }
}

extension PartialRecord {
    /// A hash of what a job asks a server for: method, URL and the header fields that anybody may see; of a
    /// link that was changed, as it was at first: the validator says whether the file is the same.
    static func identity(of request: JobSpec.RequestSpec) -> String {
        var text = "\(request.method) \(request.original?.url ?? request.url)\n"
        for header in request.original?.headers ?? request.headers {
            text += "\(header.name.lowercased()):\(header.value)\n"
        }
        return Base64.encode(Digest.of(Array(text.utf8)))
    }

    /// A hash of where an answer came from. Queries are left out: signatures in them change with each
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
        case .entityTag(let text): writer.member("etag", text)
        case .lastModified(let text): writer.member("last_modified", text)
        case nil: break
        }
        writer.memberOrNull("total", total)
        if let mimeType { writer.member("content_type", mimeType) }
        if !announced.isEmpty { writer.write(announced) }
        writer.member("inode", "\(inode)")
        writer.member("sequential", isSequential)
        writer.member("boot", boot)
        writer.write("ranges", ranges)
        writer.write("synced", synced)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` wrote; nil for anything else, and for what a later version wrote.
    init?(json: [UInt8]) {
        guard let stored = try? JSON.parse(json), stored["version"]?.integer == Self.version,
            let identity = stored["identity"]?.string, let source = stored["source"]?.string,
            let inode = stored["inode"]?.string.flatMap(UInt64.init), let boot = stored["boot"]?.string,
            let isSequential = stored["sequential"]?.bool, let ranges = ByteRanges(stored["ranges"]),
            let synced = ByteRanges(stored["synced"])
        else { return nil }
        self.init(
            identity: identity, source: source,
            validator: stored["etag"]?.string.map(Validator.entityTag)
                ?? stored["last_modified"]?.string.map(Validator.lastModified),
            total: stored["total"]?.integer, inode: inode, isSequential: isSequential, boot: boot,
            ranges: ranges, synced: synced)
        mimeType = stored["content_type"]?.string
        announced = (stored["digests"]?.array ?? []).compactMap { ExpectedDigest($0) }
    }
}

extension ExpectedDigest {
    /// Of a record.
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
    /// What the server has announced.
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

    /// `[[start, end], …]`, the end not included.
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

/// This run of the kernel (random(4)).
enum Boot {
    /// Empty when the kernel does not say; then nothing counts as written in this boot.
    static let identifier: String = {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)).filter { $0 > 0x20 }, as: UTF8.self)
    }()
}
