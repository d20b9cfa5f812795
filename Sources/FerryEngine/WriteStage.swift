import FerryCore

/// Gathers what one turn of a loop receives for a large file, so that few calls write it: libcurl hands out
/// 16 KiB at a time, and ext4 takes twice as long for a file in such pieces as in pieces of 256 KiB.
///
/// One buffer a loop, empty whenever the loop sleeps. Loop thread only.
final class WriteStage {
    private static let capacity = 256 << 10

    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4_096)
    private var count = 0
    private var owner: BodyDrain?

    deinit { buffer.deallocate() }

    /// Throws what went wrong with earlier bytes of the same drain; another one's are told to their owner.
    func append(_ bytes: UnsafeRawBufferPointer, for drain: BodyDrain) throws(TransferError) {
        if owner !== drain { flush() }
        if count + bytes.count > buffer.count { try flush(drain) }
        guard bytes.count <= buffer.count else { return try drain.write(bytes) }
        owner = drain
        UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
        count += bytes.count
    }

    /// Writes what is there, if it is this drain's.
    func flush(_ drain: BodyDrain) throws(TransferError) {
        guard owner === drain else { return }
        let staged = UnsafeRawBufferPointer(rebasing: buffer[..<count])
        drop(drain)
        try drain.write(staged)
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
    func drop(_ drain: BodyDrain) {
        guard owner === drain else { return }
        owner = nil
        count = 0
    }
}
