import FerryCore
import Foundation
import Testing

@Suite("Waiting reasons")
struct WaitingReasonTests {
    private func record(_ state: JobState, _ waitingFor: WaitingFor? = nil) -> JobRecord {
        var record = JobRecord(
            id: JobID(high: 1, low: 2), tenant: "default", state: state, waitingFor: waitingFor, revision: 3,
            attempt: 1, failedAttemptCount: 1, node: nil, createdAt: Timestamp(microseconds: 0),
            startedAt: nil, nextAttemptAt: Timestamp(microseconds: 9), retryOf: nil,
            storedSpec: StoredSpec([]))
        record.storedError = Stored(TransferError(.timedOut, "Late.", phase: .waiting, isRetryable: true))
        return record
    }

    @Test(
        "running and terminal jobs have no waiting reason, all others have one", arguments: JobState.allCases)
    func states(_ state: JobState) {
        let reason = WaitingReason(record(state, state == .waiting ? .retry : nil), queue: .init())
        #expect((reason == nil) == (state == .running || state.isTerminal))
    }

    @Test("every kind of waiting has its own code and a next check")
    func waiting() throws {
        let reasons = try WaitingFor.allCases.map {
            try #require(WaitingReason(record(.waiting, $0), queue: .init()))
        }
        #expect(Set(reasons.map(\.code)).count == WaitingFor.allCases.count)
        for reason in reasons {
            #expect(reason.detail.last == "." && reason.nextCheckAt == Timestamp(microseconds: 9))
        }
        #expect(reasons.contains { $0.detail.contains("timed_out") })
    }

    @Test(
        "a job without disk space or a writable disk shows that and its next check",
        arguments: [
            (TransferError.Code.storageFull, WaitingReason.Code.storageLow),
            (.storageUnavailable, .storageUnavailable),
        ])
    func disk(_ code: TransferError.Code, _ expected: WaitingReason.Code) {
        var job = record(.waiting, .retry)
        job.storedError = Stored(TransferError(code, "No.", phase: .finishing, isRetryable: true))
        let reason = WaitingReason(job, queue: .init())
        #expect(reason?.code == expected && reason?.nextCheckAt == Timestamp(microseconds: 9))
    }

    @Test("a job that waits for the delay of a redirect says so, and not that an attempt failed")
    func redirectDelay() {
        var job = record(.waiting, .retry)
        let error = TransferError(
            .unacceptableStatus, "The server redirected and asked to wait 600 s.", phase: .waiting,
            isRetryable: true)
        job.storedError = Stored(error, heldBy: .redirectDelay)
        let reason = WaitingReason(job, queue: .init())
        #expect(reason?.code == .redirectDelay && reason?.nextCheckAt == Timestamp(microseconds: 9))
        #expect(reason?.detail.contains("redirected") == true && reason?.detail.contains("failed") == false)
    }

    @Test("reasons of all jobs precede those of a single job")
    func queue() {
        let code = { (queue: QueueConditions) in WaitingReason(record(.queued), queue: queue)?.code }
        #expect(code(.init()) == .noFreeSlot)
        #expect(code(.init(workerCount: 3)) == .noFreeSlot)
        #expect(code(.init(workerCount: 0)) == .noWorker)
        #expect(code(.init(isPaused: true, workerCount: 0)) == .paused)
        var drained = QueueConditions(workerCount: 0)
        drained.hasDrainedWorker = true
        let reason = WaitingReason(record(.queued), queue: drained)
        #expect(reason?.code == .noWorker && reason?.detail.contains("drained") == true)
        drained.workerCount = 1
        #expect(code(drained) == .noFreeSlot)
    }

    @Test("a queued job shows the limit of its session or host")
    func limits() throws {
        let spec = try JobSpec(
            storedJSON: Array(
                #"{"kind":"data","session":"s","request":{"url":"http://a.example/x","method":"GET"}}"#.utf8))
        var job = record(.queued)
        job.storedSpec = StoredSpec(spec, json: [])
        var conditions = QueueConditions(workerCount: 1)
        let hosts = HostLimits()
        conditions.hosts = hosts
        conditions.now = Timestamp(microseconds: 0)
        #expect(WaitingReason(job, queue: conditions)?.code == .noFreeSlot)
        func limit(_ scope: HostScope, _ limit: HostLimit) {
            hosts.replace(["http://a.example:80": [scope: limit]], reading: hosts.beginReading())
        }
        for other in [HostScope(tenant: "other"), HostScope(tenant: job.tenant, path: "/y")] {
            limit(other, HostLimit(connectionLimit: 3))
            #expect(
                WaitingReason(job, queue: conditions)?.code == .noFreeSlot, "the limit is not about this job")
        }
        limit(HostScope(tenant: job.tenant, path: "/x"), HostLimit(requestRate: 2))
        let narrow = try #require(WaitingReason(job, queue: conditions))
        #expect(narrow.code == .hostRate && narrow.detail.contains("below /x"))
        limit(.origin, HostLimit(connectionLimit: 3))
        #expect(WaitingReason(job, queue: conditions)?.code == .hostLimit)
        conditions.sessionLimit = { _, _ in 2 }
        #expect(
            WaitingReason(job, queue: conditions)?.code == .hostLimit,
            "a job of a 201 knows no count of its session's connections")
        for (count, code) in [(1, WaitingReason.Code.hostLimit), (2, .sessionLimit)] {
            var counted = job
            counted.sessionConnectionCount = count
            #expect(WaitingReason(counted, queue: conditions)?.code == code)
        }
        let until = Timestamp(microseconds: 5)
        limit(.origin, HostLimit(blockedUntil: until))
        let reason = WaitingReason(job, queue: conditions)
        #expect(reason?.code == .hostBackoff && reason?.nextCheckAt == until)
        limit(.origin, HostLimit(blockedUntil: until, isPaused: true))
        let paused = try #require(WaitingReason(job, queue: conditions))
        #expect(paused.code == .hostPaused && paused.nextCheckAt == nil)
    }

    @Test("docs/scheduling.md has a row for each code, in order")
    func page() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/scheduling.md"), encoding: .utf8)
        let section = try #require(page.components(separatedBy: "## Waiting reasons").last)
        let rows = section.split(separator: "\n").filter { $0.hasPrefix("| `") }.compactMap {
            $0.split(separator: "`").dropFirst().first.map(String.init)
        }
        #expect(Array(rows.dropFirst()) == WaitingReason.Code.allCases.map(\.rawValue))
    }
}

@Suite("Deadlines")
struct DeadlineTests {
    private let createdAt = Timestamp(microseconds: 1_000_000)

    private func schedule(_ deadline: Double?, timeout: Double) -> JobSpec.Schedule {
        var schedule = JobSpec.Schedule()
        schedule.timeoutForResource = timeout
        schedule.deadlineAt = deadline.map { createdAt + $0 }
        return schedule
    }

    @Test("the earlier of deadline and resource timeout applies and determines the error code")
    func earlier() {
        #expect(schedule(nil, timeout: 10).expiry(createdAt: createdAt) == createdAt + 10)
        #expect(schedule(5, timeout: 10).expiry(createdAt: createdAt) == createdAt + 5)
        #expect(schedule(50, timeout: 10).expiry(createdAt: createdAt) == createdAt + 10)
        #expect(schedule(nil, timeout: 10).overdueCode(createdAt: createdAt) == .resourceTimeout)
        #expect(schedule(50, timeout: 10).overdueCode(createdAt: createdAt) == .resourceTimeout)
        let error = schedule(5, timeout: 10).overdue(createdAt: createdAt, phase: .receiving)
        #expect(error.code == .deadlineExceeded && error.errorClass == .timeout && !error.isRetryable)
    }

    @Test("dependencies are identifiers or earlier positions in the batch, each at most once")
    func dependencies() throws {
        let body = { (jobs: String) in
            #"{"kind":"data","request":{"url":"http://a.example/"},"schedule":{"depends_on":[\#(jobs)]}}"#
        }
        let (first, second) = (JobID(high: 1, low: 2), JobID(high: 3, low: 4))
        let read = { (jobs: String) in
            try JobRequest(
                JSONView(parsing: Array(body(jobs).utf8)), at: "#/jobs/2", refusal: { _ in nil },
                earlierJob: { $0 == 1 ? second : nil })
        }
        let spec = try read(##""\##(first)","#/jobs/1""##).spec
        #expect(spec.schedule.dependsOn == [first, second])
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        for wrong in [##""#/jobs/2""##, ##""#/jobs/-1""##, ##""#/jobs/""##, #""job_x""#, #""""#] {
            #expect(throws: InvalidFields.self) { try read(wrong) }
        }
        #expect(errors(body(#""\#(first)","\#(first)""#)).map(\.code) == ["duplicate"])
        #expect(errors(body("1")).map(\.pointer) == ["#/schedule/depends_on/0"])
        #expect(errors(body(##""#/jobs/0""##)).map(\.code) == ["invalid_value"])
        let many = (UInt64(0)..<101).map { #""\#(JobID(high: 9, low: $0))""# }.joined(separator: ",")
        #expect(errors(body(many)).map(\.code) == ["too_many"])
    }

    @Test("scheduling hints are read, stored and shown; invalid ones are rejected")
    func hints() throws {
        let hints =
            #""deadline_at":"2026-11-22T00:00:00Z","network_service_type":"responsive_data","#
            + #""waits_for_connectivity":true"#
        let body = { (hints: String) in
            #"{"kind":"data","request":{"url":"http://a.example/"},"schedule":{\#(hints)}}"#
        }
        let spec = try decode(body(hints)).spec
        #expect(spec.schedule.networkServiceType == .responsiveData && spec.schedule.waitsForConnectivity)
        #expect(spec.schedule.deadlineAt == Timestamp(rfc3339: "2026-11-22T00:00:00Z"))
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        let shown = try JSON.parse(spec.encode())["schedule"]
        #expect(shown?["network_service_type"]?.string == "responsive_data")
        #expect(shown?["deadline_at"]?.string == "2026-11-22T00:00:00.000000Z")
        let late = body(#""deadline_at":"2026-11-22T00:00:00Z","earliest_begin_at":"2026-11-22T00:00:00Z""#)
        #expect(errors(late).map(\.pointer) == ["#/schedule/deadline_at"])
        #expect(errors(body(#""network_service_type":"voice""#)).map(\.code) == ["not_supported"])
        #expect(errors(body(#""network_service_type":"x""#)).map(\.code) == ["invalid_value"])
    }

    @Test("limits from an earlier reading do not replace those of a later one")
    func order() {
        let hosts = HostLimits()
        let (first, second) = (hosts.beginReading(), hosts.beginReading())
        let all = ["http://a.example:80": [HostScope.origin: HostLimit(connectionLimit: 3)]]
        #expect(hosts.replace(all, reading: second))
        #expect(!hosts.replace([:], reading: first))
        #expect(hosts.limit(at: "http://a.example:80", .origin)?.connectionLimit == 3)
        #expect(hosts.replace([:], reading: hosts.beginReading()))
        #expect(hosts.isEmpty)
    }
}
