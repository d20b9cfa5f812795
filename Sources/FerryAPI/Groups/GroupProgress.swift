internal import FerryCore

/// Reads the bytes of the unfinished jobs of a group.
struct GroupProgress: Sendable {
    /// Jobs that are read at most. If a group has more unfinished jobs, only running ones are.
    private static let jobCountMax: Int64 = 500

    private let jobs: any JobReader
    private let progress: JobProgress

    init(_ ports: APIPorts) {
        jobs = ports.store.jobs
        progress = JobProgress(ports)
    }

    /// Passes the group with the bytes of its unfinished jobs. Passes it without them if they cannot be read.
    func read(_ group: JobGroup, then: @escaping @Sendable (JobGroup) -> Void) {
        let unfinished = group.counts.unfinished
        let isWhole = unfinished <= Self.jobCountMax
        guard isWhole ? unfinished > 0 : group.counts.running > 0 else { return then(group) }
        var query = JobQuery(tenant: group.tenant, limit: Int(Self.jobCountMax))
        query.group = group.draft.name
        query.states = isWhole ? JobState.allCases.filter { !$0.isTerminal } : [.running]
        jobs.jobs(query) { [progress] found in
            guard case .success(let page) = found else { return then(group) }
            progress.read(page.records) { reading in
                // Jobs may have ended or begun since the group was read.
                var bytes = UnfinishedBytes(isWhole: isWhole && page.records.count == Int(unfinished))
                for record in page.records { bytes.add(record, reading.progress(of: record)) }
                var group = group
                group.unfinishedBytes = bytes
                then(group)
            }
        }
    }
}
