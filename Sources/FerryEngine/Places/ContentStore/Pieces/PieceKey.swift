import FerryCore
import OpenSSL

/// Name of a piece of an unfinished download in the content store:
/// `jobs/JOB/pieces/ATTEMPT-RANDOM/CONTENT/START-END`. Pieces with the same text for the content have come
/// from the same bytes at the server.
struct PieceKey: Sendable, Equatable {
    let job: JobID
    /// The attempt that has sent the piece, and a random text.
    let attempt: String
    let content: String
    let range: Range<Int64>

    var text: String {
        "\(Self.prefix(of: job))\(attempt)/\(content)/\(range.lowerBound)-\(range.upperBound)"
    }

    init(job: JobID, attempt: String, content: String, range: Range<Int64>) {
        self.job = job
        self.attempt = attempt
        self.content = content
        self.range = range
    }

    /// `nil` for other keys.
    init?(_ key: String) {
        let parts = key.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0] == "jobs", let job = JobID(String(parts[1])), parts[2] == "pieces"
        else { return nil }
        let numbers = parts[5].split(separator: "-", omittingEmptySubsequences: false).map { Int64($0) }
        guard numbers.count == 2, let start = numbers[0], let end = numbers[1], 0 <= start, start < end
        else { return nil }
        self.init(job: job, attempt: String(parts[3]), content: String(parts[4]), range: start..<end)
    }

    /// Begin of the keys of a job's pieces.
    static func prefix(of job: JobID) -> String { "jobs/\(job)/pieces/" }

    /// Returns the text for the content that a record is about.
    static func content(of record: PartialRecord) -> String {
        var text = "\(record.identity)\n\(record.source)\n\(record.total ?? -1)\n"
        text += record.codings.joined(separator: ",")
        var bytes = Array(text.utf8)
        switch record.validator {
        case .entityTag(let tag): bytes += [1] + tag.bytes
        case .lastModified(let date): bytes += [2] + date.bytes
        case nil: bytes.append(0)
        }
        return hexEncoded(Array(Digest.of(bytes).prefix(8)))
    }

    /// Returns pieces that follow one another from byte 0 on without a gap, as far as possible.
    static func chain(_ pieces: [PieceKey]) -> [PieceKey] {
        var chain: [PieceKey] = []
        var end: Int64 = 0
        while true {
            let next = pieces.filter { $0.range.lowerBound <= end && $0.range.upperBound > end }
                .max { $0.range.upperBound < $1.range.upperBound }
            guard let next else { return chain }
            chain.append(next)
            end = next.range.upperBound
        }
    }
}

/// A piece as an object of the content store: the length of a record as eight hexadecimal digits, the record
/// of the partial file up to the piece's end, and the bytes.
struct PieceObject {
    let record: PartialRecord
    let bytes: ArraySlice<UInt8>

    private static let digitCount = 8

    static func encode(_ record: PartialRecord, _ bytes: [UInt8]) -> [UInt8] {
        let json = record.encode()
        let digits = String(json.count, radix: 16)
        let length = String(repeating: "0", count: digitCount - digits.utf8.count) + digits
        return Array(length.utf8) + json + bytes
    }

    /// `nil` if an object is no piece.
    init?(_ object: [UInt8]) {
        guard object.count > Self.digitCount,
            let length = Int(String(decoding: object[..<Self.digitCount], as: UTF8.self), radix: 16),
            (0...EngineLimits.recordByteCountMax).contains(length),
            object.count >= Self.digitCount + length,
            let record = PartialRecord(json: Array(object[Self.digitCount..<Self.digitCount + length]))
        else { return nil }
        self.record = record
        bytes = object[(Self.digitCount + length)...]
    }
}
