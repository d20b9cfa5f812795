import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Waits for commits of results", .onOwnThread)
struct CommitWaitsTests {
    @Test("a function is called once the results that came before it are committed, in order")
    func order() {
        let called = Mailbox<Int>()
        var waits = CommitWaits()
        waits.add({ called.send(0) }, after: 0)
        #expect(called.take() == [0])
        waits.add({ called.send(1) }, after: 2)
        waits.add({ called.send(2) }, after: 2)
        waits.add({ called.send(3) }, after: 5)
        waits.noteCommit(of: 0)
        waits.noteCommit(of: 1)
        #expect(called.take() == [])
        waits.noteCommit(of: 3)
        #expect(called.take() == [1, 2])
        waits.noteCommit(of: 1)
        #expect(called.take() == [3])
        waits.noteCommit(of: 1)
        #expect(called.take() == [])
    }

    @Test("a result that was recorded before is committed when the dispatcher calls")
    func dispatcher() throws {
        let database = try TestDatabase(template: template)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let called = Mailbox<Void>()
        for _ in 0..<20 {
            let job = try node.submit(newJob()).id
            node.store.dispatcher.record(result(try node.attempt(), success))
            node.store.dispatcher.whenCommitted { called.send(()) }
            #expect(called.wait(milliseconds: 60_000).count == 1)
            #expect(try node.job(job).get().record.state == .succeeded)
        }
    }
}
