import FerryCore
import FerryStore
import Glibc
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Start and stop of a store", .onOwnThread)
struct StoreLifecycleTests {
    @Test("a started store serves reads, and leases nothing until `beginWork`")
    func beginning() throws {
        let database = try TestDatabase(template: template)
        let other = try TestNode(database.url, slots: 0)
        defer { other.store.stop() }
        let id = try other.submit(newJob()).id
        let node = try TestNode(database.url, works: false)
        defer { node.store.stop() }
        let accepted = Signal<Bool>()
        node.store.submissions.submit(
            Submission(jobs: [newJob()], idempotency: nil) { accepted.fire((try? $0.get()) != nil) })
        // The node has sent heartbeats by then. Work that it must not begin yet would have begun.
        try eventually("it is known to the others") { try node.status().nodes.count == 2 }
        #expect(try node.job(id).get().record.state == .queued)
        #expect(node.runner.begun.take().isEmpty && accepted.wait(seconds: 0).isEmpty)
        node.store.beginWork()
        #expect(accepted.wait() == [true])
        #expect(Set(try node.attempts(2).map(\.job)).contains(id))
    }

    @Test("`stop` does not wait for a database that hangs", arguments: [true, false])
    func hangingDatabase(_ isWorking: Bool) throws {
        let server = try TestServer()
        defer { server.remove() }
        try Migrator.migrate(url: server.url())
        let node = try TestNode(server.url(), works: isWorking)
        if isWorking {
            _ = try node.submit(newJob(webhook: true))
            _ = try node.attempt()
        }
        let pids = try processes(of: server)
        for pid in pids { kill(pid, SIGSTOP) }
        let stopped = Signal<Void>()
        let thread = Thread(name: "stops") {
            node.store.stop()
            stopped.fire(())
        }
        #expect(stopped.wait(seconds: 120).count == 1)
        for pid in pids { kill(pid, SIGCONT) }
        thread.join()
    }

    /// Its sessions', and first the one that begins others.
    private func processes(of server: TestServer) throws -> [pid_t] {
        let file = String(decoding: readFile("\(server.directory)/data/postmaster.pid") ?? [], as: UTF8.self)
        let first = try #require(file.split(separator: "\n").first.flatMap { pid_t($0) })
        var connection = try Connection(url: server.url())
        let rows = try connection.execute(
            Statement(
                "sessions",
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    + "AND pid <> pg_backend_pid()"))
        return [first] + (0..<rows.rowCount).map { rows.int32($0, 0) }
    }
}
