import FerryCore
import Glibc
import Synchronization

/// Digests of a part of a multipart upload.
struct PartDigests: Sendable, Equatable {
    let payload: PayloadDigests
    /// MD5; `nil` if this node cannot compute it.
    let md5: [UInt8]?
}

/// Computes the digests of a part, a slice at a time on file threads.
///
/// Unchecked: one thread at a time uses the digests.
final class PartHash: @unchecked Sendable {
    private static let sliceByteCount: Int64 = 8 << 20
    private static let bufferByteCount = 256 << 10

    private let bytes: DigestTail.Bytes
    private let range: Range<Int64>
    private let fileThreads: FileThreadPool
    private let reply: @Sendable (Result<PartDigests, TransferError>) -> Void
    private let sha256 = RunningDigest(.sha256)
    private let md5 = RunningDigest(.md5)
    private let checksum: RunningDigest?
    private var offset: Int64
    private let isStopped = Atomic<Bool>(false)

    /// `checksum`: an algorithm that is computed too. `reply` is called once, on a file thread, unless the
    /// hashing is stopped.
    init(
        _ bytes: DigestTail.Bytes, _ range: Range<Int64>, checksum: DigestAlgorithm?,
        _ fileThreads: FileThreadPool,
        _ reply: @escaping @Sendable (Result<PartDigests, TransferError>) -> Void
    ) {
        self.bytes = bytes
        self.range = range
        self.fileThreads = fileThreads
        self.reply = reply
        self.checksum = checksum.flatMap { RunningDigest($0) }
        offset = range.lowerBound
    }

    func start() { fileThreads.send(.run { [self] in hashSlice() }) }

    /// Ends the hashing soon. Any thread.
    func stop() { isStopped.store(true, ordering: .relaxed) }

    private func hashSlice() {
        guard !isStopped.load(ordering: .relaxed) else { return }
        let end = min(range.upperBound, offset + Self.sliceByteCount)
        let isRead = withUnsafeTemporaryAllocation(byteCount: Self.bufferByteCount, alignment: 4_096) {
            hash(upTo: end, $0)
        }
        guard isRead else {
            return reply(
                .failure(
                    TransferError(
                        .storageFailed, "The source's file could not be read while it was hashed.",
                        phase: .sending, isRetryable: true)))
        }
        guard offset == range.upperBound else { return start() }
        guard let sha256 else {
            return reply(
                .failure(
                    TransferError(
                        .internalError, "This node cannot compute a SHA-256.", phase: .sending,
                        isRetryable: false)))
        }
        let payload = PayloadDigests(
            sha256: hexEncoded(sha256.finish()),
            checksum: checksum.map { .init(algorithm: $0.algorithm, value: $0.finish()) },
            byteCount: Int64(range.count))
        reply(.success(PartDigests(payload: payload, md5: md5?.finish())))
    }

    /// Returns `false` if the file is shorter than before, or cannot be read.
    private func hash(upTo end: Int64, _ buffer: UnsafeMutableRawBufferPointer) -> Bool {
        while offset < end {
            let count = pread(
                bytes.descriptor, buffer.baseAddress, min(buffer.count, Int(end - offset)), off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            let found = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            for digest in [sha256, md5, checksum] { digest?.update(found) }
            offset += Int64(count)
        }
        return true
    }
}
