import CSys
import FerryAPI
import FerryCore
import FerryEngine
import Glibc
import Sys

/// Opens the results of jobs for download. Runs on a thread of its own, so that a slow or missing disk does
/// not block a thread of the HTTP server.
final class ContentReader: ContentStore {
    private struct Request: Sendable {
        let job: JobRecord
        let reply: Reply<OpenContent>
    }
    private let mailbox = Mailbox<Request>()
    private let paths: StoragePaths
    let verifier = ContentVerifier()

    init(paths: StoragePaths) {
        self.paths = paths
        let (mailbox, verifier) = (mailbox, verifier)
        _ = Thread(name: "content") {
            while true {
                for request in mailbox.wait(milliseconds: -1) { Self.open(request, paths, verifier) }
                if mailbox.isClosed, mailbox.count == 0 { return }
            }
        }
    }

    func open(_ job: JobRecord, reply: @escaping Reply<OpenContent>) {
        if !mailbox.send(Request(job: job, reply: reply)) { reply(.failure(.unavailable)) }
    }

    /// Refuses requests that wait for the verification of a file, which may take minutes.
    func endWaits() { verifier.stop() }

    func stop() {
        mailbox.close()
        verifier.stop()
    }

    private static func open(_ request: Request, _ paths: StoragePaths, _ verifier: ContentVerifier) {
        let (job, reply) = (request.job, request.reply)
        guard let content = JobContent(job) else { return reply(.failure(.notFound)) }
        let descriptor = descriptor(of: content, job, paths)
        guard descriptor >= 0 else { return reply(.failure(.notFound)) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            Int64(status.st_size) == content.size
        else {
            close(descriptor)
            return reply(.failure(.notFound))
        }
        guard !isPublished(status, content) else {
            return reply(.success(OpenContent(descriptor: descriptor, byteCount: content.size)))
        }
        verifier.verify(
            ContentVerifier.Request(
                tenant: job.tenant, sha256: content.sha256, descriptor: descriptor, stamp: FileStamp(status),
                reply: reply))
    }

    /// Returns a descriptor owned by the caller, or a negative number if there is no file.
    private static func descriptor(of content: JobContent, _ job: JobRecord, _ paths: StoragePaths) -> Int32 {
        guard case .stored(.namedFile(let path), _) = content.place else {
            return Glibc.open("\(paths.managedFiles)/\(ManagedFiles.path(for: job.id))", O_RDONLY | O_CLOEXEC)
        }
        let root = Glibc.open(paths.root(of: job.tenant), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else { return -1 }
        defer { close(root) }
        // Non-blocking: opening a FIFO there would wait for a writer.
        return csys_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, 0)
    }

    /// Returns `true` if the file is the one that the job has published, unchanged. If not, its digest has to
    /// be verified: another job or a user may have replaced it, or a backup restored it.
    private static func isPublished(_ status: stat, _ content: JobContent) -> Bool {
        // Only Ferry writes to the directory of kept files.
        guard case .stored(.namedFile, let identity) = content.place else { return true }
        return identity == FileIdentity(status)
    }
}
