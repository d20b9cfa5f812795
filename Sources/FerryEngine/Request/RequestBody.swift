import Curl
import FerryCore

/// The body that an attempt sends: opened before the first request, read while one runs, and read again from
/// byte 0 for each further one. Loop thread only.
struct RequestBody {
    /// `nil` until the body is open, and for attempts without one.
    private(set) var source: BodyReader?
    private var hasPausedToRead = false

    /// Bytes of the body, 0 without one; `nil` if only its end tells.
    var byteCount: Int64? { source.map(\.byteCount) ?? 0 }
    var sentByteCount: Int64 { source?.sent ?? 0 }
    /// Whether a body exists and its last byte was handed to libcurl.
    var isSent: Bool { source?.isSent ?? false }
    /// Whether bytes are left to send.
    var hasMore: Bool { source.map { !$0.isSent } ?? false }

    // MARK: Before the first request

    /// Opens a body that needs no assembly: the payload, or one file. Returns `nil` if the attempt has none.
    static func contents(
        of attempt: Attempt, _ context: EngineContext
    ) throws(TransferError) -> BodyContents? {
        let subject = attempt.spec.kind == .upload ? 0 : nil
        if let payload = attempt.payload { return BodyContents([.bytes(payload)], subject: subject) }
        guard case .path(let path)? = attempt.spec.source else { return nil }
        return BodyContents([.source(try context.places.source(path, of: attempt))], subject: subject)
    }

    /// Throws `size_mismatch` before a byte leaves. A source with other bytes than the job expects keeps
    /// them, so the job is not tried again.
    /// `onHashed` is called on a file thread whenever that has hashed more of a large body.
    mutating func open(
        _ contents: BodyContents, of spec: JobSpec, _ fileThreads: FileThreadPool,
        onHashed: @escaping @Sendable () -> Void = {}
    ) throws(TransferError) {
        let expected = spec.integrity
        var integrity = contents.subject == nil ? JobSpec.Integrity() : expected
        integrity.size = integrity.size ?? contents.integrity.size
        integrity.sha256 = integrity.sha256 ?? contents.integrity.sha256
        if let size = integrity.size,
            let actual = contents.subject.flatMap({ contents.pieces[$0].byteCount }),
            size != actual
        {
            throw TransferError(
                .sizeMismatch, "The size is \(actual) bytes instead of \(size).", phase: .sending,
                isRetryable: false)
        }
        // A server from which the bytes are fetched may have the right ones later.
        let digests = Digests(
            integrity, announced: contents.announced, isRepeatable: contents.isFetched,
            additional: spec.storeChecksum ?? (spec.comparesObject(contents.byteCount) ? .md5 : nil))
        source = BodyReader(contents, digests: digests) { file, digests in
            DigestTail(file, digests, fileThreads: fileThreads, onProgress: onHashed)
        }
        guard spec.isSentToStore, let count = byteCount else { return }
        let limit =
            source?.divisible == nil ? Limits.objectByteCountMax : Limits.multipartByteCountMax
        if count > limit { throw .tooLargeForStore(count, limit: limit) }
    }

    /// Hashes the body before it is sent. Throws as `read`. `reply` is called at once, or on a file thread.
    func hashBeforeSending(
        _ reply: @escaping @Sendable (Result<PayloadDigests, TransferError>) -> Void
    ) throws(TransferError) {
        guard let source else { return reply(.success(.empty)) }
        try source.hashUnsent()
        let (digests, size, algorithm) = (source.digests, source.subjectByteCount, source.digests.additional)
        source.whenHashed { tail in
            reply(
                Result { () throws(TransferError) in
                    if let failure = tail?.failure { throw failure }
                    let sha256 = try digests.finish()
                    let value = digests.additionalValue
                    // A store compares no MD5.
                    guard let algorithm, algorithm != .md5 else {
                        return PayloadDigests(sha256: sha256, checksum: nil, byteCount: size, md5: value)
                    }
                    return PayloadDigests(
                        sha256: sha256, checksum: value.map { .init(algorithm: algorithm, value: $0) },
                        byteCount: size)
                })
        }
    }

    /// Hashes the first bytes of a divisible source, or more, behind their readers.
    func hash(upTo end: Int64) { source?.hashDivisible(upTo: end) }

    /// Returns how many of the first `end` bytes of a body are hashed that `hash` was called for.
    func hashedByteCount(upTo end: Int64) -> Int64 { source?.hashedByteCount(upTo: end) ?? 0 }

    /// Ends the hashing soon, with a failure.
    func stopHashing() { source?.stopHashing() }

    /// Takes the digests of the whole body.
    func take(_ digests: PayloadDigests) { source?.setPayload(digests) }

    // MARK: While a request runs

    /// Fills the buffer as far as there are bytes. Finds none if a source has none yet. Throws as
    /// `BodyReader.read`.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransferError) -> ByteRead {
        try source?.read(into: buffer) ?? .bytes(0)
    }

    /// Calls `body` once, on any thread, as soon as a read that found no bytes can be repeated.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { source?.whenReadable(body) }

    /// Whether sending pauses so that libcurl reads first. A response in the middle of a body is an early
    /// refusal, after which the server may close the connection. Sending then fails, and libcurl would never
    /// read the response. Not twice in a row: what has come need not be a response.
    mutating func pausesToRead(_ transfer: Transfer?, hasHead: Bool) -> Bool {
        hasPausedToRead =
            sentByteCount > 0 && !isSent && !hasHead && !hasPausedToRead && transfer?.hasUnreadBytes ?? false
        return hasPausedToRead
    }

    /// Chooses the bytes that the next request has; `nil`: all.
    func select(_ range: Range<Int64>?) { source?.select(range) }

    /// Goes to the first byte of the request. Throws `source_changed` if a file is known to have changed.
    func rewind() throws(TransferError) { try source?.rewind() }

    // MARK: After the last request

    /// Whether bytes of a stream are still to be hashed that the server has already.
    var hasUnhashed: Bool { source?.hasUnhashed ?? false }

    /// Hashes them. As `BodyReader.hashRest`.
    func hashRest() throws(TransferError) -> Bool { try source?.hashRest() ?? true }

    /// Calls `body` once, on any thread, as soon as `hashRest` can go on.
    func whenHashable(_ body: @escaping @Sendable () -> Void) { source?.whenHashable(body) }

    /// Throws `source_changed` unless the files are what they were when they were opened.
    func check() throws(TransferError) { try source?.check() }

    /// Bytes of a copy that were on a disk before they were sent; `nil` if none were.
    private var spooledByteCount: Int64? {
        source?.fetchedFile.flatMap { $0.isOnDisk ? $0.byteCount : nil }
    }

    /// Finishes an upload whose response is accepted. `wasSentBefore`: an earlier attempt has sent the body,
    /// and this one has asked for the outcome only. `offset`: at which it has continued the upload of
    /// an earlier one. `object`: what a store has made of the body. `reply` is called at once, or on a file
    /// thread as soon as the source is hashed.
    func finish(
        _ integrity: JobSpec.Integrity, isDelimited: Bool, wasSentBefore: Bool,
        resumedAt offset: Int64?, object: TransferResult.SentObject?,
        _ reply: @escaping @Sendable (AttemptMachine.Event) -> Void
    ) throws(TransferError) {
        guard let source, source.isSent || wasSentBefore else {
            throw TransferError(
                .connectionLost, "The server answered before it had the whole body.", phase: .sending,
                isRetryable: true)
        }
        if let payload = source.payload {
            var result = TransferResult(
                size: payload.byteCount, sha256: payload.sha256,
                verified: source.digests.verification(integrity, isDelimited: isDelimited))
            result.object = object
            result.resumedAtOffset = offset
            result.spooledByteCount = spooledByteCount
            return reply(.stored(result))
        }
        if wasSentBefore { try source.hashUnsent() }
        let (digests, size) = (source.digests, source.subjectByteCount)
        let verified = digests.verification(integrity, isDelimited: isDelimited)
        let spooled = spooledByteCount
        source.whenHashed { tail in
            do throws(TransferError) {
                if let failure = tail?.failure { throw failure }
                var result = TransferResult(size: size, sha256: try digests.finish(), verified: verified)
                result.object = object
                result.resumedAtOffset = offset
                result.spooledByteCount = spooled
                reply(.stored(result))
            } catch {
                reply(.storageFailed(error))
            }
        }
    }
}
