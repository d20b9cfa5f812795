internal import FerryCore

/// Unfinished jobs of a tenant or a session, as many as fit into a stream's queue. A stream sends them in
/// place of events that are not kept any more.
struct EventSnapshot: Sendable {
    private static let jobCountMax = 500
    /// Jobs in one read. It is small because metadata can be large.
    private static let pageLimit = 50
    private static let stopCountMax = 4

    private let query: EventQuery
    /// States whose jobs are not read yet. Of the first state, only jobs before `before` are left.
    private var states = JobState.allCases.filter { !$0.isTerminal }
    private var before: JobID?
    private var jobs: [[UInt8]] = []
    private var byteCount = 0
    private var isFull = false
    /// Number of scans that stopped before their page was full. It is limited, so that a new stream does not
    /// read the whole of a long queue.
    private var stopCount = 0

    /// `query` names the tenant and the session.
    init(_ query: EventQuery) { self.query = query }

    /// The next read: the jobs of one state, newest first; `nil` if the snapshot is finished.
    var next: JobQuery? {
        guard !isFull, let state = states.first else { return nil }
        return JobQuery(
            tenant: query.tenant, session: query.session, states: [state], before: before,
            limit: Self.pageLimit)
    }

    /// Adds the result of `next`.
    mutating func add(
        _ found: ListPage<JobRecord, JobKindTag>, _ reading: JobProgress.Reading
    ) {
        for job in found.records {
            var writer = JSONWriter(reservingCapacity: 2_560)
            reading.write(job, into: &writer)
            // The first job is added however large it is.
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

    /// Returns the snapshot as an event. `id`: identifier of the last event that the snapshot includes.
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
