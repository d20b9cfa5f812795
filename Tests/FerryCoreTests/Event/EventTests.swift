import Testing

@testable import FerryCore

@Suite("Events in the API")
struct EventTests {
    private let id = JobID(high: 1, low: 2)

    private func instant(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

    /// Returns a job that a client let follow a redirect in its fourth second, and that has waited for a
    /// credential since its sixth.
    private func asking(revision: Int32) throws -> JobRecord {
        var spec = try decode(#"{"kind":"data","request":{"url":"https://a.example/"}}"#).spec
        var answers = JobAnswers()
        answers.last = JobAnswers.Last(
            kind: .redirect, disposition: .follow, source: AnswerSource(.api, name: "key_1"), at: instant(4))
        spec.answers = answers
        let space = JobQuestion.ProtectionSpace(url: "https://a.example:443", realm: "r", method: .basic)
        let question = JobQuestion(
            .challenge([space], previousFailureCount: 0), askedAt: instant(6), timeout: 60)
        var record = JobRecord(
            id: id, tenant: "default", state: .waiting, waitingFor: .challenge, revision: revision,
            attempt: 2, failedAttemptCount: 0, node: nil, createdAt: instant(0), startedAt: instant(1),
            finishedAt: nil, nextAttemptAt: instant(66), retryOf: nil,
            storedSpec: StoredSpec(spec.encodeStored()),
            responseJSON: nil, resultJSON: nil, errorJSON: nil, body: nil)
        record.questionJSON = question.encode(.inverted)
        return record
    }

    private func event(
        _ type: EventType, at seconds: Int64, revision: Int32, _ state: JobState,
        _ waitingFor: WaitingFor? = nil
    ) -> EventRecord {
        EventRecord(
            type, job: id, at: instant(seconds), attempt: 1, revision: revision, state: state,
            waitingFor: waitingFor)
    }

    // A client may have changed the job since the question.
    @Test(
        "an event shows the question and answer of its time and nothing later",
        arguments: [Int32(5), 6])
    func questions(_ revision: Int32) throws {
        let record = try asking(revision: revision)
        let shown = { (event: EventRecord) in try JSON.parse(event.jobJSON(record)) }
        for earlier in [
            event(.jobCreated, at: 0, revision: 1, .queued), event(.jobStarted, at: 1, revision: 2, .running),
            event(.jobRedirect, at: 3, revision: 3, .waiting, .redirect),
        ] {
            let job = try shown(earlier)
            #expect(job["question"]?.isNull == true, "\(earlier.type)")
            #expect(job["answered_by"]?.isNull == true, "\(earlier.type)")
        }
        let job = try shown(event(.jobChallenge, at: 6, revision: 5, .waiting, .challenge))
        #expect(job["question"]?["kind"]?.string == "challenge")
        #expect(job["answered_by"]?["disposition"]?.string == "follow")
    }
}
