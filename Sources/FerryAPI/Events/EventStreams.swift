internal import FerryCore
internal import HTTPServer
internal import Synchronization
internal import Sys

/// The listeners of this node. Events come once from the store and are written once, whoever gets them.
final class EventStreams: EventSink {
    private struct State {
        var streams: [UInt64: EventStream] = [:]
        var numberLast: UInt64 = 0
        var isStopped = false
        var audiences: [String: Audience] = [:]
    }

    /// A tenant's listeners, counted by what they listen to.
    private struct Audience {
        var logs = 0
        var jobs: [JobID: Int] = [:]
        var isEmpty: Bool { logs == 0 && jobs.isEmpty }

        mutating func add(_ count: Int, _ job: JobID?) {
            guard let job else {
                logs += count
                return
            }
            let sum = jobs[job, default: 0] + count
            jobs[job] = sum > 0 ? sum : nil
        }
    }

    private static let pageLimit = 100

    private let events: any EventReader
    private let jobs: any JobReader
    private let progress: @Sendable (JobID) -> TransferProgress?
    private let running: @Sendable () -> [RunningTransfer]
    private let state = Mutex(State())
    /// A word when somebody listens again; closed at the end.
    private let arrivals = Mailbox<Void>()

    init(_ ports: APIPorts) {
        events = ports.events
        jobs = ports.reader
        progress = ports.progress
        running = ports.running
        begin()
    }

    var count: Int { state.withLock { $0.streams.count } }

    // MARK: Opening

    /// Answers with a stream, or says why not. `after`: the last event that the client has seen.
    func open(_ subject: EventStream.Subject, after: EventID?, _ request: RequestContext) {
        guard let stream = enter(subject) else {
            return request.fail(
                Problem(
                    .tooManyStreams,
                    "This node ends, or serves \(Limits.eventListenerCountMax) streams of events already."))
        }
        if let after { stream.start(after: after) }
        events.follow(self) { [self] in
            if let job = subject.job {
                openJob(job, after: after, stream, request)
            } else {
                openLog(after: after, stream, request)
            }
        }
    }

    private func enter(_ subject: EventStream.Subject) -> EventStream? {
        state.withLock { state in
            guard !state.isStopped, state.streams.count < Limits.eventListenerCountMax else { return nil }
            if state.streams.isEmpty { arrivals.send(()) }
            state.numberLast += 1
            let stream = EventStream(
                subject, number: state.numberLast,
                readPage: { [weak self] in self?.readPage($0, after: $1) },
                whenOver: { [weak self] in self?.leave($0) })
            state.streams[stream.number] = stream
            state.audiences[subject.query.tenant, default: Audience()].add(1, subject.job)
            return stream
        }
    }

    private func leave(_ stream: EventStream) {
        let isLast = state.withLock { state in
            guard state.streams.removeValue(forKey: stream.number) != nil else { return false }
            let tenant = stream.subject.query.tenant
            state.audiences[tenant]?.add(-1, stream.subject.job)
            if state.audiences[tenant]?.isEmpty == true { state.audiences[tenant] = nil }
            return state.streams.isEmpty
        }
        if isLast { events.stopFollowing { [self] in count > 0 } }
    }

    /// The last answer of a stream that could not be opened.
    private func refuse(_ stream: EventStream, _ error: StoreError, _ request: RequestContext) {
        leave(stream)
        request.fail(error)
    }

    private func answer(_ stream: EventStream, _ request: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
        ])
        request.send(Response(status: 200, fields: fields, body: .stream(stream)))
    }

    // MARK: A job's

    /// The job as it is, or what the client has missed; then what happens to it, until it has ended.
    private func openJob(_ id: JobID, after: EventID?, _ stream: EventStream, _ request: RequestContext) {
        guard let after else { return beginJob(id, stream, request) }
        follow(id, after: after, stream) { [self] result in
            switch result {
            case .failure(let error): refuse(stream, error, request)
            // Some are missing: how it stands instead.
            case .success(let replay) where !replay.isKnown: beginJob(id, stream, request)
            case .success(let replay) where replay.isOver:
                // There is nothing to come; 204 tells an EventSource not to try again.
                leave(stream)
                request.send(Response(status: 204))
            case .success(let replay):
                addOfJob(replay, to: stream)
                answer(stream, request)
            }
        }
    }

    private func beginJob(_ id: JobID, _ stream: EventStream, _ request: RequestContext) {
        events.lastEvent { [self] last in
            guard let last = try? last.get() else { return refuse(stream, .unavailable, request) }
            jobs.job(id, tenant: stream.subject.query.tenant) { [self] found in
                switch found {
                case .failure(let error): refuse(stream, error, request)
                case .success(let job):
                    stream.addSnapshot(snapshot(of: job, id: last), upTo: last)
                    stream.add([], isWhole: true)
                    if job.state.isTerminal { stream.end() }
                    answer(stream, request)
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
        // Of a job that has ended there may be reminders (`job.unacknowledged`).
        if isWhole, let last = page.indices.last, entries[last].job?.state.isTerminal == true {
            page[last].isLast = true
        }
        stream.add(page, isWhole: isWhole)
    }

    private func snapshot(of job: JobRecord, id: EventID) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 2_560)
        writer.beginObject()
        writer.name("job")
        var job = job
        job.body = nil
        job.write(into: &writer, progress: progress(job.id))
        writer.endObject()
        return serverSentEvent("snapshot", id: id, writer.bytes)
    }

    // MARK: The log's

    private func openLog(after: EventID?, _ stream: EventStream, _ request: RequestContext) {
        let query = stream.subject.query
        guard let after else {
            return events.lastEvent { [self] last in
                guard let last = try? last.get() else { return refuse(stream, .unavailable, request) }
                stream.addSnapshot(Array("id: \(last)\n\n".utf8), upTo: last)
                stream.add([], isWhole: true)
                answer(stream, request)
            }
        }
        events.replay(tenant: query.tenant, session: query.session, after: after, limit: Self.pageLimit) {
            [self] result in
            switch result {
            case .failure(let error): refuse(stream, error, request)
            case .success(let replay) where replay.isKnown:
                addOfLog(replay, to: stream)
                answer(stream, request)
            case .success:
                // Some are missing: how things stand instead.
                events.lastEvent { [self] last in
                    guard let last = try? last.get() else { return refuse(stream, .unavailable, request) }
                    gather(EventSnapshot(query)) { [self] snapshot in
                        // Without what was to be read the client would believe what is not so: it comes
                        // again.
                        guard let snapshot else { return refuse(stream, .unavailable, request) }
                        stream.addSnapshot(snapshot.event(id: last), upTo: last)
                        stream.add([], isWhole: true)
                        answer(stream, request)
                    }
                }
            }
        }
    }

    private func readPage(_ stream: EventStream, after: EventID) {
        // Without an answer, or when some have been removed meanwhile, the client comes again.
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
        // The next page begins behind what was looked at, shown or not.
        if let last = replay.entries.last?.event.id, page.last?.id != last, replay.hasMore {
            page.append((last, Array(":\n".utf8), false))
        }
        stream.add(page, isWhole: !replay.hasMore)
    }

    /// Of as many as may wait in memory, and of one at least.
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

    /// Reads what belongs into a snapshot; nil: that was not possible.
    private func gather(
        _ snapshot: EventSnapshot, done: @escaping @Sendable (EventSnapshot?) -> Void
    ) {
        guard let next = snapshot.next else { return done(snapshot) }
        jobs.jobs(next) { [self] result in
            guard case .success(let found) = result else { return done(nil) }
            var snapshot = snapshot
            snapshot.add(found, progress: progress)
            gather(snapshot, done: done)
        }
    }

    // MARK: What happens

    func wants(_ event: Event) -> Bool {
        state.withLock { state in
            guard let audience = state.audiences[event.tenant] else { return false }
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

    /// A job's stream ends with the job. Who came when it had ended gets what was still to be told.
    private func isLast(_ entry: EventEntry, for stream: EventStream) -> Bool {
        let type = entry.event.record.type
        return stream.subject.job != nil && (type.isTerminal || type.followsEnd)
    }

    private func write(_ entry: EventEntry) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 2_560)
        entry.write(into: &writer)
        return serverSentEvent(entry.event.record.type.rawValue, id: entry.event.id, writer.bytes)
    }

    // MARK: Signs of life

    /// From the start, as later the process may have no more threads. It sleeps while nobody listens.
    private func begin() {
        _ = Thread(name: "ferry-events") { [self] in
            var round = ProgressRound()
            while !arrivals.isClosed {
                _ = arrivals.wait(milliseconds: -1)
                while count > 0, !arrivals.isClosed {
                    _ = arrivals.wait(milliseconds: Int32(Limits.eventProgressSeconds * 1_000))
                    tick(&round)
                }
            }
        }
    }

    private func tick(_ round: inout ProgressRound) {
        let now = monotonicNanoseconds()
        let streams = state.withLock { Array($0.streams.values) }
        let listeners = streams.filter(\.subject.showsProgress)
        let logs = listeners.filter { $0.subject.job == nil }
        round.tell(logs, logs.isEmpty ? [] : running())
        for stream in listeners {
            if let job = stream.subject.job, let progress = progress(job) { stream.tell(progress, of: job) }
        }
        for stream in streams { stream.beat(now: now) }
    }

    /// Ends all streams; none is opened any more.
    func stop() {
        let streams = state.withLock { state in
            state.isStopped = true
            return Array(state.streams.values)
        }
        arrivals.close()
        for stream in streams { stream.end() }
    }
}
