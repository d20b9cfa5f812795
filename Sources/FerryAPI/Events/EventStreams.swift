internal import FerryCore
internal import HTTPServer
internal import Synchronization
internal import Sys

/// Event streams of this node. The store passes each event once, and each is written as JSON once, however
/// many streams send it. Any thread.
final class EventStreams: EventSink {
    private struct State {
        var streams: [UInt64: EventStream] = [:]
        var pool = TenantPool(itemCount: Limits.eventListenerCountMax)
        var numberLast: UInt64 = 0
        var isStopped = false
        var audiences: [String: Audience] = [:]
    }

    /// Counts of a tenant's streams.
    private struct Audience {
        /// Streams of all jobs.
        var logs = 0
        /// Streams of one job.
        var jobs: [JobID: Int] = [:]
        /// Streams of one group.
        var groups = 0
        var isEmpty: Bool { logs == 0 && jobs.isEmpty && groups == 0 }

        mutating func add(_ count: Int, _ subject: EventStream.Subject) {
            guard let job = subject.job else {
                if subject.query.group == nil { logs += count } else { groups += count }
                return
            }
            let sum = jobs[job, default: 0] + count
            jobs[job] = sum > 0 ? sum : nil
        }
    }

    private static let pageLimit = 100

    private let events: any EventReader
    private let feed: any EventFeed
    private let jobs: any JobReader
    private let groups: any GroupStore
    private let progress: JobProgress
    private let others: any OtherNodes
    private let running: @Sendable () -> [RunningTransfer]
    private let state = Mutex(State())
    /// Gets a message when the first stream opens; closed by `stop`.
    private let arrivals = Mailbox<Void>()

    init(_ ports: APIPorts) {
        events = ports.store.events
        feed = ports.feed
        jobs = ports.store.jobs
        groups = ports.store.groups
        progress = JobProgress(ports)
        others = ports.others
        running = ports.running
        startThread()
    }

    var count: Int { state.withLock { $0.streams.count } }

    // MARK: Opening

    /// Responds with a stream, or with an error. `after`: the last event that the client has seen.
    func open(
        _ subject: EventStream.Subject, after: EventID?, _ request: RequestContext
    ) throws(Problem) {
        let stream = try enter(subject)
        if let after { stream.start(after: after) }
        feed.follow(self) { [self] in
            if let job = subject.job {
                openJob(job, after: after, stream, request)
            } else if let group = subject.query.group {
                openGroup(group, after: after, stream, request)
            } else {
                openLog(after: after, stream, request)
            }
        }
    }

    private func enter(_ subject: EventStream.Subject) throws(Problem) -> EventStream {
        try state.withLock { state throws(Problem) in
            guard !state.isStopped else { throw Problem.stopping }
            guard state.pool.take(for: subject.query.tenant) else {
                throw Problem.tooManyStreams("event streams", "event-streams", quota: state.pool.shareMax)
            }
            if state.streams.isEmpty { arrivals.send(()) }
            state.numberLast += 1
            let stream = EventStream(
                subject, number: state.numberLast,
                readPage: { [weak self] in self?.readPage($0, after: $1) },
                onEnd: { [weak self] in self?.leave($0) })
            state.streams[stream.number] = stream
            state.audiences[subject.query.tenant, default: Audience()].add(1, subject)
            return stream
        }
    }

    private func leave(_ stream: EventStream) {
        let isLast = state.withLock { state in
            guard state.streams.removeValue(forKey: stream.number) != nil else { return false }
            let tenant = stream.subject.query.tenant
            state.pool.release(of: tenant)
            state.audiences[tenant]?.add(-1, stream.subject)
            if state.audiences[tenant]?.isEmpty == true { state.audiences[tenant] = nil }
            return state.streams.isEmpty
        }
        if isLast { feed.stopFollowing { [self] in count > 0 } }
    }

    /// Responds with an error in place of a stream.
    private func refuse(_ stream: EventStream, _ error: StoreError, _ request: RequestContext) {
        leave(stream)
        request.fail(error)
    }

    /// Passes the last event of the log to `then`. If it cannot be read, responds with 503.
    private func readLastEvent(
        _ stream: EventStream, _ request: RequestContext, then: @escaping @Sendable (EventID) -> Void
    ) {
        events.lastEvent { [self] result in
            guard case .success(let last) = result else { return refuse(stream, .unavailable, request) }
            then(last)
        }
    }

    private func respond(_ stream: EventStream, _ request: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
        ])
        request.send(Response(status: 200, fields: fields, body: .stream(stream)))
    }

    // MARK: Streams of one job

    /// Opens a stream with the events that the client has missed, or with a snapshot of the job. New events
    /// follow, until the job has ended.
    private func openJob(_ id: JobID, after: EventID?, _ stream: EventStream, _ request: RequestContext) {
        guard let after else { return beginJob(id, stream, request) }
        follow(id, after: after, stream) { [self] result in
            switch result {
            case .failure(let error): refuse(stream, error, request)
            // Events are missing from the log: a snapshot replaces them.
            case .success(let replay) where !replay.isKnown: beginJob(id, stream, request)
            case .success(let replay) where replay.isOver:
                // No event will follow. 204 tells an EventSource not to reconnect.
                leave(stream)
                request.send(Response(status: 204))
            case .success(let replay):
                addOfJob(replay, to: stream)
                respond(stream, request)
            }
        }
    }

    private func beginJob(_ id: JobID, _ stream: EventStream, _ request: RequestContext) {
        readLastEvent(stream, request) { [self] last in
            jobs.job(id, tenant: stream.subject.query.tenant) { [self] found in
                switch found {
                case .failure(let error): refuse(stream, error, request)
                case .success(let job):
                    progress.read(CollectionOfOne(job)) { [self] reading in
                        stream.addSnapshot(snapshot(of: job, reading, id: last), upTo: last)
                        stream.add([], isWhole: true)
                        if job.state.isTerminal { stream.end() }
                        respond(stream, request)
                    }
                }
            }
        }
    }

    private func follow(
        _ job: JobID, after: EventID, _ stream: EventStream, reply: @escaping Reply<EventReplay>
    ) {
        let tenant = stream.subject.query.tenant
        events.events(of: job, tenant: tenant, after: after, limit: Self.pageLimit, reply: reply)
    }

    private func addOfJob(_ replay: EventReplay, to stream: EventStream) {
        let entries = replay.entries
        var page = texts(of: entries[...], for: stream)
        let isWhole = !replay.hasMore && page.count == entries.count
        // The last event of an ended job may be one after its terminal event (`job.unacknowledged`). The
        // stream ends after it.
        if isWhole, let last = page.indices.last, entries[last].job?.state.isTerminal == true {
            page[last].isLast = true
        }
        stream.add(page, isWhole: isWhole)
    }

    private func snapshot(of job: JobRecord, _ reading: JobProgress.Reading, id: EventID) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 2_560)
        writer.beginObject()
        writer.name("job")
        var job = job
        job.body = nil
        reading.write(job, into: &writer)
        writer.endObject()
        return serverSentEvent("snapshot", id: id, writer.bytes)
    }

    // MARK: Streams of all jobs

    private func openLog(after: EventID?, _ stream: EventStream, _ request: RequestContext) {
        let query = stream.subject.query
        guard let after else {
            return readLastEvent(stream, request) { [self] last in
                stream.addSnapshot(Array("id: \(last)\n\n".utf8), upTo: last)
                stream.add([], isWhole: true)
                respond(stream, request)
            }
        }
        events.replay(tenant: query.tenant, session: query.session, after: after, limit: Self.pageLimit) {
            [self] result in
            switch result {
            case .failure(let error): refuse(stream, error, request)
            case .success(let replay) where replay.isKnown:
                addOfLog(replay, to: stream)
                respond(stream, request)
            case .success:
                // Events are missing from the log: a snapshot replaces them.
                readLastEvent(stream, request) { [self] last in
                    gather(EventSnapshot(query)) { [self] snapshot in
                        // An incomplete snapshot would be wrong. The client reconnects.
                        guard let snapshot else { return refuse(stream, .unavailable, request) }
                        stream.addSnapshot(snapshot.event(id: last), upTo: last)
                        stream.add([], isWhole: true)
                        respond(stream, request)
                    }
                }
            }
        }
    }

    // MARK: Streams of one group

    /// Opens a stream with the events that the client has missed, or with a snapshot of the group. New events
    /// follow.
    private func openGroup(
        _ name: String, after: EventID?, _ stream: EventStream, _ request: RequestContext
    ) {
        let query = stream.subject.query
        guard let after else { return beginGroup(name, stream, request) }
        events.replay(tenant: query.tenant, session: query.session, after: after, limit: Self.pageLimit) {
            [self] result in
            switch result {
            case .failure(let error): refuse(stream, error, request)
            // Events are missing from the log: a snapshot replaces them.
            case .success(let replay) where !replay.isKnown: beginGroup(name, stream, request)
            case .success(let replay):
                addOfLog(replay, to: stream)
                respond(stream, request)
            }
        }
    }

    private func beginGroup(_ name: String, _ stream: EventStream, _ request: RequestContext) {
        readLastEvent(stream, request) { [self] last in
            groups.group(name, tenant: stream.subject.query.tenant) { [self] found in
                switch found {
                case .failure(let error): refuse(stream, error, request)
                case .success(let group):
                    var writer = JSONWriter(reservingCapacity: 1_024)
                    writer.beginObject()
                    writer.name("group")
                    writer.raw(group.shown(isRedacted: true))
                    writer.endObject()
                    stream.addSnapshot(serverSentEvent("snapshot", id: last, writer.bytes), upTo: last)
                    stream.add([], isWhole: true)
                    respond(stream, request)
                }
            }
        }
    }

    // MARK: Pages

    private func readPage(_ stream: EventStream, after: EventID) {
        // If the read fails or events are missing from the log, the stream ends and the client reconnects.
        if let job = stream.subject.job {
            return follow(job, after: after, stream) { [self] result in
                guard case .success(let replay) = result, replay.isKnown else { return stream.end() }
                addOfJob(replay, to: stream)
            }
        }
        let query = stream.subject.query
        events.replay(tenant: query.tenant, session: query.session, after: after, limit: Self.pageLimit) {
            [self] result in
            guard case .success(let replay) = result, replay.isKnown else { return stream.end() }
            addOfLog(replay, to: stream)
        }
    }

    private func addOfLog(_ replay: EventReplay, to stream: EventStream) {
        let admitted = replay.entries.filter { stream.subject.admits($0.event) }
        var page = texts(of: admitted[...], for: stream)
        guard page.count == admitted.count else { return stream.add(page, isWhole: false) }
        // A comment carries the identifier of the last event that was read, so that the next page starts
        // after it even if the stream does not show it.
        if let last = replay.entries.last?.event.id, page.last?.id != last, replay.hasMore {
            page.append((last, Array(":\n".utf8), false))
        }
        stream.add(page, isWhole: !replay.hasMore)
    }

    /// Returns the texts of the first entries, as many as fit into a stream's queue, and at least one.
    private func texts(
        of entries: ArraySlice<EventEntry>, for stream: EventStream
    ) -> [(id: EventID, text: [UInt8], isLast: Bool)] {
        var texts: [(id: EventID, text: [UInt8], isLast: Bool)] = []
        var byteCount = 0
        for entry in entries {
            let next = text(of: entry, for: stream)
            byteCount += next.text.count
            if byteCount > Limits.eventQueueByteCountMax, !texts.isEmpty { break }
            texts.append(next)
        }
        return texts
    }

    /// Reads the jobs of a snapshot. Passes `nil` if a read failed.
    private func gather(
        _ snapshot: EventSnapshot, done: @escaping @Sendable (EventSnapshot?) -> Void
    ) {
        guard let next = snapshot.next else { return done(snapshot) }
        jobs.jobs(next) { [self] result in
            guard case .success(let found) = result else { return done(nil) }
            progress.read(found.records) { [self] reading in
                var snapshot = snapshot
                snapshot.add(found, reading)
                gather(snapshot, done: done)
            }
        }
    }

    // MARK: New events

    func wants(_ event: Event) -> Bool {
        state.withLock { state in
            guard let audience = state.audiences[event.tenant] else { return false }
            if event.record.type == .groupFinished, audience.groups > 0 { return true }
            return audience.logs > 0 || event.record.job.map { audience.jobs[$0] != nil } ?? false
        }
    }

    func receive(_ entries: [EventEntry]) {
        let streams = state.withLock { Array($0.streams.values) }
        for entry in entries {
            var text: [UInt8]?
            for stream in streams where stream.subject.admits(entry.event) {
                let bytes = text ?? write(entry)
                text = bytes
                stream.push(entry.event.id, bytes, isLast: isLast(entry, for: stream))
            }
        }
    }

    private func text(of entry: EventEntry, for stream: EventStream) -> (
        id: EventID, text: [UInt8], isLast: Bool
    ) {
        (entry.event.id, write(entry), stream.subject.job != nil && entry.event.record.type.isTerminal)
    }

    /// Whether an event ends a stream: a terminal event, or one that follows it, on a job's stream.
    private func isLast(_ entry: EventEntry, for stream: EventStream) -> Bool {
        let type = entry.event.record.type
        return stream.subject.job != nil && (type.isTerminal || type.followsEnd)
    }

    private func write(_ entry: EventEntry) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 2_560)
        entry.write(into: &writer)
        return serverSentEvent(entry.event.record.type.rawValue, id: entry.event.id, writer.bytes)
    }

    // MARK: Progress and heartbeats

    /// Starts the thread that sends progress and heartbeats. It starts with the node, because later the
    /// process may have too many threads, and sleeps while no stream is open.
    private func startThread() {
        _ = Thread(name: "ferry-events") { [self] in
            var broadcast = ProgressBroadcast()
            while !arrivals.isClosed {
                _ = arrivals.wait(milliseconds: -1)
                while count > 0, !arrivals.isClosed {
                    _ = arrivals.wait(milliseconds: Int32(Limits.eventProgressSeconds * 1_000))
                    sendPeriodic(&broadcast)
                }
            }
        }
    }

    private func sendPeriodic(_ broadcast: inout ProgressBroadcast) {
        let now = monotonicNanoseconds()
        let streams = state.withLock { Array($0.streams.values) }
        let interested = streams.filter(\.subject.showsProgress)
        let logs = interested.filter { $0.subject.job == nil }
        let elsewhere = Set(interested.compactMap(\.subject.job).filter { progress.here($0) == nil })
        // Any node may run the job of a stream, or begin to do so.
        let remote = logs.isEmpty && elsewhere.isEmpty ? [] : others.running(logs.isEmpty ? elsewhere : nil)
        broadcast.send(logs, logs.isEmpty ? [] : running() + remote)
        let remoteProgress = Dictionary(remote.map { ($0.job, $0.progress) }) { $1 }
        for stream in interested {
            if let job = stream.subject.job, let progress = progress.here(job) ?? remoteProgress[job] {
                stream.sendProgress(progress, of: job)
            }
        }
        for stream in streams { stream.sendHeartbeat(now: now) }
    }

    /// Ends all streams and refuses new ones.
    func stop() {
        let streams = state.withLock { state in
            state.isStopped = true
            return Array(state.streams.values)
        }
        arrivals.close()
        for stream in streams { stream.end() }
    }
}
