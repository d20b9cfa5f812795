import FerryAPI
import FerryCore
import Glibc
import Synchronization
import Sys

/// Compares the SHA-256 of files with those of jobs' results, for files whose identity has changed, such as
/// after a restore from a backup. Digests are remembered while the file is unchanged.
///
/// One thread reads the files: a slice of one file of each tenant in turn, so that no tenant waits for all
/// files of another one.
final class ContentVerifier: Sendable {
    struct Question: Sendable {
        let tenant: String
        /// Expected digest in hexadecimal, from the job's result.
        let sha256: String
        /// The file, owned by the question: closed, or passed on with the reply.
        let descriptor: Int32
        let stamp: FileStamp
        let reply: Reply<OpenContent>
    }

    /// Requests of one tenant, and of all tenants, that may wait. Each has an open descriptor.
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
    private let mailbox = Mailbox<Question>()
    private let read = Atomic<Int64>(0)

    /// Bytes read so far.
    var readByteCount: Int64 { read.load(ordering: .relaxed) }

    init() {
        // Keeps this object alive until `stop()`.
        _ = Thread(name: "content-proofs") { [self] in run() }
    }

    /// Verifies a file. Calls `reply` once: with the descriptor, with `notFound` if the digest differs, or
    /// with `overloaded` if too many requests wait. Usable on any thread; never blocks.
    func ask(_ question: Question) {
        if let known = state.withLock({ $0.known[question.stamp] }) {
            return answer(question, known)
        }
        guard admits(question) else { return refuse(question, .overloaded) }
        if !mailbox.send(question) {
            leave(question)
            refuse(question, .unavailable)
        }
    }

    /// Refuses waiting and later requests.
    func stop() { mailbox.close() }

    private func admits(_ question: Question) -> Bool {
        state.withLock { state in
            let count = state.waiting[question.tenant, default: 0]
            guard count < Self.tenantCountMax, state.waitingCount < Self.countMax else { return false }
            state.waiting[question.tenant] = count + 1
            state.waitingCount += 1
            return true
        }
    }

    private func leave(_ question: Question) {
        state.withLock { state in
            let count = state.waiting[question.tenant, default: 1] - 1
            state.waiting[question.tenant] = count > 0 ? count : nil
            state.waitingCount -= 1
        }
    }

    private func answer(_ question: Question, _ sha256: String) {
        guard sha256 == question.sha256 else { return refuse(question, .notFound) }
        question.reply(
            .success(OpenContent(descriptor: question.descriptor, byteCount: question.stamp.byteCount)))
    }

    private func refuse(_ question: Question, _ error: StoreError) {
        close(question.descriptor)
        question.reply(.failure(error))
    }

    // MARK: The thread

    /// A file and the requests for it.
    private struct Work {
        let proof: FileFingerprint
        var questions: [Question]
    }

    private func run() {
        var queues: [(tenant: String, works: [Work])] = []
        while true {
            for question in mailbox.wait(milliseconds: queues.isEmpty ? -1 : 0) { add(question, to: &queues) }
            if mailbox.isClosed {
                let left = queues.flatMap { $0.works.flatMap(\.questions) } + mailbox.take()
                for question in left {
                    leave(question)
                    refuse(question, .unavailable)
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

    private func add(_ question: Question, to queues: inout [(tenant: String, works: [Work])]) {
        // The digest may have been computed for another request in the meantime.
        if let known = state.withLock({ $0.known[question.stamp] }) {
            leave(question)
            return answer(question, known)
        }
        guard let index = queues.firstIndex(where: { $0.tenant == question.tenant }) else {
            return queues.append((question.tenant, [work(question)]))
        }
        if let same = queues[index].works.firstIndex(where: { $0.proof.stamp == question.stamp }) {
            queues[index].works[same].questions.append(question)
        } else {
            queues[index].works.append(work(question))
        }
    }

    private func work(_ question: Question) -> Work {
        Work(proof: FileFingerprint(question.stamp, question.descriptor), questions: [question])
    }

    /// Reads the next slice. Returns `true` if all requests for the file have a reply.
    private func settle(_ work: Work) -> Bool {
        let before = work.proof.byteCount
        let step = work.proof.step()
        read.wrappingAdd(work.proof.byteCount - before, ordering: .relaxed)
        switch step {
        case .more: return false
        case .failed: break
        case .digest(let sha256, let lasts):
            if lasts { remember(sha256, of: work.proof.stamp) }
        }
        for question in work.questions {
            leave(question)
            if case .digest(let sha256, _) = step {
                answer(question, sha256)
            } else {
                refuse(question, .notFound)
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
