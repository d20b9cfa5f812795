import CSys
import FerryCore
import Synchronization

/// Takes the bytes of all parts into the one partial file, and hashes it from its beginning as far as it is
/// whole. Loop thread only.
final class SegmentWriter: StagedWriter {
    let file: PartialFile
    /// The room for what is to come.
    var claim: StorageClaim?
    private let tail: DigestTail
    private let lane: FileThreadPool
    private let writeBehind: WriteBehind?
    let digests: Digests
    /// What has come and could not be written: it does not count.
    private(set) var lost = ByteRanges()
    /// How far the file is whole once everything is written that has come.
    private var prefix: Int64 = 0
    private let stage: WriteStage
    var writeFailed: ((TransferError) -> Void)?

    /// `onProgress` is called on a file thread when the disk has caught up.
    init(
        _ file: PartialFile, _ digests: Digests, lane: FileThreadPool, stage: WriteStage,
        syncs: Bool, onProgress: @escaping @Sendable () -> Void
    ) {
        self.stage = stage
        self.file = file
        self.digests = digests
        self.lane = lane
        writeBehind = syncs ? WriteBehind(file, onProgress) : nil
        let bytes = DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: false)
        tail = DigestTail(bytes, digests, lane: lane) {}
    }

    /// Takes bytes that are written by the end of the loop's turn. Throws `storage_full` or `storage_failed`,
    /// also of earlier ones.
    func append(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        try stage.append(bytes, at: offset, for: self)
    }

    /// Writes everything that has come.
    func flush() throws(TransferError) { try stage.flush(self) }

    /// Past the stage: all that came before has been written.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        do throws(TransferError) {
            try claim?.take(bytes.count, file.descriptor)
            try file.write(bytes, at: offset)
        } catch {
            lost.insert(offset..<offset + Int64(bytes.count))
            throw error
        }
        tail.advance(to: prefix)
    }

    /// A part has written this since it last said so.
    func wrote(_ range: Range<Int64>) {
        guard let writeBehind, !range.isEmpty else { return }
        lane.send(writeBehind.work(range))
    }

    /// The file is whole as far as there, with the bytes that are about to be written.
    func advance(to prefix: Int64) {
        guard prefix != self.prefix else { return }
        self.prefix = prefix
        if !stage.holds(self) { tail.advance(to: prefix) }
    }

    /// Whether reading should pause, and whether it may go on.
    var isFarBehind: Bool { writeBehind.map { $0.byteCount > EngineLimits.digestLagMax } ?? false }
    var hasCaughtUp: Bool { writeBehind.map { $0.byteCount < EngineLimits.digestLagResume } ?? true }

    /// Hands the file to the file threads once all of it is hashed; the drain must not be used afterwards.
    /// Everything was flushed.
    func publish(at byteCount: Int64, _ make: (Publication.Bytes) -> Publication) -> Publication {
        claim = nil
        let publication = make(.file(file, tail))
        tail.finish(at: byteCount, then: .publish(publication))
        return publication
    }

    /// Ends the hashing, of bytes that are kept or of no use; gives back the room.
    func stop() {
        stage.drop(self)
        tail.stop()
        claim = nil
    }

    /// Removes the file; `then` is called on a file thread afterwards.
    func discard(then: @escaping @Sendable () -> Void = {}) {
        stop()
        let file = file
        lane.send(
            .run {
                file.discard()
                then()
            })
    }
}

/// Starts the write-back of what parts have written, in slices on file threads, so that the last sync is
/// short; knows how far the disk lags. Any thread.
final class WriteBehind: Sendable {
    private let file: PartialFile
    private let waiting = Atomic<Int64>(0)
    private let onProgress: @Sendable () -> Void

    init(_ file: PartialFile, _ onProgress: @escaping @Sendable () -> Void) {
        self.file = file
        self.onProgress = onProgress
    }

    /// Bytes that were written and whose write-back has not begun.
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
