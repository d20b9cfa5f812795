import FerryAPI
import FerryCore
import FerryEngine
import Glibc
import Sys

/// Opens the results of jobs for download, wherever they are. Runs on a thread of its own, so that a slow or
/// missing disk does not block a thread of the HTTP server.
final class ContentReader: ContentStore {
    private struct Request: Sendable {
        let job: JobRecord
        let reply: Reply<any OpenContent>
    }
    private let mailbox = Mailbox<Request>()
    let verifier = ContentVerifier()
    private let places: Places

    init(places: Places) {
        self.places = places
        let (mailbox, verifier) = (mailbox, verifier)
        _ = Thread(name: "content") {
            while true {
                for request in mailbox.wait(milliseconds: -1) { Self.open(request, places, verifier) }
                if mailbox.isClosed, mailbox.count == 0 { return }
            }
        }
    }

    func open(_ job: JobRecord, reply: @escaping Reply<any OpenContent>) {
        if !mailbox.send(Request(job: job, reply: reply)) { reply(.failure(.unavailable)) }
    }

    func openObject(_ key: String, byteCount: Int64, reply: @escaping Reply<any OpenContent>) {
        Self.openObject(key, byteCount: byteCount, places, reply: reply)
    }

    private static func openObject(
        _ key: String, byteCount: Int64, _ places: Places, reply: @escaping Reply<any OpenContent>
    ) {
        guard let objects = places.objects else { return reply(.failure(.unavailable)) }
        objects.open(key, byteCount: byteCount) { result in
            switch result {
            case .success(let reader): reply(.success(ObjectContent(reader, key, objects)))
            case .failure(let error):
                reply(.failure(error.code == .sourceNotFound ? .contentMissing : .unavailable))
            }
        }
    }

    /// Refuses requests that wait for the verification of a file, which may take minutes.
    func endWaits() { verifier.stop() }

    func stop() {
        mailbox.close()
        verifier.stop()
    }

    private static func open(_ request: Request, _ places: Places, _ verifier: ContentVerifier) {
        let (job, reply) = (request.job, request.reply)
        guard let content = JobContent(job), case .stored(let location) = content.place else {
            return reply(.failure(.notFound))
        }
        if case .object(let key) = location {
            return openObject(key, byteCount: content.size, places, reply: reply)
        }
        do throws(TransferError) {
            let opened = try places.open(content, at: location, of: job.id, tenant: job.tenant)
            guard !opened.isKnown else { return reply(.success(opened)) }
            // Another job or a user may have replaced the file, or a backup restored it.
            guard
                let request = ContentVerifier.Request(
                    tenant: job.tenant, sha256: content.sha256, content: opened, reply: reply)
            else { return reply(.failure(.notFound)) }
            verifier.verify(request)
        } catch {
            reply(.failure(error.isRetryable ? .unavailable : .notFound))
        }
    }
}

/// A content in the content store, open for reading.
private final class ObjectContent: OpenContent {
    private let reader: ObjectReader
    private let objectKey: String
    private let objects: ContentObjects

    init(_ reader: ObjectReader, _ key: String, _ objects: ContentObjects) {
        (self.reader, objectKey, self.objects) = (reader, key, objects)
    }

    var key: FollowedContentKey? { nil }
    var byteCount: Int64 { reader.byteCount }
    func file() -> Int32? { nil }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        ContentRead(reader.read(into: buffer, at: offset))
    }

    func whenReadable(_ body: @escaping @Sendable () -> Void) { reader.whenReadable(body) }

    func presignedURL(mediaType: String, disposition: String) -> String? {
        objects.presignedURL(of: objectKey, mediaType: mediaType, disposition: disposition)
    }
}

extension ContentRead {
    fileprivate init(_ read: OpenedContent.Read) {
        switch read {
        case .bytes(let count): self = .bytes(count)
        case .none: self = .none
        case .failed: self = .failed
        }
    }
}

extension OpenedContent: OpenContent {
    var key: FollowedContentKey? {
        var status = stat()
        guard let descriptor, fstat(descriptor, &status) == 0 else { return nil }
        return FollowedContentKey(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    }

    func file() -> Int32? {
        guard let descriptor else { return nil }
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        return copy < 0 ? nil : copy
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        ContentRead(readBytes(into: buffer, at: offset))
    }
}
