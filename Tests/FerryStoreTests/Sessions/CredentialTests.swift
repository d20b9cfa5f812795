import FerryCore
import FerryStore
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("Credentials of sessions", .onOwnThread)
struct CredentialTests {
    let database: TestDatabase
    private let key = SessionKey(tenant: "acme", name: "s")

    init() throws { database = try TestDatabase(template: template) }

    private func node() throws -> TestNode {
        try TestNode(database.url) { configuration in
            configuration.openSecrets = { try? JobSecrets(json: $0.map { ~$0 }) }
        }
    }

    private func draft(
        _ password: String, persistence: String = "for_session"
    ) throws -> CredentialDraft {
        let text = #"""
            {"protection_space":{"host":"a.example"},"user":"anna","password":"\#(password)",
            "persistence":"\#(persistence)"}
            """#
        return try CredentialDraft(JSONView(parsing: Array(text.utf8)), seal: { $0.map { ~$0 } })
    }

    private func putSession(_ node: TestNode, _ key: SessionKey? = nil) throws {
        let draft = SessionDraft(
            configuration: SessionConfiguration(), secrets: JobSecrets(), sealedSecrets: nil)
        _ = try wait { node.store.sessions.putSession(key ?? self.key, draft, if: .none, reply: $0) }.get()
    }

    private func put(
        _ node: TestNode, _ draft: CredentialDraft, name: String = "a", of session: SessionKey? = nil,
        if condition: SessionCondition = .none
    ) -> Result<CredentialPut, StoreError> {
        wait {
            node.store.credentials.putCredential(name, of: session ?? key, draft, if: condition, reply: $0)
        }
    }

    private func list(_ node: TestNode) -> Result<[CredentialRecord], StoreError> {
        wait { node.store.credentials.credentials(of: key, after: nil, limit: 10, reply: $0) }
    }

    private func delete(
        _ node: TestNode, if condition: SessionCondition = .none
    ) -> Result<Void, StoreError> {
        wait { node.store.credentials.deleteCredential("a", of: key, if: condition, reply: $0) }
    }

    private func passwords(_ node: TestNode) -> [String?] {
        node.store.sessions.sessionCache.credentials(of: "acme", "s").map { $0.secrets?.connection?.password }
    }

    private func invalidate(_ node: TestNode) throws {
        _ = try wait { node.store.sessions.invalidateSession(key, .finish, if: .none, reply: $0) }.get()
        try eventually("the session ends") {
            try wait { node.store.sessions.session(key, reply: $0) }.get().record?.endedAt != nil
        }
    }

    @Test("a credential is created, replaced with its revision, and deleted; the session's revision stays")
    func changes() throws {
        let node = try node()
        defer { node.store.stop() }
        #expect(put(node, try draft("one")).failure == .notFound)
        try putSession(node)
        guard case .created(let first) = try put(node, try draft("one")).get() else { throw Unexpected() }
        #expect(first.revision == 1 && passwords(node) == ["one"])
        guard case .stored(let same) = try put(node, try draft("one")).get() else { throw Unexpected() }
        #expect(same.revision == 1)
        #expect(put(node, try draft("two"), if: .revision(7)).failure == .stale(revision: 1))
        #expect(put(node, try draft("two"), name: "b", if: .exists).failure == .stale(revision: 0))
        guard case .stored(let second) = try put(node, try draft("two"), if: .revision(1)).get() else {
            throw Unexpected()
        }
        #expect(second.revision == 2 && passwords(node) == ["two"])
        #expect(try list(node).get().map(\.revision) == [2])
        let session = try wait { node.store.sessions.session(key, reply: $0) }.get()
        #expect(session.revision == 1)
        #expect(delete(node, if: .revision(1)).failure == .stale(revision: 2))
        _ = try delete(node).get()
        #expect(delete(node).failure == .notFound)
        #expect(passwords(node).isEmpty)
        #expect(try list(node).get().isEmpty)
    }

    @Test("a change of a credential refuses submissions with the epoch before, and their node reloads it")
    func twoNodes() throws {
        let (first, second) = (try node(), try node())
        defer {
            first.store.stop()
            second.store.stop()
        }
        try putSession(first)
        let cache = second.store.sessions.sessionCache
        eventually("the other node knows the session") { cache.current.record("acme", "s") != nil }
        for password in ["one", "two", nil] {
            let known = cache.current.epoch
            if let password {
                _ = try put(first, try draft(password)).get()
            } else {
                _ = try delete(first).get()
            }
            let answer: Result<Submission.Accepted, StoreError> = wait { reply in
                second.store.submissions.submit(
                    Submission(
                        jobs: [newJob(session: "s")], idempotency: nil, sessionEpoch: known, reply: reply))
            }
            #expect(answer.failure == .sessionsChanged)
            #expect(passwords(second) == (password.map { [$0] } ?? []))
        }
    }

    @Test("credentials of other sessions and tenants are independent, and only configured sessions have some")
    func others() throws {
        let node = try node()
        defer { node.store.stop() }
        try putSession(node)
        let other = SessionKey(tenant: "other", name: "s")
        try putSession(node, other)
        _ = try put(node, try draft("one")).get()
        _ = try put(node, try draft("two"), of: other).get()
        #expect(passwords(node) == ["one"])
        let standard = SessionKey(tenant: "acme", name: SessionName.standard)
        #expect(put(node, try draft("one"), of: standard).failure == .sessionNotConfigured)
        #expect(
            wait { node.store.credentials.credential("b", of: key, reply: $0) }.failure == .notFound)
    }

    @Test("the end of a session removes its credentials, except for permanent ones, which its successor has")
    func persistence() throws {
        let node = try node()
        defer { node.store.stop() }
        try putSession(node)
        _ = try put(node, try draft("one")).get()
        _ = try put(node, try draft("two", persistence: "permanent"), name: "b").get()
        try invalidate(node)
        #expect(put(node, try draft("three")).failure == .sessionInvalidated)
        _ = try wait { node.store.sessions.deleteSession(key, if: .none, reply: $0) }.get()
        #expect(passwords(node).isEmpty)
        try putSession(node)
        #expect(passwords(node) == ["two"])
        #expect(try list(node).get().map(\.name) == ["b"])
    }

    @Test("a session has at most its number of credentials, and replacing one is no further one")
    func limit() throws {
        let node = try node()
        defer { node.store.stop() }
        try putSession(node)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO session_credentials (created_at, updated_at, revision, is_permanent, tenant,
                    session, name, credential, secrets)
                SELECT now(), now(), 1, false, 'acme', 's', 'n' || i, '{}', ''
                FROM generate_series(1, \(Limits.sessionCredentialCountMax)) AS i
                """)
        #expect(put(node, try draft("one")).failure == .tooManyCredentials)
        guard case .stored = try put(node, try draft("one"), name: "n1").get() else { throw Unexpected() }
    }

    @Test("all credentials of a session are removed at once, permanent ones too, and those of others stay")
    func removal() throws {
        let (first, second) = (try node(), try node())
        defer {
            first.store.stop()
            second.store.stop()
        }
        try putSession(first)
        let other = SessionKey(tenant: "acme", name: "other")
        try putSession(first, other)
        _ = try put(first, try draft("one")).get()
        _ = try put(first, try draft("two", persistence: "permanent"), name: "b").get()
        _ = try put(first, try draft("three"), of: other).get()
        for _ in 0..<2 { _ = try wait { first.store.cookies.resetSession(key, reply: $0) }.get() }
        #expect(passwords(first).isEmpty)
        #expect(first.store.sessions.sessionCache.credentials(of: "acme", "other").count == 1)
        eventually("the other node knows it") { passwords(second).isEmpty }
    }

    @Test("a damaged credential is shown, and is not used")
    func damaged() throws {
        let node = try node()
        defer { node.store.stop() }
        try putSession(node)
        _ = try put(node, try draft("one")).get()
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE session_credentials SET secrets = 'x'")
        #expect(try list(node).get().map { $0.secrets == nil } == [true])
    }
}

private struct Unexpected: Error {}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
