import FerryCore

/// Whose bytes may gather before they are written. Loop thread only.
protocol StagedWriter: AnyObject {
    /// Writes, past the stage, what belongs at that place of the file.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError)
    /// Told of a failure that no caller is there for.
    var writeFailed: ((TransferError) -> Void)? { get }
}

/// Gathers what one turn of a loop receives for a large file, so that few calls write it: libcurl hands out
/// 16 KiB at a time, and ext4 takes twice as long for a file in such pieces as in pieces of 256 KiB.
///
/// One buffer a loop, empty whenever the loop sleeps. Loop thread only.
final class WriteStage {
    private static let capacity = 256 << 10

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4_096)
    private var count = 0
    private var owner: (any StagedWriter)?
    /// Where in the owner's file the first byte belongs.
    private var start: Int64 = 0

    deinit { buffer.deallocate() }

    /// Whether bytes of this drain wait.
    func holds(_ drain: any StagedWriter) -> Bool { owner === drain }

    /// Throws what went wrong with earlier bytes of the same drain; another one's are told to their owner.
    func append(
        _ bytes: UnsafeRawBufferPointer, at offset: Int64, for drain: any StagedWriter
    ) throws(TransferError) {
        if owner !== drain { flush() }
        if count + bytes.count > buffer.count || offset != start + Int64(count) { try flush(drain) }
        guard bytes.count <= buffer.count else { return try drain.write(bytes, at: offset) }
        if owner == nil { start = offset }
        owner = drain
        UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
        count += bytes.count
    }

    /// Writes what is there, if it is this drain's.
    func flush(_ drain: any StagedWriter) throws(TransferError) {
        guard owner === drain else { return }
        let staged = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        drop(drain)
        try drain.write(staged, at: start)
    }

    /// The loop is about to sleep, or somebody else's bytes come.
    func flush() {
        guard let owner else { return }
        do throws(TransferError) {
            try flush(owner)
        } catch {
            owner.writeFailed?(error)
        }
    }

    /// Forgets what is there, if it is this drain's.
    func drop(_ drain: any StagedWriter) {
        guard owner === drain else { return }
        owner = nil
        count = 0
    }
}
