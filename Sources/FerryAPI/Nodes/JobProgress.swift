internal import FerryCore
internal import Synchronization

/// Reads the progress of running jobs from the nodes that run them.
struct JobProgress: Sendable {
    /// Progress of jobs at one moment.
    struct Reading: Sendable {
        fileprivate let local: @Sendable (JobID) -> TransferProgress?
        fileprivate var remote: [JobID: TransferProgress] = [:]
        fileprivate var unavailable: [NodeID: NodeUnavailable] = [:]

        /// Returns the progress of a running job; `nil` for any other job, and if its node has not answered.
        func progress(of record: JobRecord) -> TransferProgress? {
            record.state == .running ? local(record.id) ?? remote[record.id] : nil
        }

        /// Writes a job with its progress. `queue` as in `JobRecord.write`.
        func write(
            _ record: JobRecord, into writer: inout JSONWriter,
            queue: @autoclosure () -> QueueConditions = QueueConditions(),
            for disclosure: Disclosure = .redacted
        ) {
            record.write(
                into: &writer, progress: progress(of: record),
                unavailable: record.state == .running ? record.node.flatMap { unavailable[$0] } : nil,
                queue: queue(),
                for: disclosure)
        }
    }

    private let local: @Sendable (JobID) -> TransferProgress?
    private let others: any OtherNodes

    init(_ ports: APIPorts) {
        local = ports.progress
        others = ports.others
    }

    /// Returns the progress of a job that runs on this node; `nil` for any other job.
    func here(_ job: JobID) -> TransferProgress? { local(job) }

    /// Passes the progress of these jobs: at once if all of them run on this node or not at all, otherwise
    /// when the other nodes have answered. A node that does not answer delays it by
    /// `Limits.nodeProgressWaitSeconds`.
    func read(_ records: some Sequence<JobRecord>, then: @escaping @Sendable (Reading) -> Void) {
        let reading = Reading(local: local)
        var jobs: [NodeID: Set<JobID>] = [:]
        for record in records where record.state == .running {
            if let node = record.node, others.isOther(node) { jobs[node, default: []].insert(record.id) }
        }
        guard !jobs.isEmpty else { return then(reading) }
        let gathering = Gathering(reading, count: jobs.count)
        for (node, jobs) in jobs {
            others.progress(of: jobs, on: node) { result in
                if let reading = gathering.add(result) { then(reading) }
            }
        }
    }
}

/// The answers of several nodes.
private final class Gathering: Sendable {
    private let state: Mutex<(reading: JobProgress.Reading, missingCount: Int)>

    init(_ reading: JobProgress.Reading, count: Int) { state = Mutex((reading, count)) }

    /// Adds an answer. Returns the reading with the last one.
    func add(_ result: Result<[JobID: TransferProgress], NodeUnavailable>) -> JobProgress.Reading? {
        state.withLock { state in
            switch result {
            case .success(let progress): state.reading.remote.merge(progress) { $1 }
            case .failure(let failure): state.reading.unavailable[failure.node] = failure
            }
            state.missingCount -= 1
            return state.missingCount == 0 ? state.reading : nil
        }
    }
}
