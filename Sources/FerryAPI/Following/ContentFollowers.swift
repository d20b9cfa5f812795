internal import FerryCore
internal import HTTPServer
internal import Synchronization
internal import Sys

/// The requests of this node that follow the content of jobs.
///
/// One thread carries all changes to the streams: transfers only send it a message, once for many bytes. A
/// job is read when it has ended here, and every 0.5 s while it does not run here (`JobWaiters`). A stream
/// that waits has a connection, which is suspended, and no thread. `TenantPool` divides the streams among the
/// tenants.
final class ContentFollowers: Sendable {
    private enum Message: Sendable {
        case add(FollowStream, JobRecord)
        case remove(FollowStream, JobID)
        /// More bytes can be read, or the job has another file.
        case changed(JobID)
        /// `isOver`: the wait for the end of the job is over.
        case look(JobID, isOver: Bool)
        case read(JobID, Result<JobRecord, StoreError>)
        case opened(JobID, Result<any OpenContent, StoreError>)
    }

    private let jobs: any JobReader
    private let content: any ContentStore
    private let arriving: any ArrivingContent
    private let waiters: JobWaiters
    private let others: any OtherNodes
    /// Seconds of a clock that only goes forward.
    private let now: @Sendable () -> Double
    private let mailbox = Mailbox<Message>()
    private let pool = Mutex(TenantPool(itemCount: Limits.contentFollowerCountMax))

    init(_ ports: APIPorts) {
        jobs = ports.store.jobs
        content = ports.content
        arriving = ports.arriving
        waiters = ports.waiters
        others = ports.others
        now = ports.uptime
        _ = Thread(name: "content-follow") { [self] in run() }
    }

    /// Number of open streams.
    var count: Int { pool.withLock { $0.taken } }

    /// Returns the stream of an unfinished job.
    func open(_ job: JobRecord) throws(Problem) -> FollowStream {
        let (id, tenant) = (job.id, job.tenant)
        try pool.withLock { pool throws(Problem) in
            guard pool.take(for: tenant) else {
                throw Problem.tooManyStreams("followers of content", "followers", quota: pool.shareMax)
            }
        }
        let stream = FollowStream { [self] stream in
            pool.withLock { $0.release(of: tenant) }
            mailbox.send(.remove(stream, id))
        }
        guard mailbox.send(.add(stream, job)) else {
            stream.cancelled()
            throw Problem.stopping
        }
        return stream
    }

    /// Fails all streams; their clients repeat the request at another node. Later streams are refused.
    func stop() { mailbox.close() }

    // MARK: The thread

    /// One stream, and since when it waits.
    private struct Follower {
        let stream: FollowStream
        /// Bytes that its client had when the wait began; `nil` if it was not waiting.
        var byteCount: Int64?
        var since: Double

        /// Ends the stream if it has waited for too long.
        mutating func look(at now: Double) {
            let byteCount = stream.waitingByteCount
            if byteCount == nil || byteCount != self.byteCount {
                (self.byteCount, since) = (byteCount, now)
            } else if now - since >= Limits.contentFollowerWaitSecondsMax {
                stream.fail()
            }
        }
    }

    /// A job that streams follow.
    private struct Followed {
        let tenant: String
        var followers: [ObjectIdentifier: Follower] = [:]
        var streams: [FollowStream] { followers.values.map(\.stream) }
        var token: JobWaiters.Token?
        /// The file of the running attempt.
        var source: (any FollowedContent)?
        /// Whether the job is being read.
        var isReading = false
        /// Whether another read is needed after the current one.
        var readsAgain = false
    }

    private func run() {
        var followed: [JobID: Followed] = [:]
        while true {
            let messages = mailbox.wait(milliseconds: -1)
            for message in messages { handle(message, &followed) }
            guard mailbox.isClosed else { continue }
            for message in mailbox.take() { handle(message, &followed) }
            for id in Array(followed.keys) { end(id, &followed) { $0.fail() } }
            return
        }
    }

    private func handle(_ message: Message, _ followed: inout [JobID: Followed]) {
        switch message {
        case .add(let stream, let job): add(stream, job, &followed)
        case .remove(let stream, let id):
            followed[id]?.followers[ObjectIdentifier(stream)] = nil
            if followed[id]?.followers.isEmpty == true { end(id, &followed) { _ in } }
        case .changed(let id):
            guard let known = followed[id] else { return }
            refresh(id, &followed)
            for stream in known.streams { stream.wake() }
        case .look(let id, let isOver):
            guard let known = followed[id] else { return }
            let now = now()
            for key in known.followers.keys { followed[id]?.followers[key]?.look(at: now) }
            if isOver { wait(id, &followed) }
            refresh(id, &followed)
            // A job that runs here tells its end.
            if isOver || !arriving.isRunning(id) { read(id, &followed) }
        case .read(let id, let result): take(result, id, &followed)
        case .opened(let id, let result):
            // Any failure ends the streams: their clients repeat the request, and get the reason.
            let content = try? result.get()
            end(id, &followed) { stream in
                if let content { stream.finish(content) } else { stream.fail() }
            }
        }
    }

    private func add(_ stream: FollowStream, _ job: JobRecord, _ followed: inout [JobID: Followed]) {
        let id = job.id
        let isFirst = followed[id] == nil
        followed[id, default: Followed(tenant: job.tenant)].followers[ObjectIdentifier(stream)] =
            Follower(stream: stream, since: now())
        guard isFirst else {
            if let source = followed[id]?.source { stream.show(source) }
            return
        }
        arriving.follow(id) { [mailbox] in mailbox.send(.changed(id)) }
        wait(id, &followed)
        refresh(id, &followed)
        // The job may have ended before the wait began.
        read(id, &followed)
    }

    private func wait(_ id: JobID, _ followed: inout [JobID: Followed]) {
        followed[id]?.token = waiters.wait(
            for: id, seconds: Limits.waitSecondsMax,
            look: { [mailbox] _ in mailbox.send(.look(id, isOver: false)) },
            done: { [mailbox] in mailbox.send(.look(id, isOver: true)) })
    }

    /// Shows the file of the running attempt, if it has one now.
    private func refresh(_ id: JobID, _ followed: inout [JobID: Followed]) {
        guard let known = followed[id], let source = arriving.content(of: id), source !== known.source else {
            return
        }
        followed[id]?.source = source
        for stream in known.streams { stream.show(source) }
    }

    private func read(_ id: JobID, _ followed: inout [JobID: Followed]) {
        guard let known = followed[id] else { return }
        guard !known.isReading else {
            followed[id]?.readsAgain = true
            return
        }
        followed[id]?.isReading = true
        jobs.job(id, tenant: known.tenant) { [mailbox] result in mailbox.send(.read(id, result)) }
    }

    private func take(
        _ result: Result<JobRecord, StoreError>, _ id: JobID, _ followed: inout [JobID: Followed]
    ) {
        guard let known = followed[id] else { return }
        followed[id]?.isReading = false
        switch result {
        case .success(let job) where job.state == .succeeded:
            switch JobContent(job)?.place {
            case nil: end(id, &followed) { $0.finish(ContentInMemory([])) }
            case .body(let body)?: end(id, &followed) { $0.finish(ContentInMemory(body)) }
            case .stored?:
                // Further streams are opened with the complete content.
                followed[id]?.isReading = true
                content.open(job) { [mailbox] result in mailbox.send(.opened(id, result)) }
            }
        case .success(let job) where job.state.isTerminal: end(id, &followed) { $0.fail() }
        // Its bytes arrive on another node. The clients repeat the request, which is sent on to that node.
        case .success(let job) where job.state == .running && others.isOther(job.node):
            end(id, &followed) { $0.fail() }
        case .failure(.notFound): end(id, &followed) { $0.fail() }
        // The job is read again half a second later.
        case .success, .failure:
            guard known.readsAgain else { return }
            followed[id]?.readsAgain = false
            read(id, &followed)
        }
    }

    /// Ends the streams of a job with `ending`.
    private func end(
        _ id: JobID, _ followed: inout [JobID: Followed], _ ending: (FollowStream) -> Void
    ) {
        guard let known = followed.removeValue(forKey: id) else { return }
        arriving.unfollow(id)
        if let token = known.token { waiters.remove(token) }
        for stream in known.streams { ending(stream) }
    }
}
