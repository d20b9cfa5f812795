import FerryCore
import Glibc
import Synchronization
import Sys

/// Writes the bytes of one request to the file of an upload, and hashes them, on file threads. Two buffers of
/// `UploadWriter.bufferByteCount` bytes at most hold what has arrived: one fills while the other is written.
final class UploadWriter: UploadFileWriter {
    private struct Ending {
        let end: UploadEnd
        let reply: @Sendable (Result<WrittenUpload, TransferError>) -> Void
    }
    private struct State {
        /// Bytes that have arrived and are not being written.
        var filling: [UInt8] = []
        /// The other buffer while it is not being written.
        var spare: [UInt8]? = []
        var isScheduled = false
        /// The owner was told that no bytes are taken.
        var isAwaited = false
        var failure: TransferError?
        var ending: Ending?
    }

    /// Bytes of each of the two buffers.
    private static let bufferByteCount = Limits.uploadBufferByteCount / 2
    /// Bytes, and nanoseconds, after which what was written is made durable.
    private static let syncByteCount: Int64 = 8 << 20
    private static let syncInterval: Int64 = 1_000_000_000

    private let file: ClaimedFile?
    private let start: Int64
    private let digest: UploadDigest
    private let syncs: Bool
    private let fileThreads: FileThreadPool
    private let events: UploadWriterEvents
    private let keepDigest: @Sendable (UploadDigest) -> Void
    private let bufferSize: Int
    private let state = Mutex(State())
    // One file thread at a time uses these.
    nonisolated(unsafe) private var offset: Int64
    nonisolated(unsafe) private var durable: Int64
    nonisolated(unsafe) private var durableAt = monotonicNanoseconds()
    private let contentHash: Digests?

    /// `file`: `nil` to hash only. `bufferSize`: expected bytes, or `nil`. `keepDigest` gets the digest of an
    /// upload that is not complete at the end of the request.
    init(
        _ file: ClaimedFile?, at offset: Int64, _ digest: UploadDigest, contentDigests: [ExpectedDigest],
        bufferSize: Int64?, syncs: Bool, _ fileThreads: FileThreadPool, _ events: UploadWriterEvents,
        keepDigest: @escaping @Sendable (UploadDigest) -> Void
    ) {
        self.file = file
        start = offset
        self.offset = offset
        durable = offset
        self.digest = digest
        contentHash =
            contentDigests.isEmpty ? nil : Digests(JobSpec.Integrity(), announced: contentDigests)
        self.syncs = syncs
        self.fileThreads = fileThreads
        self.events = events
        self.keepDigest = keepDigest
        self.bufferSize = min(Self.bufferByteCount, max(4_096, Int(clamping: bufferSize ?? .max)))
    }

    var failure: TransferError? { state.withLock { $0.failure } }

    func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        let (count, mustSchedule) = state.withLock { state -> (Int, Bool) in
            if state.failure != nil { return (bytes.count, false) }
            let count = min(bytes.count, bufferSize - state.filling.count)
            if state.filling.isEmpty { state.filling.reserveCapacity(bufferSize) }
            state.filling.append(contentsOf: bytes[..<count])
            state.isAwaited = count < bytes.count
            guard state.filling.count == bufferSize, !state.isScheduled else { return (count, false) }
            state.isScheduled = true
            return (count, true)
        }
        if mustSchedule { schedule() }
        return count
    }

    func end(
        _ end: UploadEnd, reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void
    ) {
        let mustSchedule = state.withLock { state in
            state.ending = Ending(end: end, reply: reply)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule { schedule() }
    }

    private func schedule() { fileThreads.send(.run { [self] in run() }) }

    // MARK: On a file thread

    /// Writes one buffer, or ends.
    private func run() {
        var (buffer, ending) = state.withLock { state -> ([UInt8], Ending?) in
            guard state.filling.isEmpty || state.failure != nil else {
                let full = state.filling
                state.filling = state.spare.take() ?? []
                return (full, nil)
            }
            return ([], state.ending)
        }
        if let ending = ending.take() { return finish(ending) }
        var failure: TransferError?
        do throws(TransferError) {
            try write(buffer)
        } catch {
            failure = error
        }
        buffer.removeAll(keepingCapacity: true)
        let (mustGoOn, isAwaited) = state.withLock { [buffer, failure] state -> (Bool, Bool) in
            state.spare = buffer
            state.failure = failure
            let mustGoOn = state.ending != nil || failure == nil && state.filling.count == bufferSize
            state.isScheduled = mustGoOn
            defer { state.isAwaited = false }
            return (mustGoOn, state.isAwaited || failure != nil)
        }
        if mustGoOn { schedule() }
        if isAwaited { events.ready() }
    }

    private func write(_ buffer: [UInt8]) throws(TransferError) {
        let offset = offset
        try buffer.withUnsafeBufferPointer { (buffer) throws(TransferError) in
            let bytes = UnsafeRawBufferPointer(buffer)
            try file?.write(bytes, at: offset)
            digest.add(bytes, at: offset)
            contentHash?.update(bytes)
        }
        self.offset = offset + Int64(buffer.count)
        // Bytes whose digest is not known yet may be dropped again.
        guard contentHash == nil, file != nil else { return }
        let isDue =
            self.offset - durable >= Self.syncByteCount
            || monotonicNanoseconds() - durableAt >= Self.syncInterval
        guard isDue else { return }
        try makeDurable()
        events.advanced(durable)
    }

    private func makeDurable() throws(TransferError) {
        if syncs, offset > durable { try file?.sync() }
        durable = offset
        durableAt = monotonicNanoseconds()
    }

    private func finish(_ ending: Ending) {
        do throws(TransferError) {
            if let failure { throw failure }
            try checkContent()
            guard case .complete = ending.end else {
                try makeDurable()
                keepDigest(digest)
                return ending.reply(.success(WrittenUpload(byteCount: offset, sha256: nil)))
            }
            if let file, try !digest.catchUp(to: offset, from: file.descriptor) { return schedule() }
            try makeDurable()
            let sha256 = try digest.finish()
            ending.reply(.success(WrittenUpload(byteCount: offset, sha256: sha256)))
        } catch {
            dropUnproven()
            ending.reply(.failure(error))
        }
    }

    /// Drops the bytes of this request if their digest is wrong, or was not compared.
    private func dropUnproven() {
        guard contentHash != nil else { return }
        // If that fails, the file is longer than the offset that is stored; what is beyond it never counts.
        try? file?.truncate(to: start)
        (offset, durable) = (start, start)
    }

    var durableByteCount: Int64 { durable }

    private func checkContent() throws(TransferError) {
        guard let contentHash else { return }
        do throws(TransferError) {
            _ = try contentHash.finish()
        } catch {
            throw TransferError(
                .digestMismatch, "The bytes of the request do not have the digest that it names.",
                phase: .receiving, isRetryable: false)
        }
    }
}
