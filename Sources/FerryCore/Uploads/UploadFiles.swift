/// Finds a staged upload of a tenant; an upload of another tenant is `notFound`. Replies once, on a thread
/// that must not block.
public protocol UploadLookup: Sendable {
    /// Looks an upload up.
    func upload(_ reference: UploadReference, tenant: String, reply: @escaping Reply<StagedUpload>)
}

/// The files of staged uploads on the disk of this node. Any thread; no call blocks. Replies come on a thread
/// that must not block.
public protocol UploadFiles: Sendable {
    /// Opens the file of an upload to append bytes from `offset` on, and drops what it has beyond. `size`:
    /// bytes of the complete upload, or `nil`. `contentDigest`: digests of the bytes that are appended, as in
    /// `Content-Digest` (RFC 9530), or `nil`. `reprDigest`: digests that the complete upload must have, as in
    /// `Repr-Digest`, or `nil`.
    func open(
        _ upload: UploadID, at offset: Int64, size: Int64?, contentDigest: String?, reprDigest: String?,
        events: UploadWriterEvents,
        reply: @escaping @Sendable (Result<any UploadFileWriter, TransferError>) -> Void)
    /// Returns a writer that stores nothing, and only tells the SHA-256 of the bytes.
    func hasher(events: UploadWriterEvents) -> any UploadFileWriter
    /// Makes the file of an upload from those of complete ones, one after another.
    func concatenate(
        _ parts: [UploadPart], into upload: UploadID,
        reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void)
    /// Opens the file of a complete upload for reading. Replies with a descriptor that the receiver owns, or
    /// with `nil` if there is no file of that size.
    func read(_ upload: UploadID, byteCount: Int64, reply: @escaping @Sendable (Int32?) -> Void)
    /// Removes the bytes of an upload.
    func remove(_ bytes: UploadBytes)
}

/// The place of an upload's bytes: a file on the disk of the node, or an object of the content store.
public struct UploadBytes: Sendable, Equatable {
    public let upload: UploadID
    /// Key of the object; `nil` if the bytes are in a file.
    public let object: String?

    /// Creates a place.
    public init(upload: UploadID, object: String?) {
        self.upload = upload
        self.object = object
    }
}

/// A complete upload whose bytes become a part of another one.
public struct UploadPart: Sendable {
    public let id: UploadID
    public let byteCount: Int64

    /// Creates a part.
    public init(id: UploadID, byteCount: Int64) {
        self.id = id
        self.byteCount = byteCount
    }
}

/// Writes the bytes of one request to the file of an upload.
public protocol UploadFileWriter: AnyObject, Sendable {
    /// The error that has ended the writing, or `nil`.
    var failure: TransferError? { get }
    /// Bytes of the upload that are durable. Valid after the reply to `end`.
    var durableByteCount: Int64 { get }
    /// Copies bytes and returns how many were taken. If that is fewer than all, `UploadWriterEvents.ready` is
    /// called when more can be taken. Takes all bytes after a failure. One thread at a time.
    func take(_ bytes: UnsafeRawBufferPointer) -> Int
    /// Writes what has arrived, makes it durable and closes the file. Replies once; `digest_mismatch` if the
    /// bytes are not those that the client has announced: those of this request are then dropped. Call once;
    /// no bytes are taken afterwards.
    func end(_ end: UploadEnd, reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void)
}

/// Calls of an `UploadFileWriter` to its owner, on a thread that must not block.
public struct UploadWriterEvents: Sendable {
    /// The writer takes bytes again, or has failed.
    public let ready: @Sendable () -> Void
    /// The first bytes of the upload, so many, are durable.
    public let advanced: @Sendable (Int64) -> Void

    /// Creates the calls.
    public init(ready: @escaping @Sendable () -> Void, advanced: @escaping @Sendable (Int64) -> Void) {
        self.ready = ready
        self.advanced = advanced
    }
}

/// End of a request that adds bytes to an upload.
public enum UploadEnd: Sendable {
    /// They complete the upload.
    case complete
    /// They stay, and more may follow.
    case keep
}

/// Bytes of an upload after a request.
public struct WrittenUpload: Sendable {
    /// Bytes of the upload.
    public let byteCount: Int64
    /// SHA-256 of all bytes, after `UploadEnd.complete`.
    public let sha256: [UInt8]?

    /// Creates a result.
    public init(byteCount: Int64, sha256: [UInt8]?) {
        self.byteCount = byteCount
        self.sha256 = sha256
    }
}
