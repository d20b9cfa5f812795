import FerryCore
import Glibc
import Synchronization

/// Copies the bytes of complete uploads to another one, a piece in each turn of a file thread. One thread at
/// a time uses it.
final class UploadConcatenation: @unchecked Sendable {
    private static let pieceByteCount = 1 << 20

    private let directory: String
    /// `nil` before the beginning and after the end: the writer refers to this object.
    private var writer: (any UploadFileWriter)?
    private let fileThreads: FileThreadPool
    private let reply: @Sendable (Result<WrittenUpload, TransferError>) -> Void
    private var parts: ArraySlice<UploadPart>
    /// The open file of the first part, or −1, and its bytes that were copied.
    private var descriptor: Int32 = -1
    private var offset: Int64 = 0
    /// Bytes that were read, and those of them that the writer has taken.
    private var piece: [UInt8] = []
    private var takenCount = 0
    /// Whether the next turn begins when the writer has room.
    private let waits = Atomic(false)
    /// Whether the writer has told since the current turn began that it has room.
    private let hasRoom = Atomic(false)

    init(
        _ parts: [UploadPart], below directory: String, _ fileThreads: FileThreadPool,
        _ reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void
    ) {
        self.parts = parts[...]
        self.directory = directory
        self.fileThreads = fileThreads
        self.reply = reply
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func begin(_ writer: any UploadFileWriter) {
        self.writer = writer
        start()
    }

    /// The writer has room, or has failed. Any thread, also while a turn runs.
    func noteReady() {
        hasRoom.store(true, ordering: .sequentiallyConsistent)
        if waits.exchange(false, ordering: .sequentiallyConsistent) { start() }
    }

    private func start() { fileThreads.send(.run { [self] in step() }) }

    private func step() {
        guard let writer else { return }
        if writer.failure != nil { return end(.keep) }
        if takenCount < piece.count {
            hasRoom.store(false, ordering: .sequentiallyConsistent)
            takenCount += piece[takenCount...].withUnsafeBytes { writer.take($0) }
            if takenCount == piece.count { return start() }
            // Only now: the next turn, on another thread, begins where this one has ended.
            waits.store(true, ordering: .sequentiallyConsistent)
            if hasRoom.load(ordering: .sequentiallyConsistent) { noteReady() }
            return
        }
        guard let part = parts.first else { return end(.complete) }
        if descriptor < 0 {
            descriptor = open("\(directory)/\(StagedUploads.path(for: part.id))", O_RDONLY | O_CLOEXEC)
            offset = 0
        }
        if offset == part.byteCount {
            close(descriptor)
            descriptor = -1
            parts = parts.dropFirst()
            return start()
        }
        read(min(part.byteCount - offset, Int64(Self.pieceByteCount)))
    }

    private func end(_ end: UploadEnd, because error: TransferError? = nil) {
        let (reply, writer) = (reply, writer.take())
        writer?.end(end) { result in reply(error.map { .failure($0) } ?? result) }
    }

    private func read(_ byteCount: Int64) {
        piece = [UInt8](repeating: 0, count: Int(byteCount))
        takenCount = 0
        let count = piece.withUnsafeMutableBytes {
            pread(descriptor, $0.baseAddress, $0.count, off_t(offset))
        }
        guard count > 0 else {
            return end(
                .keep,
                because: TransferError(
                    .sourceNotFound, "The bytes of a part are not on the disk any more.", phase: .receiving,
                    isRetryable: false))
        }
        piece.removeLast(piece.count - count)
        offset += Int64(count)
        start()
    }
}
