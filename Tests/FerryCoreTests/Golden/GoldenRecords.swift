import FerryCore

/// A job record with the conditions under which it is shown.
struct GoldenRecord {
    let name: String
    let record: JobRecord
    var progress: TransferProgress?
    var queue = QueueConditions()
    var isRedacted = false
}

private let id = JobID(high: 0x0192_0000_0000_0000, low: 2)
private let begin = Timestamp(microseconds: 1_795_000_000_000_000)
private let node = NodeID(high: 1, low: 7)

/// A job with secrets in its URL, header fields, metadata and webhook.
private let secretBody = #"""
    {"kind":"data","session":"s","description":"d","metadata":{"a":"b"},
     "request":{"url":"https://a.example/x?token=hush","method":"POST","body":{"json":{"a":1}},
      "headers":{"Accept":"text/csv","Authorization":"Bearer hush","X-Other":"v"},
      "auth":null,"proxy":{"url":"http://p.example:3128","user":"u","password":"hush"},
      "tls":{"minimum_version":"1.3"},"http_version":"2"},
     "webhook":{"url":"https://b.example/hook?key=hush","secret":"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
     "on_challenge":"ask","questions":{"timeout":30,"challenge":"cancel"},
     "acknowledgement":{"by":"webhook","timeout":60,"reminders":{"max_count":2}}}
    """#
private let uploadBody = #"""
    {"kind":"upload","request":{"url":"https://a.example/in"},
     "source":{"path":"in/a.bin","form":{"fields":{"a":"b"},"file_name":"f.bin"}}}
    """#
private let mirrorBody = #"""
    {"kind":"download","request":{"url":"https://a.example/f"},"segments":4,
     "mirrors":["https://c.example/f?sig=hush"],"destination":{"path":"in/"},
     "schedule":{"discretionary":true,"priority":0.25,"deadline_at":"2027-01-01T00:00:00Z"}}
    """#
private let plainBody = #"{"kind":"download","request":{"url":"http://a.example/f"}}"#

/// Returns a job record. `body`: body of the job.
private func makeRecord(
    _ state: JobState, _ waitingFor: WaitingFor? = nil, body: String = plainBody,
    _ change: (inout JobRecord) -> Void = { _ in }
) throws -> JobRecord {
    let spec = try JobRequest(JSONView(parsing: Array(body.utf8))) { _ in nil }.spec
    var record = JobRecord(
        id: id, tenant: "default", state: state, waitingFor: waitingFor, revision: 3, attempt: 1,
        failedAttemptCount: 0, node: nil, createdAt: begin, startedAt: nil, retryOf: nil,
        storedSpec: StoredSpec(spec.encodeStored(.inverted)))
    change(&record)
    return record
}

private func error(_ code: TransferError.Code = .timedOut) -> Stored<ErrorRecord> {
    Stored(TransferError(code, "It failed.", phase: .waiting, isRetryable: true)).asRead
}

private func response() -> Stored<TransferResponse> {
    var response = TransferResponse(
        status: 200, url: "https://a.example/y?token=hush",
        headers: [
            .init("Content-Type", "text/plain"), .init("Via", "1"), .init("via", "2"),
            .init("Set-Cookie", "a=hush"), .init("set-cookie", "b=hush"), .init("X-Other", "hush"),
        ], mimeType: "text/plain", suggestedFilename: "y.txt", expectedContentLength: 3)
    response.bodyExcerpt = "abc"
    return Stored(response, .inverted).asRead
}

extension Stored {
    /// The value as a row has it: only its stored form.
    fileprivate var asRead: Stored { Stored(json: json) }
}

private func question(_ subject: JobQuestion.Subject) -> [UInt8] {
    JobQuestion(subject, askedAt: begin + 5, timeout: 600).encode(.inverted)
}

private let hop = JobQuestion.Hop(
    url: "https://d.example/z?token=hush", method: "GET", sendsBody: false, redirectCount: 1,
    hasDroppedBody: true, hasActed: false, keepsCredentials: false)

extension GoldenRecord {
    /// Returns the records: each state, kind of waiting, question, response and result.
    static func all() throws -> [GoldenRecord] {
        var all = try states() + waiting() + questions() + finished() + queued()
        for isRedacted in [false, true] {
            let suffix = isRedacted ? "redacted" : "full"
            all += try [("secrets", secretBody), ("form", uploadBody), ("mirrors", mirrorBody)].map {
                GoldenRecord(
                    name: "spec: \($0.0), \(suffix)", record: try makeRecord(.queued, body: $0.1),
                    isRedacted: isRedacted)
            }
            all.append(
                GoldenRecord(
                    name: "spec: damaged, \(suffix)",
                    record: try makeRecord(.queued) {
                        $0.storedSpec = StoredSpec(Array(#"{"kind":"x"}"#.utf8))
                    },
                    isRedacted: isRedacted))
            all.append(
                GoldenRecord(
                    name: "response: data, \(suffix)",
                    record: try makeRecord(.succeeded, body: secretBody) {
                        $0.finishedAt = begin + 9
                        $0.storedResponse = response()
                        var result = TransferResult(
                            size: 3, sha256: "ab", body: Array("abc".utf8), verified: .length)
                        result.bytesSent = 7
                        $0.storedResult = Stored(result).asRead
                        $0.body = result.body
                    }, isRedacted: isRedacted))
        }
        return all
    }

    private static func states() throws -> [GoldenRecord] {
        try JobState.allCases.map { state in
            GoldenRecord(
                name: "state: \(state.rawValue)",
                record: try makeRecord(state) {
                    $0.startedAt = begin + 1
                    $0.partialDownload = PartialDownload(byteCount: 25, total: 100)
                    $0.node = state == .running ? node : nil
                    $0.finishedAt = state.isTerminal ? begin + 60 : nil
                    $0.retryOf = JobID(high: 1, low: 1)
                },
                progress: state == .running
                    ? TransferProgress(
                        bytesReceived: 50, bytesExpectedToReceive: 100, bytesPerSecond: 5,
                        resumedAtOffset: 25) : nil)
        }
    }

    private static func waiting() throws -> [GoldenRecord] {
        let kinds = try WaitingFor.allCases.map { waitingFor in
            GoldenRecord(
                name: "waiting: \(waitingFor.rawValue)",
                record: try makeRecord(.waiting, waitingFor) {
                    $0.nextAttemptAt = begin + 30
                    $0.storedError = waitingFor == .retry ? error() : nil
                    $0.pendingDependencies = waitingFor == .dependency ? [JobID(high: 1, low: 1)] : []
                })
        }
        let errors: [(String, Stored<ErrorRecord>)] = [
            ("storage_low", error(.storageFull)), ("storage_unavailable", error(.storageUnavailable)),
            ("host_held", HostHold(origin: "http://b.example:80", reason: .hostPaused).error.asRead),
        ]
        return try kinds
            + errors.map { name, error in
                GoldenRecord(
                    name: "waiting: retry, \(name)",
                    record: try makeRecord(.waiting, .retry) {
                        $0.nextAttemptAt = begin + 30
                        $0.storedError = error
                    })
            }
    }

    private static func questions() throws -> [GoldenRecord] {
        let space = JobQuestion.ProtectionSpace(url: "https://a.example/", realm: "r", method: .digest)
        let subjects: [(WaitingFor, JobQuestion.Subject)] = [
            (.confirmation, .begin), (.redirect, .redirect(status: 302, hop)),
            (.challenge, .challenge([space], previousFailureCount: 1)),
        ]
        return try subjects.flatMap { waitingFor, subject in
            try [false, true].map { isRedacted in
                GoldenRecord(
                    name: "question: \(waitingFor.rawValue), \(isRedacted ? "redacted" : "full")",
                    record: try makeRecord(.waiting, waitingFor, body: secretBody) {
                        $0.questionJSON = question(subject)
                        $0.nextAttemptAt = begin + 605
                    }, isRedacted: isRedacted)
            }
        } + [
            GoldenRecord(
                name: "question: answered",
                record: try makeRecord(.queued) {
                    let asked = JobQuestion(.redirect(status: 302, hop), askedAt: begin + 5, timeout: 600)
                    guard let spec = $0.spec,
                        case .goOn(var draft) = try? JobRequest(spec, JobSecrets()).answered(
                            asked, JobAnswer(.follow), from: AnswerSource(.api, name: "key_1"),
                            at: begin + 7, attempt: 1, refusal: { _ in nil })
                    else { return }
                    draft.spec.occurrence = ScheduleOccurrence(
                        schedule: ScheduleID(high: 1, low: 3), scheduledAt: begin)
                    $0.storedSpec = StoredSpec(draft.spec.encodeStored(.inverted))
                })
        ]
    }

    private static func finished() throws -> [GoldenRecord] {
        var file = TransferResult(
            location: .namedFile(path: "in/a.bin"), size: 100, sha256: "ab", verified: .digest)
        file.file = FileIdentity(inode: 1, modified: 2)
        file.resumedAtOffset = 25
        var parts = TransferResult(
            location: .managedFile, size: 3, sha256: "ab", body: [0xFF, 0, 1], verified: .none)
        parts.parts = .init(count: 2, mimeType: "image/png")
        let sent = TransferResult(
            size: 3, sha256: "ab", verified: .length)
        let results = [
            ("file", plainBody, file), ("parts", secretBody, parts), ("upload", uploadBody, sent),
        ]
        let succeeded = try results.map { name, body, result in
            GoldenRecord(
                name: "result: \(name)",
                record: try makeRecord(.succeeded, body: body) {
                    ($0.startedAt, $0.finishedAt, $0.acknowledgedAt) = (begin + 1, begin + 9, begin + 12)
                    var result = result
                    result.bytesSent = 5
                    $0.storedResult = Stored(result).asRead
                    $0.body = result.body
                })
        }
        return succeeded + [
            GoldenRecord(
                name: "result: failed with resume data",
                record: try makeRecord(.failed) {
                    $0.finishedAt = begin + 9
                    $0.storedError = error()
                    $0.resumeData = "resume"
                    $0.partialDownload = PartialDownload(byteCount: 25, total: nil)
                })
        ]
    }

    private static func queued() throws -> [GoldenRecord] {
        let queued = try makeRecord(.queued) {
            $0.home = NodeAffinity(name: "n1", heartbeatAt: begin)
        }
        let hosts = { (limit: HostLimit, scope: HostScope) in
            let limits = HostLimits()
            limits.replace(["http://a.example:80": [scope: limit]], reading: limits.beginReading())
            var queue = QueueConditions(workerCount: 1)
            (queue.hosts, queue.now) = (limits, begin)
            return queue
        }
        var drained = QueueConditions(workerCount: 0)
        drained.hasDrainedWorker = true
        var full = QueueConditions(workerCount: 2)
        full.downloadHold = .noSpace
        var unwritable = QueueConditions(workerCount: 1)
        unwritable.downloadHold = .unwritable
        var away = QueueConditions(workerCount: 1)
        away.unreachableHost = { _ in HostUnreachable(nextProbeAt: begin + 8) }
        var home = QueueConditions(workerCount: 1)
        home.now = begin
        var session = hosts(HostLimit(), .origin)
        session.sessionLimit = { _, _ in 2 }
        let tenant = HostScope(tenant: "default")
        let path = HostScope(tenant: "default", path: "/f")
        let conditions: [(String, QueueConditions)] = [
            ("paused", QueueConditions(isPaused: true)), ("no_worker", QueueConditions(workerCount: 0)),
            ("no_worker, drained", drained), ("storage_low", full), ("storage_unavailable", unwritable),
            ("connectivity", away), ("home_node", home), ("session_limit", session),
            ("host_limit", hosts(HostLimit(connectionLimit: 3), .origin)),
            ("host_limit, tenant", hosts(HostLimit(connectionLimit: 3), tenant)),
            ("host_rate, path", hosts(HostLimit(requestRate: 2.5), path)),
            ("host_backoff", hosts(HostLimit(blockedUntil: begin + 5), .origin)),
            ("host_paused", hosts(HostLimit(isPaused: true), .origin)),
        ]
        var counted = queued
        counted.sessionConnectionCount = 2
        return conditions.map { GoldenRecord(name: "queued: \($0.0)", record: counted, queue: $0.1) }
    }
}

/// An event, and the job that it is about, as a later state.
struct GoldenEvent {
    let name: String
    let event: Event
    let job: JobRecord?

    /// Returns an event of each type about a job, and events about a deleted job.
    static func all() throws -> [GoldenEvent] {
        try EventType.allCases.flatMap { type in
            try [false, true].compactMap { isDeleted in
                guard !isDeleted || [.jobCreated, .jobSucceeded].contains(type) else { return nil }
                return GoldenEvent(
                    name: type.rawValue + (isDeleted ? ", deleted job" : ""), event: try event(type),
                    job: isDeleted || !isOfJob(type) ? nil : try job(type))
            }
        }
    }

    private static func isOfJob(_ type: EventType) -> Bool {
        !type.isOfSession && EventType.ofJobs.contains(type)
    }

    /// A group with jobs in all states.
    static func group() throws -> JobGroup {
        let draft = try GroupDraft(
            storedJSON: Array(#"{"name": "night", "webhook": {"url": "https://hook.example/"}}"#.utf8))
        var group = JobGroup(id: JobGroupID(high: 1, low: 6), tenant: "default", draft, createdAt: begin)
        (group.closedAt, group.finishedAt, group.round) = (begin + 1, begin + 6, 2)
        (group.counts.succeeded, group.counts.failed, group.openFailureCount) = (3, 2, 1)
        return group
    }

    private static func event(_ type: EventType) throws -> Event {
        let isOfJob = isOfJob(type)
        let (state, waitingFor) = stateAfter(type)
        let detail: [UInt8] =
            switch type {
            case .webhookDisabled: [UInt8](repeating: 1, count: 16) + Array("gone".utf8)
            case .groupFinished: try group().shown()
            case .hostUnreachable, .hostRecovered:
                HostChange(host: "https://a.example:443", detail: "Why.", waitingJobCount: 7).json
            case _ where isOfJob && !state.isTerminal: self.detail(of: type, state).packed
            default: []
            }
        let record = EventRecord(
            type, job: isOfJob ? id : nil, at: begin + 6, attempt: type == .jobCreated ? 0 : 1,
            revision: type == .jobCreated ? 1 : 3, state: isOfJob ? state : nil, waitingFor: waitingFor,
            detail: detail)
        return Event(
            id: EventID(high: 1, low: 5), tenant: "default", session: isOfJob ? "s" : "", sequence: 4,
            timestamp: begin + 6, record: record)
    }

    /// Returns what the job's row said at the event.
    private static func detail(of type: EventType, _ state: JobState) -> EventDetail {
        var detail = EventDetail(node: state == .running ? node : nil)
        if type != .jobCreated, type != .jobStarted { detail.startedAt = begin + 1 }
        if state == .waiting { detail.nextAttemptAt = begin + 60 }
        switch type {
        case .jobAttemptFailed: detail.error = error()
        case .jobResumedAtOffset: (detail.offset, detail.error) = (25, error())
        case .jobWillBegin: detail.questionJSON = question(.begin)
        case .jobRedirect: detail.questionJSON = question(.redirect(status: 307, hop))
        case .jobURLExpired: detail.questionJSON = question(.urlExpired)
        case .jobChallenge:
            detail.questionJSON = question(
                .challenge(
                    [.init(url: "https://a.example/", realm: nil, method: .basic)], previousFailureCount: 0))
        default: break
        }
        return detail
    }

    private static func stateAfter(_ type: EventType) -> (JobState, WaitingFor?) {
        switch type {
        case .jobStarted, .jobResumedAtOffset: (.running, nil)
        case .jobWaitingForConnectivity: (.waiting, .connectivity)
        case .jobWillBegin: (.waiting, .confirmation)
        case .jobChallenge: (.waiting, .challenge)
        case .jobRedirect: (.waiting, .redirect)
        case .jobURLExpired: (.waiting, .urlExpired)
        case .jobAttemptFailed: (.waiting, .retry)
        case .jobFailed: (.failed, nil)
        case .jobCancelled: (.cancelled, nil)
        case .jobSucceeded, .jobUnacknowledged, .jobAcknowledged, .jobAcknowledgementExpired:
            (.succeeded, nil)
        case .jobCreated, .sessionEventsFinished, .sessionInvalidated, .webhookDisabled, .groupFinished,
            .hostUnreachable, .hostRecovered:
            (.queued, nil)
        }
    }

    private static func job(_ type: EventType) throws -> JobRecord {
        let (state, waitingFor) = stateAfter(type)
        let isOver = state.isTerminal
        return try makeRecord(isOver ? state : .running, isOver ? waitingFor : nil, body: secretBody) {
            ($0.startedAt, $0.finishedAt) = (begin + 1, isOver ? begin + 9 : nil)
            $0.acknowledgedAt = type == .jobAcknowledged ? begin + 6 : nil
            $0.node = isOver ? nil : node
            $0.storedResponse = isOver ? response() : nil
            $0.storedError = state == .failed ? error() : nil
        }
    }
}
