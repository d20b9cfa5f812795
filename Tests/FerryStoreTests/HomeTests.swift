import FerryCore
import FerryStore
import Sys
import TestSupport
import Testing

@Suite("Jobs that one node alone can do")
struct HomeTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Gives the attempt back: it is for that node.
    private func giveBack(_ attempt: Attempt, on node: TestNode, for home: TestNode) {
        node.store.dispatcher.record(
            AttemptResult(
                attempt: attempt, outcome: .released, response: nil, bytesReceived: 0, bytesSent: 0,
                home: home.id))
    }

    @Test("go to it, also when their host is limited", arguments: [false, true])
    func placed(isLimited: Bool) throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        if isLimited {
            try first.changeHost(
                "https://example.org:443", #"{"maximum_connections":3}"#, known: [first])
        }
        let job = newJob(kind: .upload)
        _ = try first.submit(job)
        let attempt = try first.attempt()
        #expect(attempt.home == nil)
        let second = try TestNode(database.url)
        defer { second.store.stop() }
        giveBack(attempt, on: first, for: second)
        let next = try second.attempt()
        #expect(next.job == job.id && next.home == second.id && next.failedAttemptCount == 0)
        #expect(first.runner.begun.count == 0)
        second.end(next, success)
        #expect(try second.job(job.id).get().record.state == .succeeded)
    }

    @Test("wait for it while it is busy, hold up no others, and are tried elsewhere when it has gone")
    func busy() throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        let job = newJob(kind: .upload)
        _ = try first.submit(job)
        let attempt = try first.attempt()
        let second = try TestNode(database.url, slots: 1)
        _ = try second.submit(newJob(kind: .upload, host: "busy.example"))
        let other = try second.attempt()
        giveBack(attempt, on: first, for: second)
        // What comes behind it in the same lot.
        let later = (0..<5).map { _ in newJob(kind: .upload) }
        _ = try first.submit(later).get()
        for _ in later {
            let next = try first.attempt()
            #expect(next.job != job.id)
            first.end(next, success)
        }
        let waiting = try first.job(job.id).get().record
        #expect(waiting.state == .queued && waiting.attempt == 1)
        second.store.dispatcher.record(result(other, .released))
        second.store.stop()
        // The node that has gone is named: there is nothing to give back for.
        let last = try first.attempts(2).first { $0.job == job.id }
        #expect(last?.home == second.id && last?.number == 2)
    }
}
