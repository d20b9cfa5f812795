import FerryCore
import Synchronization
import Sys

/// Progress of another node's running jobs, as that node reports it. However many readers there are, one
/// request to the node is under way at a time, and progress that is younger than `Limits.nodeProgressSeconds`
/// is passed on without one.
///
/// Its age counts from the start of the request. A request takes `Limits.nodeProgressWaitSeconds` at most, so
/// that no reader gets anything older than the sum of both. Any thread.
final class PeerProgress: Sendable {
    /// Receives all running jobs that were asked for.
    typealias Answer = @Sendable (Result<[RunningTransfer], NodeUnavailable>) -> Void
    typealias Reader = @Sendable (Result<[JobID: RunningTransfer], NodeUnavailable>) -> Void

    private struct Entry {
        /// `nil`: the job does not run there.
        let transfer: RunningTransfer?
        /// Monotonic nanoseconds.
        let at: Int64
    }

    private struct State {
        var entries: [JobID: Entry] = [:]
        /// When all jobs were asked for; then a job without an entry does not run there.
        var allAt: Int64 = .min
        var failure: (NodeUnavailable, at: Int64)?
        var waiting: [(jobs: Set<JobID>, reader: Reader)] = []
        /// Jobs that the next request asks for.
        var wanted: Set<JobID> = []
        var wantsAll = false
        var isAsking = false
    }

    private static let freshNanoseconds = Int64(Limits.nodeProgressSeconds * 1e9)
    private static let keptNanoseconds =
        freshNanoseconds + Int64(Limits.nodeProgressWaitSeconds * 1e9)

    /// Asks the node for these jobs, or for all with `nil`.
    private let ask: @Sendable (Set<JobID>?, @escaping Answer) -> Void
    private let now: @Sendable () -> Int64
    private let state = Mutex(State())

    /// `now`: monotonic nanoseconds.
    init(
        now: @escaping @Sendable () -> Int64 = { monotonicNanoseconds() },
        ask: @escaping @Sendable (Set<JobID>?, @escaping Answer) -> Void
    ) {
        self.ask = ask
        self.now = now
    }

    /// Passes what the node says of these jobs; a job that does not run there is missing.
    func read(_ jobs: Set<JobID>, reader: @escaping Reader) {
        let now = now()
        let known: Result<[JobID: RunningTransfer], NodeUnavailable>? = state.withLock { state in
            if let failure = state.failure, now - failure.at < Self.freshNanoseconds {
                return .failure(failure.0)
            }
            let missing = jobs.filter { !Self.isKnown($0, state, at: now) }
            if missing.isEmpty { return .success(Self.transfers(of: jobs, state)) }
            state.waiting.append((jobs, reader))
            state.wanted.formUnion(missing)
            return nil
        }
        if let known { reader(known) } else { begin() }
    }

    /// Returns what the node said last of these jobs, or of all with `nil`, and asks again if that is old.
    func latest(_ jobs: Set<JobID>?) -> [RunningTransfer] {
        let now = now()
        let (transfers, isOld) = state.withLock { state in
            let isFailing = state.failure.map { now - $0.at < Self.freshNanoseconds } ?? false
            if let jobs {
                state.wanted.formUnion(jobs.filter { !Self.isKnown($0, state, at: now) })
            } else if state.allAt <= now - Self.freshNanoseconds {
                state.wantsAll = true
            }
            let kept = state.entries.filter { id, entry in
                now - entry.at < Self.keptNanoseconds && jobs?.contains(id) ?? true
            }
            let isOld = !isFailing && (state.wantsAll || !state.wanted.isEmpty)
            return (kept.values.compactMap(\.transfer), isOld)
        }
        if isOld { begin() }
        return transfers
    }

    private static func isKnown(_ job: JobID, _ state: State, at now: Int64) -> Bool {
        max(state.entries[job]?.at ?? .min, state.allAt) > now - freshNanoseconds
    }

    private static func transfers(of jobs: Set<JobID>, _ state: State) -> [JobID: RunningTransfer] {
        var transfers: [JobID: RunningTransfer] = [:]
        for job in jobs { transfers[job] = state.entries[job]?.transfer }
        return transfers
    }

    /// Sends the next request, unless one is under way.
    private func begin() {
        let at = now()
        let jobs: Set<JobID>?? = state.withLock { state in
            guard !state.isAsking, state.wantsAll || !state.wanted.isEmpty else { return nil }
            let isAll = state.wantsAll || state.wanted.count > Limits.nodeProgressJobCountMax
            let jobs = isAll ? nil : state.wanted
            (state.isAsking, state.wanted, state.wantsAll) = (true, [], false)
            return .some(jobs)
        }
        guard let jobs else { return }
        // The request keeps this object until its readers have the answer.
        ask(jobs) { [self] result in add(result, of: jobs, at: at) }
    }

    /// Adds the answer to a request that was sent at `at`. Readers of its jobs are served even if it took
    /// long.
    private func add(_ result: Result<[RunningTransfer], NodeUnavailable>, of jobs: Set<JobID>?, at: Int64) {
        let (done, isWaiting) = state.withLock { state -> ([@Sendable () -> Void], Bool) in
            state.isAsking = false
            state.entries = state.entries.filter { at - $0.value.at < Self.keptNanoseconds }
            switch result {
            case .failure(let failure):
                state.failure = (failure, now())
                var done: [@Sendable () -> Void] = []
                for waiting in state.waiting { done.append { waiting.reader(.failure(failure)) } }
                (state.waiting, state.wanted) = ([], [])
                return (done, false)
            case .success(let transfers):
                state.failure = nil
                if let jobs {
                    for job in jobs { state.entries[job] = Entry(transfer: nil, at: at) }
                } else {
                    (state.entries, state.allAt) = ([:], at)
                }
                for transfer in transfers {
                    state.entries[transfer.job] = Entry(transfer: transfer, at: at)
                }
                var done: [@Sendable () -> Void] = []
                var left: [(jobs: Set<JobID>, reader: Reader)] = []
                for waiting in state.waiting {
                    guard waiting.jobs.allSatisfy({ Self.isKnown($0, state, at: at) }) else {
                        left.append(waiting)
                        continue
                    }
                    let found = Self.transfers(of: waiting.jobs, state)
                    done.append { waiting.reader(.success(found)) }
                }
                state.waiting = left
                state.wanted = state.wanted.filter { !Self.isKnown($0, state, at: at) }
                for waiting in left {
                    state.wanted.formUnion(waiting.jobs.filter { !Self.isKnown($0, state, at: at) })
                }
                return (done, !left.isEmpty)
            }
        }
        for reply in done { reply() }
        if isWaiting { begin() }
    }
}
