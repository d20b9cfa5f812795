import CSys
import FerryCore
import Synchronization

/// Writes the bytes of all parts into one partial file, and hashes it from byte 0 as far as it has no gap.
/// Loop thread only.
final class LocalPartsWriter: StagedWriter {
    let file: PartialFile
    /// The space that is promised to the file.
    var claim: StorageClaim?
    /// Storage that the tenant has left; `nil` for no limit.
    var allowance: StorageAllowance?
    private let tail: DigestTail
    private let fileThreads: FileThreadPool
    private let writeBehind: WriteBehind?
    let digests: Digests
    /// Received bytes that could not be written; they do not count.
    private(set) var lost = ByteRanges()
    /// Bytes from byte 0 on without a gap, once all received bytes are written.
    private var prefix: Int64 = 0
    private let stage: WriteStage
    var writeFailed: ((TransferError) -> Void)?

    /// `onProgress` is called on a file thread as soon as the disk has caught up.
    init(
        _ file: PartialFile, _ digests: Digests, fileThreads: FileThreadPool, stage: WriteStage,
        syncs: Bool, onProgress: @escaping @Sendable () -> Void
    ) {
        self.stage = stage
        self.file = file
        self.digests = digests
        self.fileThreads = fileThreads
        writeBehind = syncs ? WriteBehind(file, onProgress) : nil
        let bytes = DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: false)
        tail = DigestTail(bytes, digests, fileThreads: fileThreads) {}
    }

    /// Takes bytes, which are written by the end of the loop's turn. Throws `storage_quota_exceeded`, and
    /// `storage_full` or `storage_failed`, also for earlier bytes.
    func append(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        try allowance?.need(offset + Int64(bytes.count))
        try stage.append(bytes, at: offset, for: self)
    }

    /// Writes all received bytes.
    func flush() throws(TransferError) { try stage.flush(self) }

    /// Writes without the stage; earlier bytes are written already.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        do throws(TransferError) {
            try claim?.take(bytes.count, file.descriptor)
            try file.write(bytes, at: offset)
        } catch {
            lost.insert(offset..<offset + Int64(bytes.count))
            throw error
        }
        prefixWritten()
    }

    /// All bytes of the prefix are in the file.
    private func prefixWritten() {
        tail.advance(to: prefix)
        file.advance(to: prefix)
    }

    /// A part has written these bytes since the last call.
    func wrote(_ range: Range<Int64>) {
        guard let writeBehind, !range.isEmpty else { return }
        fileThreads.send(writeBehind.work(range))
    }

    /// The file has no gap before `prefix`, once all received bytes are written.
    func advance(to prefix: Int64) {
        guard prefix != self.prefix else { return }
        self.prefix = prefix
        if !stage.holds(self) { prefixWritten() }
    }

    /// Whether reading should pause.
    var isFarBehind: Bool { writeBehind.map { $0.byteCount > EngineLimits.digestLagMax } ?? false }
    var hasCaughtUp: Bool { writeBehind.map { $0.byteCount < EngineLimits.digestLagResume } ?? true }

    /// Passes the file to the file threads as soon as all of it is hashed. All bytes must be flushed before.
    /// The writer must not be used afterwards.
    func publish(_ make: (LocalFileContent.Bytes) -> Publication) -> Publication {
        claim = nil
        let publication = make(.file(file, tail))
        tail.finish(at: file.byteCount, then: .publish(publication))
        return publication
    }

    /// Ends the hashing and gives back the promised space.
    func stop() {
        stage.drop(self)
        tail.stop()
        claim = nil
    }

    /// Removes the file, then calls `then` on a file thread.
    func discard(then: @escaping @Sendable () -> Void = {}) {
        stop()
        let file = file
        fileThreads.send(
            .run {
                file.discard()
                then()
            })
    }
}

/// Starts the write-back of written bytes, in slices on file threads, so that the last sync is short. Knows
/// how many bytes the disk is behind. Any thread.
final class WriteBehind: Sendable {
    private let file: PartialFile
    private let waiting = Atomic<Int64>(0)
    private let onProgress: @Sendable () -> Void

    init(_ file: PartialFile, _ onProgress: @escaping @Sendable () -> Void) {
        self.file = file
        self.onProgress = onProgress
    }

    /// Written bytes whose write-back has not begun.
    var byteCount: Int64 { waiting.load(ordering: .relaxed) }

    func work(_ range: Range<Int64>) -> FileWork {
        let count = Int64(range.count)
        waiting.wrappingAdd(count, ordering: .relaxed)
        return .run { [self] in
            csys_start_writeback(file.descriptor, range.lowerBound, count)
            let left = waiting.wrappingSubtract(count, ordering: .relaxed).newValue
            if left < EngineLimits.digestLagResume, left + count >= EngineLimits.digestLagResume {
                onProgress()
            }
        }
    }
}
