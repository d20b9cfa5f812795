import Synchronization
import Testing

@testable import FerryCore

/// Keeps the errors that it gets.
private final class Errors: DamageLog {
    let all = Mutex<[(JobID, StoredJSONError)]>([])

    func report(_ job: JobID, _ error: StoredJSONError) { all.withLock { $0.append((job, error)) } }
}

@Suite("Events in the API")
struct EventTests {
    private let id = JobID(high: 1, low: 2)
    private let node = NodeID(high: 3, low: 4)

    private func instant(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

    private func spec(_ step: String) throws -> JobSpec {
        try decode(
            #"{"kind":"data","request":{"url":"https://a.example/"},"metadata":{"step":"\#(step)"}}"#
        ).spec
    }

    private func question() -> [UInt8] {
        let space = JobQuestion.ProtectionSpace(url: "https://a.example:443", realm: "r", method: .basic)
        return JobQuestion(
            .challenge([space], previousFailureCount: 0), askedAt: instant(6), timeout: 60
        ).encode(.inverted)
    }

    /// Returns a job in its 90th second, of revision 8: it has another error, question, node and attempt than
    /// before, and fields since revision 5.
    private func later(
        _ state: JobState, _ waitingFor: WaitingFor? = nil, log: (any DamageLog)? = nil
    ) throws -> JobRecord {
        var record = JobRecord(
            id: id, tenant: "default", state: state, waitingFor: waitingFor, revision: 8, attempt: 4,
            failedAttemptCount: 3, node: NodeID(high: 8, low: 8), createdAt: instant(0),
            startedAt: instant(1), finishedAt: state.isTerminal ? instant(90) : nil,
            nextAttemptAt: state.isTerminal ? nil : instant(99), retryOf: nil,
            storedSpec: StoredSpec(try spec("later").encodeStored(), of: id, log: log))
        if state.isTerminal {
            let response = TransferResponse(
                status: 200, url: "http://a.example/", headers: [], mimeType: nil, suggestedFilename: nil,
                expectedContentLength: nil)
            record.storedResponse = Stored(response, .inverted)
            record.storedResult = Stored(TransferResult(size: 7, sha256: "ab", body: [1], verified: .length))
            record.body = [1]
        }
        record.storedError = error(.timedOut)
        record.specRevision = 5
        if state == .waiting {
            record.questionJSON = JobQuestion(.begin, askedAt: instant(80), timeout: 60).encode(.inverted)
        }
        if !state.isTerminal { record.partialDownload = PartialDownload(byteCount: 90, total: 100) }
        if state.isTerminal { (record.resumeData, record.acknowledgedAt) = ("later", instant(95)) }
        record.earlierSpecs[2] = StoredSpec(try spec("earlier").encodeStored())
        return record
    }

    private func error(_ code: TransferError.Code) -> Stored<ErrorRecord> {
        Stored(TransferError(code, "It failed.", phase: .waiting, isRetryable: true))
    }

    private func event(
        _ type: EventType, revision: Int32, _ state: JobState, _ waitingFor: WaitingFor? = nil,
        _ detail: EventDetail = EventDetail()
    ) -> EventRecord {
        EventRecord(
            type, job: id, at: instant(5), attempt: 2, revision: revision, state: state,
            waitingFor: waitingFor, detail: detail.packed)
    }

    @Test(
        "an event shows the job of its time, whatever became of it",
        arguments: [JobState.running, .queued, .waiting, .suspended, .succeeded, .failed, .cancelled])
    func past(_ now: JobState) throws {
        let record = try later(now, now == .waiting ? .confirmation : nil)
        var detail = EventDetail(nextAttemptAt: instant(66), error: error(.connectionLost))
        detail.startedAt = instant(1)
        detail.questionJSON = question()
        detail.keptAttempt = AttemptRecord.packed(
            number: 1, node: node, AttemptTrace(startedAt: instant(1), finishedAt: instant(2)), .failed,
            error: nil, partialDownload: PartialDownload(byteCount: 5, total: 10), .inverted)
        let asked = try JSON.parse(
            event(.jobChallenge, revision: 2, .waiting, .challenge, detail).jobJSON(record))
        #expect(asked["state"]?.string == "waiting" && asked["waiting_for"]?.string == "challenge")
        #expect(asked["revision"]?.integer == 2 && asked["attempt"]?.integer == 2 && asked["node"] == .null)
        #expect(asked["question"]?["kind"]?.string == "challenge")
        #expect(asked["error"]?["code"]?.string == "connection_lost")
        #expect(asked["next_attempt_at"]?.string == "1970-01-01T00:01:06.000000Z")
        #expect(asked["progress"]?["bytes_received"]?.integer == 5)
        #expect(asked["metadata"]?["step"]?.string == "earlier")
        for name in ["finished_at", "response", "result", "resume_data", "acknowledged_at"] {
            #expect(asked[name] == .null, "\(name)")
        }
        let started = try JSON.parse(
            event(.jobStarted, revision: 5, .running, nil, EventDetail(node: node)).jobJSON(record))
        #expect(started["node"]?.string == "\(node)" && started["metadata"]?["step"]?.string == "later")
        #expect(started["started_at"]?.string == "1970-01-01T00:00:05.000000Z")
        for name in ["question", "error", "next_attempt_at", "waiting_for"] {
            #expect(started[name] == .null, "\(name)")
        }
        #expect(started["progress"]?["bytes_received"]?.integer == 0)
    }

    @Test("the end of a job shows its last attempt, and the acknowledgement only in its own event")
    func end() throws {
        let record = try later(.failed)
        let detail = EventDetail(error: error(.connectionLost))
        let attempt = try JSON.parse(
            event(.jobAttemptFailed, revision: 8, .failed, nil, detail).jobJSON(record))
        let failed = try JSON.parse(event(.jobFailed, revision: 8, .failed).jobJSON(record))
        #expect(attempt["error"]?["code"]?.string == "connection_lost")
        #expect(failed["error"]?["code"]?.string == "timed_out" && failed["result"]?["size"]?.integer == 7)
        let acknowledged = try JSON.parse(event(.jobAcknowledged, revision: 9, .failed).jobJSON(record))
        #expect(failed["acknowledged_at"] == .null && acknowledged["acknowledged_at"]?.string != nil)
    }

    @Test("an acknowledgement that an endpoint asks for is shown since the end of the job")
    func endpointAcknowledgement() throws {
        var record = try later(.succeeded)
        var rules = AcknowledgementRules()
        rules.endpoint = WebhookID(high: 1, low: 1)
        record.storedSpec = StoredSpec(
            try spec("later").encodeStored(), endpointAcknowledgement: rules.encode())
        let started = try JSON.parse(event(.jobStarted, revision: 5, .running).jobJSON(record))
        let succeeded = try JSON.parse(event(.jobSucceeded, revision: 8, .succeeded).jobJSON(record))
        #expect(started["acknowledgement"] == .null)
        #expect(succeeded["acknowledgement"]?["by"]?.string == "client")
    }

    @Test("a damaged detail and missing earlier fields are reported, and nothing later is shown")
    func damage() throws {
        let errors = Errors()
        let record = try later(.running, log: errors)
        var damaged = event(.jobStarted, revision: 5, .running)
        damaged.detail = [9]
        #expect(try JSON.parse(damaged.jobJSON(record)) == .object([.init("id", .string("\(id)"))]))
        #expect(errors.all.withLock { $0.map(\.1.member) } == ["event"])
        let unknown = try JSON.parse(event(.jobCreated, revision: 1, .queued).jobJSON(record))
        #expect(unknown["state"]?.string == "queued" && unknown["metadata"] == nil)
        #expect(errors.all.withLock { $0.map(\.1.member) } == ["event", "syntax"])
        #expect(errors.all.withLock { $0.map(\.0) } == [id, id])
    }
}

@Suite("Details of events")
struct EventDetailTests {
    private func detail(_ random: inout SeededRandom) -> EventDetail {
        func bytes() -> [UInt8]? {
            Bool.random(using: &random)
                ? nil : (0..<Int.random(in: 0...300, using: &random)).map { UInt8(truncatingIfNeeded: $0) }
        }
        func number() -> Int64? {
            Bool.random(using: &random) ? nil : .random(in: .min ... .max, using: &random)
        }
        var detail = EventDetail(node: Bool.random(using: &random) ? nil : NodeID(high: 1, low: .max))
        detail.startedAt = number().map { Timestamp(microseconds: $0) }
        detail.nextAttemptAt = number().map { Timestamp(microseconds: $0) }
        detail.offset = number()
        detail.error = bytes().map { Stored(json: $0) }
        (detail.questionJSON, detail.keptAttempt) = (bytes(), bytes())
        return detail
    }

    @Test("a packed detail is read back, and one that is cut within a field is damaged")
    func roundTrip() throws {
        var random = SeededRandom(seed: 3)
        for _ in 0..<200 {
            let whole = detail(&random)
            #expect(try EventDetail(packed: whole.packed) == whole)
            guard whole.keptAttempt?.isEmpty == false else { continue }
            #expect(throws: PackedReader.Damage.self) { try EventDetail(packed: whole.packed.dropLast()) }
        }
        #expect(EventDetail().packed.isEmpty)
    }

    @Test("unknown fields with a length are skipped, others are damage")
    func unknown() throws {
        let known = EventDetail(error: Stored(json: [7]))
        #expect(try EventDetail(packed: [200, 0, 0, 0, 2, 1, 1] + known.packed) == known)
        #expect(throws: PackedReader.Damage.self) { try EventDetail(packed: [15, 1] + known.packed) }
    }
}
