import FerryCore

/// Bytes that have come whole, and that their place can commit: from then on they are the content at their
/// location. `Publication` calls the functions in their order, each at most once, on a thread of the place
/// that may block. Bytes for the content store are only verified, sent, and put aside or removed. After
/// `commit`, `putAside` or `abort` the content must not be used otherwise.
protocol PendingContent: AnyObject, Sendable {
    /// Number of bytes.
    var byteCount: Int64 { get }
    /// Ends hashing that is behind the writer: `finishHashing` throws soon. Any thread.
    func stopHashing()
    /// Passes the bytes that are not hashed yet to `digests`. Throws if not all bytes can be read, or if they
    /// have no room at their place.
    func finishHashing(_ digests: Digests, _ batch: CommitBatch) throws(TransferError)
    /// Brings bytes that are still in memory to the place, without a name.
    func store() throws(TransferError)
    /// Begins what `sync` completes.
    func beginSync()
    /// Brings the bytes to stable storage.
    func sync() throws(TransferError)
    /// Makes the bytes the content at their location, at once and as a whole, or throws.
    func commit() throws(TransferError) -> CommittedContent
    /// Brings to stable storage that the content is at its location. After `commit`.
    func syncLocation(_ batch: CommitBatch) throws(TransferError)
    /// The bytes, for the content store: where they are before `store`. After `finishHashing`.
    var bytesToSend: ContentUpload.Bytes { get }
    /// Reads the bytes back, for a short result. Throws if not all can be read.
    func contents() throws(TransferError) -> [UInt8]
    /// Leaves the bytes to a later attempt. Returns `nil`, and removes them, if that is not possible.
    /// `syncs`: whether they reach stable storage before.
    func putAside(syncs: Bool) -> PartialDownload?
    /// Removes the bytes.
    func abort()
}

/// A content at its location.
struct CommittedContent {
    let location: ContentLocation
    /// Identity of a file that a client has named: others may replace it.
    var identity: FileIdentity?
}

/// State shared by contents that are committed together, such as the directory that they go to. One thread.
final class CommitBatch {
    /// A list, since the contents of a batch mostly go to the same few directories.
    private var shared: [(key: [UInt8], object: AnyObject)] = []

    /// Returns the object of that key, which the first content that asks makes. Bytes, since two directories
    /// may have names that are equal as strings: é has two forms.
    func object<Object: AnyObject>(
        _ key: [UInt8], _ make: () throws(TransferError) -> Object
    ) throws(TransferError) -> Object {
        if let known = shared.last(where: { $0.key == key })?.object as? Object { return known }
        let object = try make()
        shared.append((key, object))
        return object
    }
}
