import FerryCore
import Glibc
import Synchronization

/// The digests of the first bytes of an upload: SHA-256, and those that its client has announced. One thread
/// at a time uses it.
final class UploadDigest: Sendable {
    private let digests: Digests
    /// `Repr-Digest` of the upload (RFC 9530), or `nil`.
    let reprDigest: String?

    init(_ reprDigest: String?) {
        self.reprDigest = reprDigest
        digests = Digests(
            JobSpec.Integrity(),
            announced: reprDigest.map { ExpectedDigest.all(in: $0, from: .client) } ?? [],
            isRepeatable: false)
    }

    /// Bytes that were hashed.
    var byteCount: Int64 { digests.byteCount }

    /// Adds the bytes at `offset`, if all bytes before them were added. Otherwise `catchUp` reads them later.
    func add(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        guard offset == byteCount else { return }
        digests.update(bytes)
    }

    /// Reads bytes that were not added from the file, at most `sliceByteCount` of them. Returns `true` if all
    /// bytes before `end` are hashed. Throws `storage_failed`.
    func catchUp(to end: Int64, from descriptor: Int32) throws(TransferError) -> Bool {
        let stop = min(end, byteCount + Self.sliceByteCount)
        var failed: Int32?
        withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 64) { buffer in
            while byteCount < stop, failed == nil {
                let wanted = Int(min(stop - byteCount, Int64(buffer.count)))
                let count = pread(descriptor, buffer.baseAddress, wanted, off_t(byteCount))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else {
                    failed = count < 0 ? errno : EIO
                    continue
                }
                digests.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        if let failed { throw storageError(failed) }
        return byteCount >= end
    }

    /// Returns the SHA-256 of all bytes that were added. Throws `digest_mismatch` if they do not have a
    /// digest of `reprDigest`. Called once.
    func finish() throws(TransferError) -> [UInt8] { try digests.sha256OfAll() }

    /// Bytes that one turn of a file thread reads at most.
    private static let sliceByteCount: Int64 = 16 << 20
}

/// The digests of incomplete uploads between two of their requests. Without it, completing an upload reads
/// all of its bytes again.
final class UploadDigests: Sendable {
    /// Uploads whose digest is kept; beyond it, all are dropped.
    private static let countMax = 1_000
    private let kept = Mutex<[UploadID: UploadDigest]>([:])

    /// Returns the digest of an upload that continues at `offset`: a new one if it has more bytes, or is of
    /// another `Repr-Digest`.
    func take(_ upload: UploadID, upTo offset: Int64, _ reprDigest: String?) -> UploadDigest {
        let found = kept.withLock { $0.removeValue(forKey: upload) }
        guard let found, found.byteCount <= offset, found.reprDigest == reprDigest else {
            return UploadDigest(reprDigest)
        }
        return found
    }

    func keep(_ digest: UploadDigest, for upload: UploadID) {
        kept.withLock { kept in
            if kept.count >= Self.countMax { kept = [:] }
            kept[upload] = digest
        }
    }

    func forget(_ upload: UploadID) { kept.withLock { _ = $0.removeValue(forKey: upload) } }
}
