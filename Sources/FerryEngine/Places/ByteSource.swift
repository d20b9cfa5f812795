import FerryCore

/// Bytes at a place that an attempt sends: a file, or the content that another job has left. Its length and
/// bytes stay what they were when the place opened it, or reading throws. Read by one thread at a time.
protocol ByteSource: AnyObject, Sendable {
    /// Number of bytes; `nil` if only their end tells it.
    var byteCount: Int64? { get }
    /// The first byte that can be read again; `nil` if each byte can be read only once.
    var rereadableFrom: Int64? { get }
    /// Whether the bytes come in order only, as they are fetched: reading them again begins at byte 0.
    var isStream: Bool { get }
    /// Text that contents which have been at its location share only if they have the same bytes; `nil` if
    /// the place does not tell.
    var identity: String? { get }
    /// Whether these bytes are known to be the content that a job has left here: only Ferry writes there, or
    /// the place tells one content from another.
    func isKnown(as content: JobContent) -> Bool
    /// The open file with the bytes, so that a file thread can hash them; `nil` if the bytes are hashed as
    /// they are read.
    var hashable: DigestTail.Bytes? { get }
    /// Reads bytes from `offset` on, as many as are there and fit into the buffer. Must not block for long.
    /// Throws `source_changed` or `storage_failed`.
    func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(TransferError) -> ByteRead
    /// Calls `body` once, on any thread, as soon as a read that found no bytes can be repeated.
    func whenReadable(_ body: @escaping @Sendable () -> Void)
    /// Throws `source_changed` if the bytes are known to have changed since the source was opened.
    func checkUnchanged() throws(TransferError)
}

extension ByteSource {
    var isStream: Bool { false }
}

/// Result of a read of a `ByteSource`.
enum ByteRead: Equatable {
    /// So many bytes; 0 at the end.
    case bytes(Int)
    /// None yet: `ByteSource.whenReadable` tells when to read again.
    case none
}

extension TransferError {
    /// The bytes of a source are no longer those that were opened.
    static let sourceChanged = TransferError(
        .sourceChanged, "The source's file changed while it was sent.", phase: .sending, isRetryable: true)
}
