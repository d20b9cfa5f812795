import FerryCore
import Testing

@testable import FerryEngine

@Suite("Pieces of unfinished downloads")
struct PieceTests {
    private let job = JobID(high: 1, low: 2)

    private func key(_ range: Range<Int64>, _ content: String = "c") -> PieceKey {
        PieceKey(job: job, attempt: "1-a", content: content, range: range)
    }

    private func record(_ change: (inout PartialRecord) -> Void = { _ in }) -> PartialRecord {
        var record = PartialRecord(
            identity: "i", source: "s", validator: .entityTag("\"a\""), total: 99, inode: 7)
        record.ranges = ByteRanges([0..<10])
        record.synced = record.ranges
        change(&record)
        return record
    }

    @Test("a key tells the job, the attempt, the content and the range; other keys are none")
    func keys() throws {
        let key = key(16..<32)
        #expect(key.text == "jobs/\(job)/pieces/1-a/c/16-32" && PieceKey(key.text) == key)
        let others = [
            "", "jobs/\(job)/1-a", "jobs/\(job)/pieces/1-a/c/16", "jobs/\(job)/pieces/1-a/c/32-16",
            "jobs/\(job)/pieces/1-a/c/-1-16", "jobs/x/pieces/1-a/c/0-16", "uploads/\(job)/pieces/1-a/c/0-16",
            "jobs/\(job)/pieces/1-a/c/0-16/", "generation",
        ]
        for other in others { #expect(PieceKey(other) == nil, "\(other)") }
    }

    @Test("pieces follow one another from byte 0 on, as far as there is no gap")
    func chain() {
        let pieces = [key(10..<20), key(0..<10), key(5..<8), key(18..<25), key(26..<30)]
        #expect(PieceKey.chain(pieces).map(\.range) == [0..<10, 10..<20, 18..<25])
        #expect(PieceKey.chain([key(0..<4), key(0..<16), key(16..<17)]).map(\.range) == [0..<16, 16..<17])
        #expect(PieceKey.chain([key(1..<4)]).isEmpty && PieceKey.chain([]).isEmpty)
    }

    @Test("a piece has the bytes and the record; what is cut off is no piece")
    func object() throws {
        let bytes: [UInt8] = [1, 2, 3]
        let encoded = PieceObject.encode(record(), bytes)
        let piece = try #require(PieceObject(encoded))
        #expect(piece.record == record() && Array(piece.bytes) == bytes)
        #expect(PieceObject(PieceObject.encode(record(), []))?.bytes.isEmpty == true)
        for count in [0, 7, 8, 9, encoded.count - bytes.count - 1] {
            #expect(PieceObject(Array(encoded.prefix(count))) == nil, "\(count)")
        }
        #expect(PieceObject(Array("zzzzzzzz".utf8) + bytes) == nil)
    }

    @Test("pieces of other bytes at the server belong to another content")
    func contents() {
        let contents = [
            record(), record { $0.identity = "j" }, record { $0.source = "t" },
            record { $0.validator = .entityTag("\"b\"") }, record { $0.validator = .lastModified("\"a\"") },
            record { $0.validator = nil }, record { $0.total = nil }, record { $0.codings = ["gzip"] },
        ].map { PieceKey.content(of: $0) }
        #expect(Set(contents).count == contents.count)
        let later = record {
            $0.ranges = ByteRanges([0..<50])
            $0.inode = 9
        }
        #expect(PieceKey.content(of: later) == contents[0])
    }
}
