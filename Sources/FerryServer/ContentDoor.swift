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
        let descriptor: Int32
        if case .path(let path)? = JobContent(job)?.place {
            let root = Glibc.open(paths.root(of: job.tenant), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            guard root >= 0 else { return .failure(.notFound) }
            defer { close(root) }
            // Not blocking: a FIFO in its place would wait for a writer.
            descriptor = csys_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, 0)
        } else {
            descriptor = Glibc.open("\(paths.kept)/\(KeptFiles.path(for: job.id))", O_RDONLY | O_CLOEXEC)
        }
        var information = stat()
        guard descriptor >= 0, fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG
        else {
            if descriptor >= 0 { close(descriptor) }
            return .failure(.notFound)
        }
        return .success(OpenContent(descriptor: descriptor, byteCount: Int64(information.st_size)))
    }
}
