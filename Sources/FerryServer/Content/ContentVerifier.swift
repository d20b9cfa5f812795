import FerryAPI
import FerryCore
import FerryEngine
import Glibc
import Synchronization
import Sys

/// Compares the SHA-256 of files with those of jobs' results, for files whose identity has changed, such as
/// after a restore from a backup. Digests are remembered while the file is unchanged.
///
/// One thread reads the files: a slice of one file of each tenant in turn, so that no tenant waits for all
/// files of another one.
final class ContentVerifier: Sendable {
    struct Request: Sendable {
        let tenant: String
        /// Expected digest in hexadecimal, from the job's result.
        let sha256: String
        /// The content, which is in a file.
        let content: OpenedContent
        let reply: Reply<any OpenContent>
        let descriptor: Int32
        let stamp: FileStamp

        /// `nil` if no file has the content, or fstat(2) fails.
        init?(
            tenant: String, sha256: String, content: OpenedContent, reply: @escaping Reply<any OpenContent>
        ) {
            guard let descriptor = content.descriptor, let stamp = FileStamp(descriptor) else { return nil }
            (self.tenant, self.sha256, self.content, self.reply) = (tenant, sha256, content, reply)
            (self.descriptor, self.stamp) = (descriptor, stamp)
        }
    }

    /// Requests of one tenant, and of all tenants, that may wait. Each has an open file.
    static let tenantCountMax = contentWaiterCountMax
    private static let countMax = 512
    /// Largest number of digests that are remembered; beyond it all are dropped.
    private static let knownCountMax = 10_000

    private struct State {
        var known: [FileStamp: String] = [:]
        var waiting: [String: Int] = [:]
        var waitingCount = 0
    }
    private let state = Mutex(State())
    private let mailbox = Mailbox<Request>()
    private let read = Atomic<Int64>(0)

    /// Bytes read so far.
    var readByteCount: Int64 { read.load(ordering: .relaxed) }

    init() {
        // Keeps this object alive until `stop()`.
        _ = Thread(name: "content-digests") { [self] in run() }
    }

    /// Verifies a file. Calls `reply` once: with the content, with `notFound` if the digest differs, or
    /// with `overloaded` if too many requests wait. Usable on any thread; never blocks.
    func verify(_ request: Request) {
        if let known = state.withLock({ $0.known[request.stamp] }) {
            return reply(to: request, known)
        }
        guard admits(request) else { return refuse(request, .overloaded) }
        if !mailbox.send(request) {
            leave(request)
            refuse(request, .unavailable)
        }
    }

    /// Refuses waiting and later requests.
    func stop() { mailbox.close() }

    private func admits(_ request: Request) -> Bool {
        state.withLock { state in
            let count = state.waiting[request.tenant, default: 0]
            guard count < Self.tenantCountMax, state.waitingCount < Self.countMax else { return false }
            state.waiting[request.tenant] = count + 1
            state.waitingCount += 1
            return true
        }
    }

    private func leave(_ request: Request) {
        state.withLock { state in
            let count = state.waiting[request.tenant, default: 1] - 1
            state.waiting[request.tenant] = count > 0 ? count : nil
            state.waitingCount -= 1
        }
    }

    private func reply(to request: Request, _ sha256: String) {
        guard sha256 == request.sha256 else { return refuse(request, .notFound) }
        request.reply(.success(request.content))
    }

    private func refuse(_ request: Request, _ error: StoreError) {
        request.reply(.failure(error))
    }

    // MARK: The thread

    /// A file and the requests for it.
    private struct Work {
        let fingerprint: FileFingerprint
        var requests: [Request]
    }

    private func run() {
        var queues: [(tenant: String, works: [Work])] = []
        while true {
            for request in mailbox.wait(milliseconds: queues.isEmpty ? -1 : 0) { add(request, to: &queues) }
            if mailbox.isClosed {
                let left = queues.flatMap { $0.works.flatMap(\.requests) } + mailbox.take()
                for request in left {
                    leave(request)
                    refuse(request, .unavailable)
                }
                return
            }
            guard !queues.isEmpty else { continue }
            // The tenant whose turn it was goes to the end.
            var queue = queues.removeFirst()
            if settle(queue.works[0]) { queue.works.removeFirst() }
            if !queue.works.isEmpty { queues.append(queue) }
        }
    }

    private func add(_ request: Request, to queues: inout [(tenant: String, works: [Work])]) {
        // The digest may have been computed for another request in the meantime.
        if let known = state.withLock({ $0.known[request.stamp] }) {
            leave(request)
            return reply(to: request, known)
        }
        guard let index = queues.firstIndex(where: { $0.tenant == request.tenant }) else {
            return queues.append((request.tenant, [work(request)]))
        }
        if let same = queues[index].works.firstIndex(where: { $0.fingerprint.stamp == request.stamp }) {
            queues[index].works[same].requests.append(request)
        } else {
            queues[index].works.append(work(request))
        }
    }

    private func work(_ request: Request) -> Work {
        Work(fingerprint: FileFingerprint(request.stamp, request.descriptor), requests: [request])
    }

    /// Reads the next slice. Returns `true` if all requests for the file have a reply.
    private func settle(_ work: Work) -> Bool {
        let before = work.fingerprint.byteCount
        let step = work.fingerprint.step()
        read.wrappingAdd(work.fingerprint.byteCount - before, ordering: .relaxed)
        switch step {
        case .more: return false
        case .failed: break
        case .digest(let sha256, let isStable):
            if isStable { remember(sha256, of: work.fingerprint.stamp) }
        }
        for request in work.requests {
            leave(request)
            if case .digest(let sha256, _) = step {
                reply(to: request, sha256)
            } else {
                refuse(request, .notFound)
            }
        }
        return true
    }

    private func remember(_ sha256: String, of stamp: FileStamp) {
        state.withLock { state in
            if state.known.count >= Self.knownCountMax { state.known = [:] }
            state.known[stamp] = sha256
        }
    }
}
