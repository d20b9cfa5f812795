import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Where jobs count whose request is edited while they run.
@Suite("Edits of running jobs", .onOwnThread)
struct RunningEditTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func edit(
        _ id: JobID, on node: TestNode, _ url: String
    ) throws -> Result<JobRecord, InvalidFields> {
        try wait { reply in
            node.store.control.edit(
                id, tenant: "acme",
                { draft throws(InvalidFields) in
                    var draft = draft
                    draft.spec.request = .init(url: url, method: draft.spec.request.method)
                    return draft
                }, reply: reply)
        }.get()
    }

    @Test("a running job with a URL of another origin is tried again there")
    func origin() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        let attempt = try node.attempt()
        let edited = try edit(id, on: node, "https://new.example/f").get()
        #expect(edited.state == .running)
        node.end(
            attempt,
            .failed(
                TransferError(
                    .connectionLost, "x", phase: .receiving, isRetryable: true), retryAfter: 0))
        let next = try node.attempt()
        #expect(next.job == id && next.number == 2 && next.origin == "https://new.example:443")
        #expect(next.spec.request.url == "https://new.example/f")
        node.end(next, success)
        #expect(try node.job(id).get().record.state == .succeeded)
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
    }

    @Test("a question about a request that was edited meanwhile is not asked")
    func question() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        let attempt = try node.attempt()
        _ = try edit(id, on: node, "https://new.example/f").get()
        node.end(
            attempt, .asked(JobQuestion(.urlExpired, askedAt: Timestamp(microseconds: 1), timeout: 600)))
        let next = try node.attempt()
        #expect(next.job == id && next.spec.request.url == "https://new.example/f")
        node.end(next, success)
    }
}
