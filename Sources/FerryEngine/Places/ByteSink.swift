import FerryCore

/// The place where an attempt's content is to be, and the bytes of it that are there. One for each attempt
/// that receives bytes. Nothing is at the content's location before `commit`. Loop thread only; no function
/// blocks, except that a local disk may block for the time of one write.
///
/// An attempt calls `open` before its first request, if bytes of earlier attempts may be there. An accepted
/// response leads to `begin`, or to `resume` if it continues those bytes. Further responses `append` too. In
/// the end the attempt calls `commit`, `keep` or `abort`.
protocol ByteSink: AnyObject {
    // MARK: Before the first request

    /// Finds what earlier attempts have left, and whether the content can be at its location. Throws what is
    /// known at once.
    func open(_ attempt: Attempt) throws(TransferError) -> SinkOpening
    /// Takes what `open` has found later. Returns why the content cannot be at its location; `nil` if it can.
    func opened() -> TransferError?
    /// The bytes that earlier attempts have left, until a content begins, or they are dropped.
    var earlier: EarlierBytes? { get }
    /// Whether a content has begun, or the earlier bytes are continued.
    var isBegun: Bool { get }

    // MARK: While bytes arrive

    /// Takes the name that a response suggests, if the job names only a directory. Throws if the content
    /// cannot have it.
    func takeName(from head: ResponseHead, _ url: WebURL) throws(TransferError)
    /// Number of bytes from byte 0 on without a gap that the next response may continue; `nil` if a content
    /// begins anew.
    var byteCount: Int64? { get }
    /// Removes the bytes that are there: the content begins anew. Returns `false` if there are none.
    func drop() -> Bool

    // MARK: The end

    /// Digests of the content; `nil` until it has begun.
    var digests: Digests? { get }
    /// Passes the bytes to the publication that `make` makes, and lets a thread of the place carry it out. No
    /// bytes are here afterwards. Throws why the content cannot be at its location.
    func commit(_ make: (any PendingContent) -> Publication) throws(TransferError) -> Publication
    /// Ends the writing for a later attempt. Returns whether there are bytes to `leave`; if not, they are
    /// removed.
    func keep() -> Bool
    /// Leaves the bytes to a later attempt, and calls `done`, on another thread, as soon as that attempt can
    /// find them; with `nil` if they are removed instead. Call after `keep`.
    func leave(_ done: @escaping @Sendable (PartialDownload?) -> Void)
    /// Removes the bytes.
    func abort()
    /// Gives back the room that is promised to bytes that did not come.
    func release()
    /// Notes what an error says about the place. `total`: bytes of the whole content, if they are known.
    /// Returns the error, or another one if only this content could not be written.
    func judge(_ error: TransferError, of attempt: Attempt, expecting total: Int64?) -> TransferError
}

/// A sink whose bytes come one after the other.
protocol StreamSink: ByteSink {
    /// Begins a content, in place of any that is there. Throws if it has no room, or cannot be stored.
    func begin(_ plan: ContentPlan) throws(TransferError)
    /// Continues the bytes of the earlier attempt. `total`: bytes of the whole content. Throws as `begin`.
    func resume(_ plan: ContentPlan, total: Int64) throws(TransferError)
    /// The next bytes continue those that are there, or are the first ones of a content of `total` bytes.
    /// Throws `response_too_large`.
    func expect(total: Int64) throws(TransferError)
    /// Whether the bytes come together before they are written: `writeFailed` gets failures then.
    var writesLater: Bool { get }
    /// Called with a failure for which there is no caller.
    var writeFailed: ((TransferError) -> Void)? { get set }
    /// Appends bytes. Throws `response_too_large`, `storage_quota_exceeded`, `storage_full`,
    /// `storage_failed`, or why the content cannot be at its location.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError)
    /// Number of bytes that the place is behind. Reading pauses while it is large.
    var lag: Int64 { get }
    /// Failure of work that is behind the writer; `nil` if there is none.
    var failure: TransferError? { get }
    /// Called once a second: keeps from time to time on record what is there, for attempts after a crash.
    /// Throws as `append`.
    func secondPassed(_ now: Int64) throws(TransferError)
    /// Whether bytes of the whole content are missing, as far as its length is known from a range.
    var isShort: Bool { get }
    /// Whether the end of the content is known without the response's framing.
    var hasKnownEnd: Bool { get }
    /// Throws `incomplete_body` if bytes are missing, and `storage_failed` if the place lacks received ones.
    func checkEnd() throws(TransferError)
    /// The whole content; `nil` if it is not in memory.
    var inMemory: [UInt8]? { get }
}

/// A sink that takes bytes at any offset, for a content that comes in parts.
protocol PartsSink: ByteSink {
    /// Begins a content. Throws if it has no room, or cannot be stored.
    func begin(_ plan: PartsPlan) throws(TransferError)
    /// Continues the bytes of the earlier attempt. Throws if there is no room for the rest; the bytes then
    /// still count.
    func resume(_ plan: PartsPlan) throws(TransferError)
    /// Called with a failure for which there is no caller.
    var writeFailed: ((TransferError) -> Void)? { get set }
    /// Takes bytes, which may be written later. Throws `storage_quota_exceeded`, and `storage_full` or
    /// `storage_failed`, also for earlier bytes.
    func append(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError)
    /// Writes all bytes that were taken. Throws as `append`.
    func flush() throws(TransferError)
    /// A part has written these bytes since the last call.
    func wrote(_ range: Range<Int64>)
    /// The content has no gap before `prefix`, once all bytes that were taken are written.
    func advance(to prefix: Int64)
    /// Whether reading should pause, and whether it may resume.
    var isFarBehind: Bool { get }
    var hasCaughtUp: Bool { get }
    /// Lets a later attempt continue the bytes.
    func becomeResumable(_ record: PartialRecord)
    /// Keeps on record which bytes are there.
    func checkpoint(_ ranges: ByteRanges)
    /// Sets which bytes there are, as far as they could be written, before `leave`.
    func setRanges(_ ranges: ByteRanges)
    /// Removes the bytes, then calls `done` on another thread: a content can begin anew.
    func discard(then done: @escaping @Sendable () -> Void)
}

/// Progress of `ByteSink.open`.
enum SinkOpening {
    /// All is known.
    case opened
    /// `opened` has to be called later; nothing is held until then, so that the attempt may end before.
    case checking
    /// `opened` has to be called later; bytes of earlier attempts may be held by then.
    case searching
}

/// Bytes that earlier attempts have left, as far as they can be used.
struct EarlierBytes: Sendable {
    /// Record of the bytes that the sink has found.
    let record: PartialRecord
    /// The bytes that are not requested again.
    let ranges: ByteRanges

    var byteCount: Int64 { ranges.byteCount }
    /// The first byte to request, if there is no gap before it.
    var offset: Int64 { ranges.prefixByteCount }
}
