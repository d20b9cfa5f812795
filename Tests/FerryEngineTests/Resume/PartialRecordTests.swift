import FerryCore
import Testing

@testable import FerryEngine

@Suite struct PartialRecordTests {
    private func head(_ fields: [(String, String)], status: Int = 206) -> ResponseHead {
        var head = ResponseHead(status: status, isHTTP1: true)
        for (name, value) in fields { head.append(name, value) }
        return head
    }

    @Test("ranges are kept in order, joined where they touch, and cut")
    func ranges() {
        var set = ByteRanges([10..<20, 0..<5, 30..<40])
        #expect(set.byteCount == 25 && set.prefixByteCount == 5)
        set.insert(5..<10)
        #expect(set.ranges == [0..<20, 30..<40])
        set.insert(19..<31)
        #expect(set.ranges == [0..<40])
        set.insert(7..<7)
        set.insert(-3..<2)
        #expect(set.ranges == [0..<40] && set.clipped(to: 33).ranges == [0..<33])
        #expect(ByteRanges([1..<4]).prefixByteCount == 0 && ByteRanges().isEmpty)
        let whole = ByteRanges([0..<10, 20..<30])
        #expect(whole.subtracting(ByteRanges([2..<4, 8..<22, 29..<40])).ranges == [0..<2, 4..<8, 22..<29])
        #expect(whole.subtracting(ByteRanges()) == whole && whole.subtracting(whole).isEmpty)
        #expect(ByteRanges([0..<3, 9..<12]).clipped(to: 3).ranges == [0..<3])
    }

    @Test("a record is read as written; a cut, changed or newer one is rejected")
    func record() {
        let digest = Base64.encode([UInt8](0..<16))
        var record = PartialRecord(
            identity: "i", source: "s", validator: .entityTag("\"a\""), total: 99, inode: .max)
        record.boot = Boot.identifier
        record.ranges = ByteRanges([0..<10, 20..<30])
        record.synced = ByteRanges([0..<4])
        record.isSequential = false
        record.describe("text/html", head([("Repr-Digest", "md5=:\(digest):")]).announcedDigests(of: .whole))
        #expect(record.mimeType == "text/html" && record.announced.map(\.algorithm) == [.md5])
        let json = record.encode()
        #expect(PartialRecord(json: json) == record)
        for count in 0..<json.count { #expect(PartialRecord(json: Array(json.prefix(count))) == nil) }
        let later = String(decoding: json, as: UTF8.self).replacing("\"version\":1", with: "\"version\":2")
        #expect(PartialRecord(json: Array(later.utf8)) == nil)
        #expect(record.usable(size: 25).ranges == [0..<10, 20..<25])
        record.isSequential = true
        #expect(record.usable(size: 25).ranges == [0..<25])
        record.boot = "before"
        #expect(record.usable(size: 3).ranges == [0..<3] && record.usable(size: 25).ranges == [0..<4])
    }

    @Test("a record without type and digests is read, and long values are cut")
    func earlierRecord() throws {
        let json =
            #"{"version":1,"identity":"i","source":"s","etag":"\"a\"","total":99,"inode":"7","#
            + #""sequential":true,"boot":"b","ranges":[[0,10]],"synced":[]}"#
        var record = try #require(PartialRecord(json: Array(json.utf8)))
        #expect(record.validator == .entityTag("\"a\"") && record.ranges.byteCount == 10)
        #expect(record.mimeType == nil && record.announced.isEmpty)
        let one = try #require(ExpectedDigest(.crc32, [1, 2, 3, 4], .server))
        record.describe(
            String(repeating: "x", count: 300), Array(repeating: one, count: 5_000))
        #expect(record.mimeType == nil && record.announced.count == 8)
        #expect(PartialRecord(json: record.encode()) == record)
    }

    @Test("only strong tags and safe dates are validators")
    func validators() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let dates = [("Last-Modified", date), ("Date", "Sun, 06 Nov 1994 08:49:38 GMT")]
        #expect(Validator(head([("ETag", "\"a\"")])) == .entityTag("\"a\""))
        #expect(Validator(head([("ETag", "W/\"a\"")] + dates)) == nil, "it has a tag, so no date")
        #expect(Validator(head([("ETag", "unquoted")] + dates)) == .lastModified(FieldOctets(date)))
        #expect(Validator(head([("ETag", "\"a\""), ("ETag", "\"b\"")] + dates)) == nil)
        #expect(Validator(head(dates)) == .lastModified(FieldOctets(date)))
        #expect(Validator(head([("Last-Modified", date), ("Date", date)])) == nil, "within its second")
        #expect(Validator(head([("Last-Modified", date)])) == nil)
        let tag = Validator.entityTag("\"a\"")
        #expect(tag.matches(head([("etag", "\"a\"")])) && !tag.matches(head([("etag", "\"b\"")])))
        #expect(!tag.matches(head([])))
        let dated = Validator.lastModified(FieldOctets(date))
        #expect(dated.isLeftOut(of: head([])) && !tag.isLeftOut(of: head([])))
        #expect(!dated.isLeftOut(of: head(dates)) && !dated.isLeftOut(of: head([("ETag", "\"a\"")])))
    }

    @Test(
        "a validator with any octets is read from a record as it was written",
        arguments: [[0xC3, 0xA9], [0xE9], [0x65, 0xCC, 0x81], [0x80, 0x85, 0xFF]] as [[UInt8]])
    func octets(word: [UInt8]) throws {
        func head(_ word: [UInt8]) throws -> ResponseHead {
            var parser = ResponseHeadParser()
            _ = parser.take(Array("HTTP/1.1 200 OK".utf8))
            _ = parser.take(Array("ETag: \"".utf8) + word + [0x22])
            guard case .complete(let head) = parser.take([]) else { throw CancellationError() }
            return head
        }
        let validator = try #require(Validator(head(word)))
        #expect(validator.value.bytes == [0x22] + word + [0x22])
        let record = PartialRecord(identity: "i", source: "s", validator: validator, total: 99)
        #expect(PartialRecord(json: record.encode())?.validator == validator)
        #expect(try validator.matches(head(word)))
        for other in [[0xC3, 0xA9], [0xE9], [0x65, 0xCC, 0x81]] as [[UInt8]] where other != word {
            #expect(try !validator.matches(head(other)), "the texts look the same, the octets differ")
        }
    }

    @Test("Content-Range is parsed strictly")
    func contentRange() {
        func range(_ text: String) -> ContentRange? { ContentRange(head([("Content-Range", text)])) }
        #expect(range("bytes 5-9/10").map { [$0.first, $0.last, $0.total ?? -1] } == [5, 9, 10])
        #expect(range("bytes 5-9/*").map { $0.total == nil } == true)
        for text in [
            "bytes 9-5/10", "bytes 5-10/10", "bytes */10", "bytes 5-9", "5-9/10", "bytes  5-9/10",
            "bytes -5-9/10", "bytes 5-9/10/11", "items 5-9/10", "bytes 5-99999999999999999999/*", "",
        ] {
            #expect(range(text) == nil, "\(text)")
        }
        #expect(
            ContentRange(head([("Content-Range", "bytes 5-9/10"), ("Content-Range", "bytes 5-9/10")])) == nil)
    }

    @Test("names of partial files and records are recognized, and no others")
    func names() throws {
        let job = try #require(JobID("job_01m7z7hp0pe0wa24awkj95v2j4"))
        let partial = PartialNames.partial(of: job, attempt: 12)
        let owner = try #require(PartialNames.owner(of: partial))
        #expect(owner.job == job && owner.attempt == 12 && owner.isPartial)
        let record = PartialNames.record(of: partial)
        #expect(PartialNames.owner(of: record)?.isPartial == false)
        #expect(PartialNames.owner(of: PartialNames.draft(of: record))?.isPartial == false)
        for name in [".ferry-x-1.part", ".ferry-\(job)-1", ".ferry-\(job)--1.part", "a.part", partial + "s"] {
            #expect(PartialNames.owner(of: name) == nil, "\(name)")
        }
    }
}
