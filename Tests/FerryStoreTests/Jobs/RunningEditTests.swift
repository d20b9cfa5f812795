import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Counts of jobs whose request is edited while they run.
@Suite("Edits of running jobs", .onOwnThread)
struct RunningEditTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func edit(
        _ id: JobID, on node: TestNode, _ url: String
    ) throws -> Result<JobRecord, InvalidFields> {
        try wait { reply in
            node.store.jobCommands.edit(
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

    @Test("the attempt after a delayed redirect begins with its target, unless the request was edited")
    func delayedRedirect() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let id = try node.submit(newJob(retryDelay: 60)).id
        func redirect(_ attempt: Attempt, retryAfter: Double) throws {
            let hop = JobQuestion.Hop(
                url: "https://u:p@other.example/x", method: "GET", sendsBody: false, redirectCount: 1,
                hasDroppedBody: false, hasActed: false, keepsCredentials: false)
            var error = TransferError(.unacceptableStatus, "x", phase: .waiting, isRetryable: true)
            error.cost = .none
            let redirect = DelayedRedirect(
                hop,
                cookies: [
                    .init(
                        name: Array("a".utf8), value: Array("b".utf8), domain: "other.example",
                        isHostOnly: true, isSecure: true, createdAt: .distantPast,
                        lastAccessAt: .distantPast)
                ], attempt: attempt.number + 1)
            node.store.dispatcher.record(
                result(attempt, .failed(error, retryAfter: retryAfter), delayedRedirect: redirect))
            try eventually("it waits") { try node.job(id).get().record.waitingFor == .retry }
        }
        func nextAttempt() throws -> Attempt {
            _ = try wait { node.store.jobCommands.suspend(id, tenant: "acme", reply: $0) }.get()
            _ = try wait { node.store.jobCommands.resume(id, tenant: "acme", reply: $0) }.get()
            return try node.attempt()
        }
        try redirect(try node.attempt(), retryAfter: 600)
        let waiting = try node.job(id).get().record
        let nextAttemptAt = try #require(waiting.nextAttemptAt)
        #expect(waiting.failedAttemptCount == 0 && nextAttemptAt - waiting.createdAt >= 600)
        let second = try nextAttempt()
        #expect(second.number == 2 && second.delayedRedirect?.hop.url == "https://u:p@other.example/x")
        #expect(second.delayedRedirect?.cookies.map(\.value) == [Array("b".utf8)])
        node.end(second, failure())
        try eventually("it waits") { try node.job(id).get().record.waitingFor == .retry }
        let third = try nextAttempt()
        #expect(third.number == 3 && third.delayedRedirect == nil, "a later attempt begins anew")
        try redirect(third, retryAfter: 600)
        _ = try edit(id, on: node, "https://new.example/f").get()
        let fourth = try nextAttempt()
        #expect(fourth.number == 4 && fourth.delayedRedirect == nil)
        #expect(fourth.spec.request.url == "https://new.example/f")
        node.end(fourth, success)
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
