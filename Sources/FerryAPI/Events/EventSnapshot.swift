internal import FerryCore

/// The unfinished jobs of a tenant, or of one of its sessions, as many as a listener may have in memory: what
/// it gets in place of events that are not kept any more.
struct EventSnapshot: Sendable {
    private static let jobCountMax = 500
    /// Jobs that are read at once: each may have metadata of some size.
    private static let pageLimit = 50
    private static let stopCountMax = 4

    private let query: EventQuery
    /// Those that are not read yet; of the first one only jobs before `before`.
    private var states = JobState.allCases.filter { !$0.isTerminal }
    private var before: JobID?
    private var jobs: [[UInt8]] = []
    private var byteCount = 0
    private var isFull = false
    /// Scans that ended before their page was full: a long backlog is not read whole for each new stream.
    private var stopCount = 0

    /// `query`: whose they are.
    init(_ query: EventQuery) { self.query = query }

    /// What is to be read next: newest first in each state. Nil: nothing.
    var next: JobQuery? {
        guard !isFull, let state = states.first else { return nil }
        return JobQuery(
            tenant: query.tenant, session: query.session, states: [state], before: before,
            limit: Self.pageLimit)
    }

    /// What `next` has found.
    mutating func add(
        _ found: ListPage<JobRecord, JobKindTag>, progress: (JobID) -> TransferProgress?
    ) {
        for job in found.records {
            var writer = JSONWriter(reservingCapacity: 2_560)
            job.write(into: &writer, progress: progress(job.id))
            // One at least, however long it is.
            guard
                jobs.isEmpty
                    || (jobs.count < Self.jobCountMax
                        && byteCount + writer.bytes.count <= Limits.eventQueueByteCountMax)
            else {
                isFull = true
                return
            }
            byteCount += writer.bytes.count
            jobs.append(writer.bytes)
        }
        before = found.records.last?.id
        if let stoppedAt = found.stoppedAt, found.records.count < Self.pageLimit {
            before = stoppedAt
            stopCount += 1
            isFull = stopCount > Self.stopCountMax
        } else if found.records.count < Self.pageLimit {
            states.removeFirst()
            before = nil
        }
    }

    /// `id`: nothing before it is missing.
    func event(id: EventID) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: byteCount + jobs.count + 64)
        writer.beginObject()
        writer.name("jobs")
        writer.beginArray()
        for job in jobs { writer.raw(job) }
        writer.endArray()
        writer.member("complete", !isFull)
        writer.endObject()
        return serverSentEvent("snapshot", id: id, writer.bytes)
    }
}
