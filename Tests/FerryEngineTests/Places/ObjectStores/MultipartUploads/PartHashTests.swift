import FerryCore
import Glibc
import OpenSSL
import Sys
import TestSupport
import Testing

@testable import FerryEngine

@Suite struct PartHashTests {
    private final class Owner: Sendable {}

    /// Returns the result of hashing a range of a file with these bytes.
    private static func hash(
        _ bytes: [UInt8], _ range: Range<Int64>, _ checksum: DigestAlgorithm? = nil
    ) throws -> Result<PartDigests, TransferError>? {
        let file = try #require(tmpfile())
        defer { fclose(file) }
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count && fflush(file) == 0)
        let fileThreads = FileThreadPool(threadCount: 1)
        defer { fileThreads.stop() }
        let found = Mailbox<Result<PartDigests, TransferError>>()
        PartHash(
            .init(descriptor: fileno(file), owner: Owner(), isWritten: false), range, checksum: checksum,
            fileThreads
        ) { found.send($0) }.start()
        return found.wait(milliseconds: 120_000).first
    }

    @Test(
        "the digests are those of the range alone, in one slice or several",
        arguments: [0..<0, 0..<1, 5..<1_000_000, 3..<20_000_000] as [Range<Int64>])
    func digests(range: Range<Int64>) throws {
        let bytes = patternBytes(20_000_001)
        let part = Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
        let found = try #require(try Self.hash(bytes, range, .sha256)).get()
        #expect(found.payload.sha256 == hexEncoded(Digest.of(part)))
        #expect(found.payload.checksum?.value == Digest.of(part))
        #expect(found.payload.byteCount == Int64(part.count))
        #expect(found.md5 == Digest.of(part, .md5))
        #expect(try Self.hash(bytes, range)?.get().payload.checksum == nil)
    }

    @Test("a file that has become shorter is no part")
    func shortFile() throws {
        let found = try #require(try Self.hash([1, 2, 3], 1..<9))
        #expect(throws: TransferError.self) { try found.get() }
    }
}
