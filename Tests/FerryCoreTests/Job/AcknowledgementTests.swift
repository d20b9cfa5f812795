import FerryCore
import Testing

@Suite("Acknowledgement")
struct AcknowledgementTests {
    private func spec(_ more: String, session: String = "{}") throws -> JobSpec {
        let draft = try SessionDraft(
            JSONView(parsing: Array(session.utf8)), refusal: { _ in nil }, seal: { $0 })
        let record = SessionRecord(
            SessionKey(tenant: "acme", name: "s"), revision: 1, epoch: 1,
            createdAt: Timestamp(microseconds: 0), updatedAt: Timestamp(microseconds: 0),
            configuration: draft.configuration)
        let scope = SessionScope(
            SessionSnapshot(epoch: 1, removal: 0, records: [record.key: record]), tenant: "acme")
        let text = #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}\#(more)}"#
        return try JobRequest(JSONView(parsing: Array(text.utf8)), sessions: scope) { _ in nil }.spec
    }

    @Test("a job uses its session's acknowledgement unless it has its own or null")
    func session() throws {
        let session = #"{"acknowledgement":{"by":"webhook","timeout":5,"reminders":{"max_count":0}}}"#
        let inherited = try #require(spec("", session: session).acknowledgement)
        #expect(inherited.by == .webhook && inherited.timeout == 5 && inherited.reminders.countMax == 0)
        #expect(try spec(#","acknowledgement":null"#, session: session).acknowledgement == nil)
        // The job's value replaces the session's as a whole.
        let own = try #require(spec(#","acknowledgement":{"timeout":9}"#, session: session).acknowledgement)
        #expect(own.by == .client && own.timeout == 9 && own.reminders.countMax == 20)
        #expect(try spec("").acknowledgement == nil)
        #expect(try spec(#","acknowledgement":{}"#).acknowledgement == AcknowledgementRules())
    }

    @Test("stored rules are read back, shown rules have all values, and jobs without rules store nothing")
    func storing() throws {
        let asked = try spec(
            #","acknowledgement":{"reminders":{"initial_delay":100000,"multiplier":3,"max_count":7}}"#)
        #expect(try JobSpec(storedJSON: asked.encodeStored()) == asked)
        #expect(try JobSpec(storedJSON: asked.encode()) == asked)
        let shown = try JSON.parse(asked.encode())["acknowledgement"]
        #expect(shown?["by"]?.string == "client" && shown?["timeout"]?.double == 1_209_600)
        let reminders = shown?["reminders"]
        #expect(reminders?["max_count"]?.integer == 7 && reminders?["initial_delay"]?.double == 100_000)
        // An initial delay above the default maximum raises the maximum.
        #expect(reminders?["max_delay"]?.double == 100_000 && reminders?["multiplier"]?.double == 3)
        let plain = try spec("")
        #expect(try JSON.parse(plain.encode())["acknowledgement"] == .null)
        #expect(!String(decoding: plain.encodeStored(), as: UTF8.self).contains("acknowledgement"))
    }

    @Test(
        "a webhook without events gets reminders if the job needs acknowledgement; one with events does not")
    func webhook() throws {
        let hook = #","webhook":{"url":"https://h.example/""#
        #expect(try spec(hook + "}").webhook?.events == EventType.standard)
        let asked = try spec(hook + #"},"acknowledgement":{}"#)
        #expect(
            asked.webhook?.events == EventType.standard + [.jobUnacknowledged, .jobAcknowledgementExpired])
        let own = try spec(hook + #","events":["job.failed"]},"acknowledgement":{}"#)
        #expect(own.webhook?.events == [.jobFailed])
    }
}
