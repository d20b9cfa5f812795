import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Sessions", .onOwnThread)
struct SessionTests {
    let database: TestDatabase
    private let key = SessionKey(tenant: "acme", name: "s")

    init() throws { database = try TestDatabase(template: template) }

    private func draft(_ change: (inout SessionConfiguration) -> Void = { _ in }) -> SessionDraft {
        var configuration = SessionConfiguration()
        change(&configuration)
        return SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
    }

    private func put(
        _ node: TestNode, _ draft: SessionDraft, if condition: SessionCondition = .none
    ) -> Result<SessionPut, StoreError> {
        wait { node.store.sessions.putSession(key, draft, if: condition, reply: $0) }
    }

    private func invalidate(
        _ node: TestNode, _ mode: SessionInvalidation, _ key: SessionKey? = nil
    ) -> Result<SessionOverview, StoreError> {
        wait { node.store.sessions.invalidateSession(key ?? self.key, mode, if: .none, reply: $0) }
    }

    private func overview(_ node: TestNode) -> Result<SessionOverview, StoreError> {
        wait { node.store.sessions.session(key, reply: $0) }
    }

    private func submit(
        _ node: TestNode, _ jobs: [NewJob], epoch: Int64?, key: Submission.Idempotency? = nil
    ) -> Result<Submission.Accepted, StoreError> {
        wait { reply in
            node.store.submissions.submit(
                Submission(jobs: jobs, idempotency: key, sessionEpoch: epoch, reply: reply))
        }
    }

    @Test("a session is created once, and changed only with its current revision")
    func putting() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        #expect(overview(node).failure == .notFound)
        guard case .created(let created) = try put(node, draft()).get() else { throw Unexpected() }
        #expect(created.revision == 1 && created.counts?.isEmpty == true)
        guard case .unchanged(let same) = try put(node, draft()).get() else { throw Unexpected() }
        #expect(same.revision == 1)
        guard case .needsCondition = try put(node, draft { $0.weight = 2 }).get() else { throw Unexpected() }
        #expect(put(node, draft { $0.weight = 2 }, if: .revision(7)).failure == .stale(revision: 1))
        guard case .changed(let changed) = try put(node, draft { $0.weight = 2 }, if: .revision(1)).get()
        else { throw Unexpected() }
        #expect(changed.revision == 2 && changed.record?.configuration.weight == 2)
        #expect(try overview(node).get().record?.configuration.weight == 2)
        #expect(node.store.sessions.sessionCache.current.record("acme", "s")?.revision == 2)
    }

    @Test("a configuration in another order is no change, with If-Match or without")
    func order() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let pairs = [JobSpec.Pair("a", "1"), JobSpec.Pair("b", "2")]
        let draft = { (pairs: [JobSpec.Pair]) in
            self.draft {
                $0.metadata = pairs
                $0.headers = pairs
            }
        }
        guard case .created = try put(node, draft(pairs)).get() else { throw Unexpected() }
        let conditions: [SessionCondition] = [.none, .exists, .revision(1)]
        for condition in conditions {
            let answer = try put(node, draft(pairs.reversed()), if: condition).get()
            guard case .unchanged(let same) = answer else { throw Unexpected() }
            #expect(same.revision == 1 && same.record?.configuration.headers == pairs)
        }
        let other = [JobSpec.Pair("a", "2"), JobSpec.Pair("b", "1")]
        guard case .needsCondition = try put(node, draft(other)).get() else { throw Unexpected() }
    }

    @Test("secrets are compared byte by byte, and the session cache has them opened")
    func secrets() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        // The test node opens sealed secrets as a webhook's secret.
        let draft = { (secret: String) in
            SessionDraft(
                configuration: SessionConfiguration(), secrets: JobSecrets(webhookSecret: secret),
                sealedSecrets: Array(secret.utf8))
        }
        guard case .created = try put(node, draft("a")).get() else { throw Unexpected() }
        guard case .unchanged = try put(node, draft("a")).get() else { throw Unexpected() }
        guard case .needsCondition = try put(node, draft("b")).get() else { throw Unexpected() }
        #expect(node.store.sessions.sessionCache.current.record("acme", "s")?.secrets.webhookSecret == "a")
        // Equal strings in Swift, but different bytes.
        guard case .changed = try put(node, draft("\u{E9}"), if: .exists).get() else { throw Unexpected() }
        guard case .needsCondition = try put(node, draft("e\u{301}")).get() else { throw Unexpected() }
    }

    @Test("a session with a damaged field accepts no jobs until it is configured again")
    func damage() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        guard case .created = try put(node, draft { $0.retry.attemptCountMax = 3 }).get() else {
            throw Unexpected()
        }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE session_configurations SET epoch = epoch + 1,
                    configuration = replace(configuration, '"max_attempts":3', '"max_attempts":"x"');
                UPDATE session_epoch SET epoch = epoch + 1
                """)
        #expect(try overview(node).get().record?.isReadable == false)
        #expect(submit(node, [newJob(session: "s")], epoch: nil).failure == .failed)
        guard case .changed = try put(node, draft(), if: .exists).get() else { throw Unexpected() }
        _ = try submit(node, [newJob(session: "s")], epoch: nil).get()
    }

    @Test("a submission with an outdated epoch is refused, and its node reloads the session")
    func twoNodes() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        let cache = second.store.sessions.sessionCache
        for round in 0..<5 {
            let known = cache.current.epoch
            let condition: SessionCondition = round == 0 ? .none : .revision(Int32(round))
            _ = try put(first, draft { $0.weight = Double(round + 1) }, if: condition).get()
            #expect(submit(second, [newJob(session: "s")], epoch: known).failure == .sessionsChanged)
            #expect(cache.current.record("acme", "s")?.configuration.weight == Double(round + 1))
            #expect(cache.current.epoch > known)
            // Other sessions have not changed.
            _ = try submit(second, [newJob(session: "t"), newJob()], epoch: known).get()
            _ = try submit(second, [newJob(session: "s")], epoch: cache.current.epoch).get()
            _ = try submit(second, [newJob(session: "s")], epoch: nil).get()
        }
        #expect(try overview(second).get().counts?.isExact == true)
        let counts = try #require(try overview(second).get().counts)
        #expect(counts.queued + counts.running == 10)
    }

    @Test("a node reloads all sessions if the epoch of the database has decreased")
    func forgetting() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try put(node, draft { $0.weight = 2 }).get()
        _ = try put(node, draft { $0.weight = 3 }, if: .revision(1)).get()
        let known = node.store.sessions.sessionCache.current.epoch
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "DELETE FROM session_configurations; UPDATE session_epoch SET epoch = 0, removal = 0")
        _ = try submit(node, [newJob(session: "s")], epoch: nil).get()
        #expect(node.store.sessions.sessionCache.current.epoch == 0)
        #expect(node.store.sessions.sessionCache.current.records.isEmpty)
        #expect(submit(node, [newJob(session: "s")], epoch: known).failure == .sessionsChanged)
        guard case .created = try put(node, draft()).get() else { throw Unexpected() }
    }

    @Test("jobs accepted while their session is invalidated are all cancelled, on two nodes")
    func race() throws {
        let nodes = [try TestNode(database.url, slots: 2), try TestNode(database.url, slots: 2)]
        defer { nodes.forEach { $0.store.stop() } }
        var accepted = 0
        for round in 0..<20 {
            let name = SessionKey(tenant: "acme", name: "race\(round)")
            let answers = (0..<2).map { index in
                Pending { reply in
                    nodes[index].store.submissions.submit(
                        Submission(jobs: [newJob(session: name.name)], idempotency: nil, reply: reply))
                }
            }
            _ = wait { reply in
                nodes[round % 2].store.sessions.putSession(name, draft(), if: .none, reply: reply)
            }
            _ = try invalidate(nodes[1 - round % 2], .cancel, name).get()
            for answer in answers {
                switch answer.result {
                case .success: accepted += 1
                case .failure(let error): #expect(error == .sessionInvalidated)
                }
            }
            // From here on no node accepts a job.
            for node in nodes {
                #expect(submit(node, [newJob(session: name.name)], epoch: nil).failure == .sessionInvalidated)
            }
        }
        // The cancellation includes all jobs accepted before.
        try eventually("every accepted job is over") {
            for node in nodes {
                for attempt in node.runner.begun.take() {
                    node.store.dispatcher.record(result(attempt, .cancelled))
                }
            }
            return try countedStates(database.url).isEmpty
        }
        #expect(accepted > 0)
        try eventually("every session ends") {
            for round in 0..<20 {
                let key = SessionKey(tenant: "acme", name: "race\(round)")
                let overview = try wait { nodes[0].store.sessions.session(key, reply: $0) }.get()
                if overview.record?.endedAt == nil { return false }
            }
            return true
        }
    }

    @Test("a long read of every table blocks neither a session change nor a submission")
    func dump() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var options = ConnectionOptions()
        options.idleInTransactionTimeout = nil
        var dump = try Connection(url: database.url, options: options)
        try dump.execute(
            script: "BEGIN; LOCK TABLE session_epoch, session_configurations, jobs IN ACCESS SHARE MODE")
        guard case .created = try put(node, draft()).get() else { throw Unexpected() }
        _ = try submit(node, [newJob(session: "s")], epoch: nil).get()
        _ = try invalidate(node, .finish).get()
        #expect(submit(node, [newJob(session: "s")], epoch: nil).failure == .sessionInvalidated)
        try dump.execute(script: "COMMIT")
    }

    @Test("a session change blocks submissions but no reads, and gives up behind a slow submission")
    func locking() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var options = ConnectionOptions()
        options.idleInTransactionTimeout = nil
        var other = try Connection(url: database.url, options: options)
        // A statement that would wait fails.
        options.settings = [.init("lock_timeout", "100ms")]
        var hasty = try Connection(url: database.url, options: options)
        try other.execute(script: "BEGIN; SELECT lock_session_epoch()")
        try hasty.execute(script: "SELECT epoch FROM session_epoch")
        do throws(PostgresError) {
            try hasty.execute(script: "SELECT expect_session_epoch(0)")
            Issue.record("jobs are accepted while a session changes")
        } catch {
            #expect(error.sqlState == "55P03", "\(error)")
        }
        try other.execute(script: "COMMIT")
        try other.execute(script: "BEGIN; SELECT expect_session_epoch(0)")
        #expect(put(node, draft()).failure == .unavailable)
        try other.execute(script: "COMMIT")
        guard case .created = try put(node, draft()).get() else { throw Unexpected() }
    }

    @Test("an invalidated session accepts no job, and repeats the reply to an accepted key")
    func invalidating() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        let job = newJob(session: "s")
        let accepted = try submit(first, [job], epoch: nil, key: FerryStoreTests.key("k")).get()
        let invalidated = try invalidate(first, .finish).get()
        #expect(invalidated.record?.invalidation == .finish && invalidated.record?.endedAt == nil)
        #expect(try invalidate(second, .finish).get().revision == invalidated.revision, "once more: nothing")
        for node in [first, second] {
            #expect(submit(node, [newJob(session: "s")], epoch: nil).failure == .sessionInvalidated)
            let new = submit(node, [newJob(session: "s")], epoch: nil, key: FerryStoreTests.key("n"))
            #expect(new.failure == .sessionInvalidated)
            let again = try submit(
                node, [newJob(session: "s")], epoch: nil, key: FerryStoreTests.key("k")
            ).get()
            #expect(again.isReplay && again.jobs.map(\.id) == accepted.jobs.map(\.id))
        }
        #expect(put(first, draft()).failure == .sessionInvalidated)
        #expect(
            wait { first.store.sessions.deleteSession(key, if: .none, reply: $0) }.failure == .sessionInUse)
        // The last job ends, then the session.
        var begun: (node: TestNode, attempt: Attempt)?
        eventually("either node runs it") {
            for node in [first, second] { begun = begun ?? node.runner.begun.take().first.map { (node, $0) } }
            return begun != nil
        }
        let (runner, attempt) = try #require(begun)
        runner.end(attempt, success)
        try eventually("the session ends") { try overview(first).get().record?.endedAt != nil }
        #expect(try invalidate(first, .cancel).get().record?.invalidation == .finish, "it is over")
        _ = try wait { first.store.sessions.deleteSession(key, if: .none, reply: $0) }.get()
        // Both nodes may use the name again.
        _ = try submit(second, [newJob(session: "s")], epoch: nil).get()
        _ = try submit(first, [newJob(session: "s")], epoch: nil).get()
        guard case .created = try put(first, draft()).get() else { throw Unexpected() }
        let standard = SessionKey(tenant: "acme", name: "default")
        #expect(invalidate(first, .cancel, standard).failure == .sessionInUse)
        #expect(invalidate(first, .cancel, SessionKey(tenant: "acme", name: "z")).failure == .notFound)
    }

    @Test("invalidating with cancel ends waiting and queued jobs, and requests it for running ones")
    func cancelling() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        eventually("the first claim clears the backlog") { !node.store.hasBacklog }
        let other = try node.submit(newJob(session: "t"))
        let running = try node.attempt()
        #expect(running.job == other.id)
        node.end(running, success)
        _ = try submit(node, [newJob(session: "s", webhook: true)], epoch: nil).get()
        let mine = try node.attempt()
        let later = Timestamp(microseconds: 4_000_000_000_000_000)
        let waiting = (0..<450).map { newJob(session: "s", beginAt: $0 % 2 == 0 ? later : nil) }
        _ = try submit(node, waiting, epoch: nil).get()
        _ = try invalidate(node, .cancel).get()
        try eventually("all but the running one are over") {
            let states = try countedStates(database.url)
            return states == ["running": 1]
        }
        eventually("its node is asked") { node.runner.stops.withLock { $0[mine.job] } == .cancel }
        #expect(try overview(node).get().record?.endedAt == nil)
        node.store.dispatcher.record(result(mine, .cancelled))
        try eventually("the session ends") { try overview(node).get().record?.endedAt != nil }
        let job = try node.job(waiting[3].id).get().record
        #expect(job.state == .cancelled)
        #expect(try node.status().queued == 0 && node.status().waiting == 0 && node.status().running == 0)
    }

    @Test("sessions are listed by name in pages, including the default one")
    func listing() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        for name in ["b", "z"] {
            let key = SessionKey(tenant: "acme", name: name)
            _ = try wait { node.store.sessions.putSession(key, draft(), if: .none, reply: $0) }.get()
        }
        _ = try wait {
            node.store.sessions.putSession(
                SessionKey(tenant: "other", name: "hidden"), draft(), if: .none, reply: $0)
        }.get()
        var names: [String] = []
        while true {
            let page = try wait {
                node.store.sessions.sessions(tenant: "acme", after: names.last, limit: 2, reply: $0)
            }.get()
            names += page.map(\.key.name)
            if page.count < 2 { break }
        }
        #expect(names == ["b", "default", "z"])
    }
}

private struct Unexpected: Error {}

extension Result {
    fileprivate var failure: Failure? {
        if case .failure(let error) = self { error } else { nil }
    }
}

/// A request whose reply is awaited later.
private struct Pending<Value: Sendable> {
    private let answer = Mailbox<Result<Value, StoreError>>()

    init(_ ask: (@escaping @Sendable (Result<Value, StoreError>) -> Void) -> Void) {
        ask { [answer] in answer.send($0) }
    }

    var result: Result<Value, StoreError> {
        answer.wait(milliseconds: 60_000).first ?? .failure(.unavailable)
    }
}
