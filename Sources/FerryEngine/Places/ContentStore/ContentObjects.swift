import Curl
package import FerryCore
package import Logging
import OpenSSL
import Sys

/// The content store in a bucket that all nodes share: results without a destination, and kept bodies. Each
/// content is one object, whose key is never used again. Any thread.
package final class ContentObjects: Place {
    /// Settings of the content store.
    package struct Settings: Sendable {
        fileprivate let bucket: ContentBucket
        fileprivate let key: AccessKey?

        /// `accessKeyID`: `nil` for requests without signature. `sessionToken`: of a temporary key.
        package init(
            _ bucket: ContentBucket, accessKeyID: String?, secretAccessKey: String, sessionToken: String?
        ) {
            self.bucket = bucket
            key = accessKeyID.map {
                AccessKey(
                    accessKeyID: $0, secretAccessKey: secretAccessKey, sessionToken: sessionToken)
            }
        }
    }

    let client: ContentClient
    package let counts = ContentCounts()
    private let uploads: ContentUploads
    /// For short requests, which do not wait for others.
    private let threads: ContentThreads
    /// For the copying of objects to files.
    private let copies: ContentThreads
    private let stopping = StopSignal()

    /// Starts threads. Throws if libcurl cannot be used.
    package init(_ settings: Settings, clock: any WallClock, logger: Logger) throws {
        client = try ContentClient(settings.bucket, key: settings.key, clock: clock, logger: logger)
        uploads = ContentUploads(client)
        threads = ContentThreads(name: "content", count: 4)
        copies = ContentThreads(name: "content-in", count: 4)
    }

    /// Returns why a bucket cannot be used, as its store tells; `nil` if it can. Blocks. Throws if libcurl
    /// cannot be used.
    package static func problem(with settings: Settings, clock: any WallClock) throws -> String? {
        let logger = Logger(label: "check", factory: { _ in SwiftLogNoOpLogHandler() })
        let client = try ContentClient(settings.bucket, key: settings.key, clock: clock, logger: logger)
        defer { client.stop() }
        do throws(ContentClient.Failure) {
            // The page need have no objects.
            var request = ContentClient.Request("GET", nil)
            request.query = "list-type=2&max-keys=1&prefix=\(percentEncoded(client.bucket.prefix))"
            _ = try client.send(request)
            return nil
        } catch {
            if case .unavailable(let reason) = error { return reason }
            return nil
        }
    }

    package var isAvailable: Bool { client.isAvailable }

    // MARK: Keys

    /// Returns a new key for the content of an attempt. It is never used again, also if the database is set
    /// back to an earlier state: then a number of an attempt may be.
    static func key(for attempt: Attempt) -> String {
        "jobs/\(attempt.job)/\(attempt.number)-\(hexEncoded(randomBytes(4)))"
    }

    /// Returns a new key for the bytes of a staged upload.
    static func key(for upload: UploadID) -> String { "uploads/\(upload)/\(hexEncoded(randomBytes(8)))" }

    // MARK: Contents

    /// Sends the bytes of a content to the store. `done` is called once, on a thread that may block: with the
    /// failure, or with `nil` as soon as the store has the whole object.
    func store(_ upload: ContentUpload, done: @escaping @Sendable (TransferError?) -> Void) {
        uploads.add(upload, done)
    }

    /// Opens a content for reading. Replies with `source_not_found` if the store has no such object, and with
    /// `storage_unavailable`; at once if the store is known not to answer.
    package func open(
        _ key: String, byteCount: Int64,
        reply: @escaping @Sendable (Result<ObjectReader, TransferError>) -> Void
    ) {
        guard isAvailable else { return reply(.failure(.contentStoreUnavailable)) }
        let isTaken = threads.run { [self] in
            reply(Result { () throws(TransferError) in try open(key, byteCount: byteCount) })
        }
        if !isTaken { reply(.failure(.contentStoreUnavailable)) }
    }

    private func open(_ key: String, byteCount: Int64) throws(TransferError) -> ObjectReader {
        do throws(ContentClient.Failure) {
            let response = try client.send(.init("HEAD", key), stopping)
            guard response.header("content-length").flatMap({ Int64($0) }) == byteCount else {
                throw ContentClient.Failure.missing
            }
        } catch {
            throw unavailable(error, key)
        }
        return ObjectReader(key, byteCount: byteCount, client)
    }

    /// Returns what a failed look at an object means. A response to HEAD does not say whether the object is
    /// missing or the bucket.
    private func unavailable(
        _ failure: ContentClient.Failure, _ key: String
    ) -> TransferError {
        guard case .missing = failure else { return .contentStoreUnavailable }
        var request = ContentClient.Request("GET", key)
        request.headers = [.init("Range", "bytes=0-0")]
        do throws(ContentClient.Failure) {
            _ = try client.send(request, stopping)
            // It has another length.
            return missing()
        } catch {
            if case .missing = error { return missing() }
            return .contentStoreUnavailable
        }
    }

    private func missing() -> TransferError {
        counts.noteMissing()
        return .contentMissing
    }

    /// Returns a URL that gives the content without a key for `presignedSeconds`, with these fields of the
    /// response; `nil` if the node has no key.
    package func presignedURL(of key: String, mediaType: String, disposition: String) -> String? {
        client.presignedURL(
            of: key,
            query: "response-content-type=\(percentEncoded(mediaType))"
                + "&response-content-disposition=\(percentEncoded(disposition))",
            seconds: Self.presignedSeconds)
    }

    /// Seconds for which a presigned address is good.
    package static let presignedSeconds = 900

    /// Copies a content to a file without a name. Blocks until all bytes are there. Throws
    /// `source_not_found`, `storage_unavailable`, and as `ClaimedFile.write`.
    func fetch(
        _ key: String, byteCount: Int64, into file: ClaimedFile, _ stop: StopSignal
    ) throws(TransferError) {
        var offset: Int64 = 0
        while offset < byteCount {
            let end = min(byteCount, offset + ContentUploads.partByteCount)
            var request = ContentClient.Request("GET", key)
            request.headers = [.init("Range", "bytes=\(offset)-\(end - 1)")]
            request.byteLimit = Int(end - offset)
            let body: [UInt8]
            do throws(ContentClient.Failure) {
                body = try client.send(request, stop).body
            } catch {
                throw unavailable(error, key)
            }
            guard body.count == Int(end - offset) else { throw missing() }
            try file.write(body, at: offset)
            offset = end
        }
    }

    /// Removes an object, soon. If that fails, the sweep removes it later.
    package func remove(_ key: String) {
        threads.run { [self] in
            if isAvailable { _ = try? client.send(.init("DELETE", key), stopping) }
        }
    }

    /// Does work that copies objects to files, and may block. Returns `false`, and drops the work, after
    /// `stop`.
    func runCopying(_ work: @escaping @Sendable () -> Void) -> Bool { copies.run(work) }

    /// Does work that sends objects, and may block. Returns `false`, and drops the work, after `stop`.
    func runSending(_ work: @escaping @Sendable () -> Void) -> Bool { uploads.run(work) }

    // MARK: Place

    func keeps(_ location: ContentLocation) -> Bool {
        if case .object = location { true } else { false }
    }

    // No input reaches this: attempts receive their bytes into local files.
    func sink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any StreamSink {
        preconditionFailure("no attempt writes to an object")
    }
    // No input reaches this either.
    func partsSink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any PartsSink {
        preconditionFailure("no attempt writes to an object")
    }
    // No input reaches this: `BodyAssembly` copies objects to files before it opens them.
    func source(of content: PlacedContent) throws(TransferError) -> any ByteSource {
        preconditionFailure("an object is copied to a file before it is sent")
    }

    func removeContent(of job: JobID, at location: ContentLocation?) {
        if case .object(let key)? = location { remove(key) }
    }
    func forget(_ point: ResumePoint) {}
    func removePartialFiles(of jobs: [JobID]) {}
    func removePartialFiles(of attempts: [LostAttempt]) {}
    func keepBytes(of jobs: [JobID]) {}
    func secondPassed() {}

    func stop() {
        stopping.set()
        client.stop()
        uploads.stop()
        threads.stop()
        copies.stop()
    }
}

extension TransferError {
    static let contentStoreUnavailable = TransferError(
        .storageUnavailable, "The content store cannot be used.", phase: .finishing, isRetryable: true)
    /// The content is in a content store, and the settings of this node name none.
    static let noContentStore = TransferError(
        .storageUnavailable, "The content is in a content store, and this node has none.", phase: .sending,
        isRetryable: true)
    static let contentMissing = TransferError(
        .sourceNotFound, "The content is no longer in the content store.", phase: .sending,
        isRetryable: false)
}
