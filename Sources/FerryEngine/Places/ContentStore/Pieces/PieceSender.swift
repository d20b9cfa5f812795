import FerryCore
import OpenSSL
import Synchronization

/// Sends the bytes of one unfinished download to the content store, in pieces, so that an attempt on another
/// node can continue them. Sends as far as the partial file's record reaches, and one piece after another.
/// Any thread.
final class PieceSender: Sendable {
    private struct State {
        /// Work that waits for the one that runs.
        var works: [@Sendable () -> Void] = []
        var isRunning = false
        var isOver = false
        /// Bytes that the store has; `nil` until the pieces of earlier attempts are known.
        var sentByteCount: Int64?
        /// The content that they belong to.
        var content: String?
        /// Whether a piece is being sent, or is to be.
        var isSending = false
    }

    /// Bytes of a piece, except of the last one.
    static let pieceByteCount: Int64 = 8 << 20

    private let objects: ContentObjects
    private let job: JobID
    private let attempt: Int32
    private let name: String
    private let stop = StopSignal()
    private let state = Mutex(State())

    init(_ objects: ContentObjects, of job: JobID, attempt: Int32) {
        self.objects = objects
        self.job = job
        self.attempt = attempt
        name = "\(attempt)-\(hexEncoded(randomBytes(4)))"
    }

    /// Notes that a record of the file was written. Sends the whole pieces before its first gap.
    func recorded(_ record: PartialRecord, of file: PartialFile) {
        let prefix = record.ranges.prefixByteCount
        let begins = state.withLock { state in
            guard !state.isOver, !state.isSending,
                prefix - (state.sentByteCount ?? 0) >= Self.pieceByteCount
            else { return false }
            state.isSending = true
            return true
        }
        guard begins else { return }
        run { [self] in
            send(record, of: file, upTo: prefix, pieceMin: Self.pieceByteCount)
            state.withLock { $0.isSending = false }
        }
    }

    /// Sends what is left before the first gap, and calls `done` on any thread, also if that fails.
    func sendRest(_ record: PartialRecord, of file: PartialFile, _ done: @escaping @Sendable () -> Void) {
        guard objects.isAvailable else { return done() }
        let prefix = record.ranges.prefixByteCount
        run { [self] in
            send(record, of: file, upTo: prefix, pieceMin: 1)
            done()
        }
    }

    /// Ends the sending, and removes the pieces of the job.
    func remove() {
        let hasPieces = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver && (state.isRunning || state.sentByteCount != nil || attempt > 1)
        }
        guard hasPieces else { return }
        stop.set()
        run { [objects, job] in objects.removePieces(of: job) }
    }

    /// Does work after the work before.
    private func run(_ work: @escaping @Sendable () -> Void) {
        let begins = state.withLock { state in
            state.works.append(work)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard begins else { return }
        let isTaken = objects.runSending { [self] in
            while let work = next() { work() }
        }
        // The threads have ended: each work ends at once, and calls those that wait for it.
        if !isTaken { while let work = next() { work() } }
    }

    private func next() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard !state.works.isEmpty else {
                state.isRunning = false
                return nil
            }
            return state.works.removeFirst()
        }
    }

    private func send(_ record: PartialRecord, of file: PartialFile, upTo prefix: Int64, pieceMin: Int64) {
        let content = PieceKey.content(of: record)
        guard var sent = sentByteCount(of: content) else { return }
        while prefix - sent >= pieceMin, !state.withLock({ $0.isOver }) {
            let range = sent..<min(prefix, sent + Self.pieceByteCount)
            let key = PieceKey(job: job, attempt: name, content: content, range: range)
            guard objects.store(record.upTo(range.upperBound), file, key, stop) else { return }
            sent = range.upperBound
            state.withLock { $0.sentByteCount = sent }
        }
    }

    /// Returns how many bytes of the content the store has; `nil` if it does not tell.
    private func sentByteCount(of content: String) -> Int64? {
        let (known, former) = state.withLock { ($0.sentByteCount, $0.content) }
        if let known, former == content { return known }
        var sent: Int64 = 0
        if attempt > 1 {
            guard let pieces = objects.pieces(of: job, stop) else { return nil }
            sent = PieceKey.chain(pieces.filter { $0.content == content }).last?.range.upperBound ?? 0
        }
        state.withLock { [sent] in ($0.sentByteCount, $0.content) = (sent, content) }
        return sent
    }
}

extension PartialRecord {
    /// Returns the record of a file that has the first bytes only, on another node.
    fileprivate func upTo(_ end: Int64) -> PartialRecord {
        var record = self
        (record.inode, record.boot, record.isSequential) = (0, "", true)
        (record.ranges, record.synced) = (ByteRanges([0..<end]), ByteRanges([0..<end]))
        return record
    }
}
