import CSys
import FerryAPI
import FerryCore
import FerryEngine
import Glibc
import Sys

/// Opens what a job has fetched, on a thread of its own: a disk that is slow or gone must hold no server
/// thread.
final class ContentDoor: ContentStore {
    private struct Request: Sendable {
        let job: JobRecord
        let reply: Reply<OpenContent>
    }
    private let mailbox = Mailbox<Request>()
    private let paths: StoragePaths

    init(paths: StoragePaths) {
        self.paths = paths
        let mailbox = mailbox
        _ = Thread(name: "content") {
            while true {
                for request in mailbox.wait(milliseconds: -1) { request.reply(Self.open(request.job, paths)) }
                if mailbox.isClosed, mailbox.count == 0 { return }
            }
        }
    }

    func open(_ job: JobRecord, reply: @escaping Reply<OpenContent>) {
        if !mailbox.send(Request(job: job, reply: reply)) { reply(.failure(.unavailable)) }
    }

    func stop() { mailbox.close() }

    private static func open(_ job: JobRecord, _ paths: StoragePaths) -> Result<OpenContent, StoreError> {
        guard let content = JobContent(job) else { return .failure(.notFound) }
        let descriptor: Int32
        var identity: FileIdentity?
        if case .path(let path, let published) = content.place {
            identity = published
            let root = Glibc.open(paths.root(of: job.tenant), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard root >= 0 else { return .failure(.notFound) }
            defer { close(root) }
            // Not blocking: a FIFO in its place would wait for a writer.
            descriptor = csys_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, 0)
        } else {
            descriptor = Glibc.open("\(paths.kept)/\(KeptFiles.path(for: job.id))", O_RDONLY | O_CLOEXEC)
        }
        guard descriptor >= 0 else { return .failure(.notFound) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, isContent(status, size: content.size, identity) else {
            close(descriptor)
            return .failure(.notFound)
        }
        return .success(OpenContent(descriptor: descriptor, byteCount: content.size))
    }

    /// Whether it is what the job has fetched: digest, tag and type are that job's. Another job or a user may
    /// have put another file in its place since.
    private static func isContent(_ status: stat, size: Int64, _ identity: FileIdentity?) -> Bool {
        guard status.st_mode & S_IFMT == S_IFREG, Int64(status.st_size) == size else { return false }
        return identity.map { $0 == FileIdentity(status) } ?? true
    }
}
