import FerryCore

/// The bytes that a `SourceExchange` fetches, between the response that brings them and the requests that
/// send them on. They come in order. The attempt's loop writes and reads.
protocol FetchedBytes: ByteSource {
    /// Whether the bytes that come are to be dropped, because they are about to be fetched again.
    var awaitsRestart: Bool { get }
    /// Whether the fetching side waits for room.
    var isFull: Bool { get }
    /// Whether so many bytes can be written now. `false`: `FetchDemand.drained` follows.
    func hasRoom(for count: Int) -> Bool
    /// Writes bytes, for which there is room.
    func write(_ bytes: UnsafeRawBufferPointer)
    /// The last byte was written.
    func finish()
    /// Makes every further read throw.
    func fail(_ error: TransferError)
    /// The bytes that are written next begin at byte 0.
    func restarted()
}

/// Work that reading leaves to the fetching side.
enum FetchDemand: Sendable {
    /// There is room again.
    case drained
    /// The bytes are to be fetched from byte 0 on.
    case restart
}
