import FerryCore
import TestGolden
import Testing

/// A golden file and the function that its cases are replayed with.
struct GoldenBodies: Sendable, CustomTestStringConvertible {
    let file: String
    let replay: @Sendable (GoldenCase) throws -> [JSON.Member]
    var testDescription: String { file }

    static let all = [
        GoldenBodies(file: "job.json", replay: GoldenAdapter.job),
        GoldenBodies(file: "job_errors.json", replay: GoldenAdapter.job),
        GoldenBodies(file: "job_patch.json", replay: GoldenAdapter.jobPatch),
        GoldenBodies(file: "session.json", replay: GoldenAdapter.session),
        GoldenBodies(file: "schedule.json", replay: GoldenAdapter.schedule),
        GoldenBodies(file: "webhook.json", replay: GoldenAdapter.webhook),
        GoldenBodies(file: "webhook_patch.json", replay: GoldenAdapter.webhookPatch),
        GoldenBodies(file: "answer.json", replay: GoldenAdapter.answer),
        GoldenBodies(file: "answered.json", replay: GoldenAdapter.answered),
        GoldenBodies(file: "windows.json", replay: GoldenAdapter.windows),
        GoldenBodies(file: "limits.json", replay: GoldenAdapter.limits),
        GoldenBodies(file: "host.json", replay: GoldenAdapter.host),
    ]
}

@Suite("Golden files")
struct GoldenTests {
    private func expectSame(_ file: String, _ found: (GoldenFile) throws -> [GoldenCase]) throws {
        let golden = try GoldenFile(file)
        for difference in try golden.differences(from: try found(golden)) {
            Issue.record("\(file): \(difference)")
        }
    }

    @Test("a body is read, stored and shown as recorded", arguments: GoldenBodies.all)
    func bodies(_ bodies: GoldenBodies) throws {
        try expectSame(bodies.file) { golden in
            try golden.cases.map {
                GoldenCase($0.name, given: $0.given, found: try bodies.replay($0))
            }
        }
    }

    @Test("a job record is shown as recorded")
    func records() throws {
        try expectSame("job_record.json") { _ in
            try GoldenRecord.all().map { GoldenCase($0.name, found: try GoldenAdapter.shown($0)) }
        }
    }

    @Test("an event is shown as recorded")
    func events() throws {
        try expectSame("event.json") { _ in
            try GoldenEvent.all().map {
                GoldenCase($0.name, found: try GoldenAdapter.shown($0.event, job: $0.job))
            }
        }
    }
}
