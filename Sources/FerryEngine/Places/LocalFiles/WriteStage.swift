import FerryCore

/// A writer whose bytes may gather in a `WriteStage` before they are written. Loop thread only.
protocol StagedWriter: AnyObject {
    /// Writes bytes at `offset` of the file, without the stage.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError)
    /// Called with a failure for which there is no caller.
    var writeFailed: ((TransferError) -> Void)? { get }
}

/// Gathers the bytes that one turn of a loop receives for a large file, so that few calls write them. libcurl
/// delivers 16 KiB at a time, and ext4 takes twice as long for such pieces as for pieces of 256 KiB.
///
/// One buffer per loop, empty whenever the loop sleeps. Loop thread only.
final class WriteStage {
    private static let capacity = 256 << 10

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4_096)
    private var count = 0
    private var owner: (any StagedWriter)?
    /// Offset of the first byte in the owner's file.
    private var start: Int64 = 0

    deinit { buffer.deallocate() }

    /// Whether bytes of this writer wait.
    func holds(_ writer: any StagedWriter) -> Bool { owner === writer }

    /// Throws the failure of earlier bytes of the same writer. A failure of another writer's bytes goes to
    /// that writer.
    func append(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, for writer: any StagedWriter
    ) throws(TransferError) {
        if owner !== writer { flush() }
        if count + bytes.count > buffer.count || offset != start + Int64(count) { try flush(writer) }
        guard bytes.count <= buffer.count else { return try writer.write(bytes, at: offset) }
        if owner == nil { start = offset }
        owner = writer
        UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
        count += bytes.count
    }

    /// Writes the waiting bytes, if they are this writer's.
    func flush(_ writer: any StagedWriter) throws(TransferError) {
        guard owner === writer else { return }
        let staged = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        drop(writer)
        try writer.write(staged, at: start)
    }

    /// Writes the waiting bytes before the loop sleeps or another writer's bytes come.
    func flush() {
        guard let owner else { return }
        do throws(TransferError) {
            try flush(owner)
        } catch {
            owner.writeFailed?(error)
        }
    }

    /// Drops the waiting bytes, if they are this writer's.
    func drop(_ writer: any StagedWriter) {
        guard owner === writer else { return }
        owner = nil
        count = 0
    }
}
