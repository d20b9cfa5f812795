import FerryCore
import Synchronization
import Testing

@testable import FerryServer

@Suite("Progress of another node")
struct PeerProgressTests {
    /// A node that answers when the test says so, and a clock that the test sets.
    private final class Node: Sendable {
        struct State {
            var now: Int64 = 1_000_000_000_000
            var asked: [Set<JobID>?] = []
            var answers: [PeerProgress.Answer] = []
        }
        let state = Mutex(State())
        let id = NodeID(high: 1, low: 1)

        func progress() -> PeerProgress {
            PeerProgress(now: { [self] in state.withLock { $0.now } }) { [self] jobs, answer in
                state.withLock { state in
                    state.asked.append(jobs)
                    state.answers.append(answer)
                }
            }
        }
        var asked: [Set<JobID>?] { state.withLock { $0.asked } }
        func advance(_ seconds: Double) { state.withLock { $0.now += Int64(seconds * 1e9) } }
        /// Answers the oldest open request.
        func answer(_ result: Result<[RunningTransfer], NodeUnavailable>) {
            state.withLock { $0.answers.removeFirst() }(result)
        }
        var failure: NodeUnavailable { NodeUnavailable(id, .doesNotAnswer, heartbeatAt: nil) }
    }

    /// Collects what readers get.
    private final class Readers: Sendable {
        let results = Mutex<[Result<[JobID: RunningTransfer], NodeUnavailable>]>([])
        var count: Int { results.withLock { $0.count } }
        var reader: PeerProgress.Reader { { [self] result in results.withLock { $0.append(result) } } }
        var bytes: [Int64?] {
            results.withLock { results in
                results.map { try? $0.get().values.first?.progress.bytesReceived }
            }
        }
    }

    private let a = JobID(high: 1, low: 1)
    private let b = JobID(high: 1, low: 2)

    private func running(_ job: JobID, _ bytes: Int64) -> RunningTransfer {
        RunningTransfer(
            job: job, tenant: "acme", session: "default", progress: TransferProgress(bytesReceived: bytes))
    }

    @Test("many readers of a job make one request; later ones get its answer for a second")
    func shared() {
        let (node, readers) = (Node(), Readers())
        let progress = node.progress()
        for _ in 0..<50 { progress.read([a], reader: readers.reader) }
        #expect(node.asked == [[a]] && readers.count == 0)
        node.advance(0.4)
        node.answer(.success([running(a, 7)]))
        #expect(readers.bytes == Array(repeating: 7, count: 50))
        node.advance(0.5)
        progress.read([a], reader: readers.reader)
        #expect(node.asked.count == 1 && readers.count == 51)
        // Its age counts from the start of the request.
        node.advance(0.2)
        progress.read([a], reader: readers.reader)
        #expect(node.asked.count == 2 && readers.count == 51)
        node.answer(.success([]))
        #expect(readers.bytes.last == .some(nil), "the job does not run there any more")
    }

    @Test("one request is under way at a time; readers of other jobs share the next one")
    func successive() {
        let (node, readers) = (Node(), Readers())
        let progress = node.progress()
        progress.read([a], reader: readers.reader)
        progress.read([b], reader: readers.reader)
        progress.read([a, b], reader: readers.reader)
        #expect(node.asked == [[a]])
        node.answer(.success([running(a, 1)]))
        #expect(readers.count == 1 && node.asked == [[a], [b]])
        node.answer(.success([running(b, 2)]))
        #expect(readers.count == 3 && node.asked.count == 2)
    }

    @Test("more jobs than one request names are asked for as all jobs of the node")
    func many() {
        let (node, readers) = (Node(), Readers())
        let jobs = Set((0...UInt64(Limits.nodeProgressJobCountMax)).map { JobID(high: 2, low: $0) })
        node.progress().read(jobs, reader: readers.reader)
        #expect(node.asked == [nil])
        node.answer(.success([running(a, 1)]))
        #expect(readers.count == 1)
    }

    @Test("a failure is passed to all readers, and for a second to later ones")
    func failing() {
        let (node, readers) = (Node(), Readers())
        let progress = node.progress()
        progress.read([a], reader: readers.reader)
        progress.read([b], reader: readers.reader)
        node.answer(.failure(node.failure))
        #expect(readers.count == 2 && node.asked.count == 1)
        progress.read([a], reader: readers.reader)
        #expect(readers.bytes == [nil, nil, nil])
        #expect(progress.latest(nil).isEmpty && node.asked.count == 1)
        node.advance(1.1)
        progress.read([a], reader: readers.reader)
        #expect(node.asked.count == 2)
    }

    @Test("streams get the latest answer, and nothing older than two seconds")
    func latest() {
        let node = Node()
        let progress = node.progress()
        #expect(progress.latest(nil).isEmpty && node.asked == [nil])
        node.answer(.success([running(a, 1), running(b, 2)]))
        #expect(progress.latest(nil).count == 2 && progress.latest([b]).map(\.job) == [b])
        #expect(node.asked.count == 1)
        node.advance(1.1)
        // It is asked again, and what it said is shown meanwhile.
        #expect(progress.latest([a]).map(\.job) == [a] && node.asked.last == .some([a]))
        node.advance(1)
        #expect(progress.latest([a]).isEmpty, "the node has not answered")
        node.answer(.success([]))
        #expect(progress.latest([a]).isEmpty)
    }
}
