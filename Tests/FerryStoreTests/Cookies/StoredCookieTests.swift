import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Cookies of sessions in the database, and on several nodes.
@Suite("Stored cookies", .onOwnThread)
struct StoredCookieTests {
    private let database: TestDatabase
    private let session = SessionKey(tenant: "acme", name: "s")

    init() throws { database = try TestDatabase(template: template) }

    private static func now() -> Timestamp { Timestamp(microseconds: Sys.wallMicroseconds()) }

    private static func url() throws -> WebURL { try WebURL.parse("https://example.org/") }

    private func configure(_ node: TestNode, _ key: SessionKey? = nil) throws {
        let draft = SessionDraft(
            configuration: SessionConfiguration(), secrets: JobSecrets(), sealedSecrets: nil)
        let put = wait { node.store.sessions.putSession(key ?? session, draft, if: .none, reply: $0) }
        guard case .created = try put.get() else { throw CancellationError() }
    }

    /// What an attempt sends.
    private func sent(_ attempt: Attempt) throws -> String? {
        try #require(attempt.session).cookieField(for: try Self.url(), at: Self.now())
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// An attempt of a new job of the session, and the way in which its node has got it.
    private func attempt(_ node: TestNode, _ session: String = "s", path: String = "a") throws -> Attempt {
        _ = try node.submit(newJob(session: session, path: path))
        return try node.attempt()
    }

    private func keep(_ field: String, _ attempt: Attempt) throws {
        try #require(attempt.session).keepCookies(
            [Array(field.utf8)], from: try Self.url(), at: Self.now())
    }

    private func change(_ node: TestNode, _ change: @escaping @Sendable (inout CookieJar) -> Int) throws {
        _ = try wait { node.store.cookies.changeCookies(of: session, change, reply: $0) }.get()
    }

    private func rowCount() throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("rows", "SELECT count(*) FROM cookies")).int64(0, 0)
    }

    @Test("what a job has kept is sent by every job that is submitted after its end, on any node")
    func nodes() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        try configure(first)
        for (index, node) in [first, second, second, first].enumerated() {
            let attempt = try attempt(node)
            #expect(try sent(attempt) == (index == 0 ? nil : "n=\(index - 1)"))
            try keep("n=\(index)", attempt)
            node.end(attempt, success)
        }
        // A failed attempt that is repeated stores them, too.
        let failed = try attempt(first)
        try keep("n=failed", failed)
        first.end(failed, failure())
        let repeated = try first.attempt()
        #expect(repeated.job == failed.job)
        #expect(try sent(try attempt(second)) == "n=failed")
        first.end(repeated, success)
        #expect(try rowCount() == 1)
    }

    @Test("removed cookies are gone on every node")
    func removal() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        try configure(first)
        let attempt = try attempt(second)
        try keep("a=1", attempt)
        try keep("b=2", attempt)
        second.end(attempt, success)
        let now = Self.now()
        try change(first) { $0.remove(where: CookieFilter(name: Array("a".utf8)), now: now) }
        #expect(try sent(try self.attempt(second)) == "b=2")
        try change(first) { $0.remove(where: .all, now: now) }
        #expect(try sent(try self.attempt(second)) == nil)
        #expect(try rowCount() == 0)
    }

    @Test("a new session of the same name has no cookies, and cookies of the old one are not stored for it")
    func names() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        try configure(node)
        let old = try attempt(node)
        try keep("a=1", old)
        node.end(old, success)
        #expect(try rowCount() == 1)
        _ = try wait {
            node.store.sessions.invalidateSession(session, .finish, if: .none, reply: $0)
        }.get()
        eventually("the session ends") {
            if case .success = wait({ node.store.sessions.deleteSession(session, if: .none, reply: $0) }) {
                true
            } else {
                false
            }
        }
        #expect(try rowCount() == 0)
        try configure(node)
        try keep("late=1", old)
        let new = try attempt(node)
        #expect(try sent(new) == nil)
        node.end(new, success)
        #expect(try rowCount() == 0)
        #expect(node.store.context.cookies.takeChanges().isEmpty)
    }

    @Test("expired cookies leave the database with the next change of their session")
    func expiry() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        try configure(node)
        let attempt = try attempt(node)
        try keep("short=1; Max-Age=1", attempt)
        try keep("long=1; Max-Age=9999", attempt)
        node.end(attempt, success)
        #expect(try rowCount() == 2)
        var connection = try Connection(url: database.url)
        _ = try connection.execute(
            Statement("age", "UPDATE cookies SET expires_at = expires_at - interval '1 hour'"))
        let next = try self.attempt(node)
        try keep("other=1", next)
        node.end(next, success)
        #expect(try rowCount() == 2)
    }

    @Test("cookies are sealed, and a damaged one is left out")
    func damage() throws {
        let node = try TestNode(database.url)
        try configure(node)
        let attempt = try attempt(node)
        try keep("a=treasure", attempt)
        try keep("b=2", attempt)
        node.end(attempt, success)
        node.store.stop()
        var connection = try Connection(url: database.url)
        let plain = Statement(
            "plain", "SELECT count(*) FROM cookies WHERE position('treasure'::bytea IN cookie) > 0")
        #expect(try connection.execute(plain).int64(0, 0) == 0)
        _ = try connection.execute(
            Statement(
                "damage",
                "UPDATE cookies SET cookie = '\\x00' WHERE key = (SELECT key FROM cookies ORDER BY 1 LIMIT 1)"
            ))
        let other = try TestNode(database.url)
        defer { other.store.stop() }
        let sent = try #require(try sent(try self.attempt(other)))
        #expect(["a=treasure", "b=2"].contains(sent))
    }

    @Test("jobs of a session that is not configured have no session of their own")
    func implicit() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        #expect(try attempt(node, "unknown").session == nil)
        let name = SessionKey(tenant: "acme", name: "unknown")
        #expect(wait { node.store.cookies.cookies(of: name, reply: $0) }.error == .sessionNotConfigured)
        let never = SessionKey(tenant: "acme", name: "never")
        #expect(wait { node.store.cookies.cookies(of: never, reply: $0) }.error == .notFound)
        #expect(wait { node.store.cookies.flushSession(name, reply: $0) }.error == .sessionNotConfigured)
        #expect(wait { node.store.cookies.flushSession(never, reply: $0) }.error == .notFound)
    }

    @Test("a flush is known to every node before the next job is accepted")
    func flush() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        try configure(first)
        #expect(try attempt(second).session?.flushedAt == nil)
        let before = Self.now()
        let flushed = try wait { first.store.cookies.flushSession(session, reply: $0) }.get()
        #expect(flushed.revision == 1)
        let known = second.store.sessions.sessionCache.current.epoch
        let late = wait { reply in
            second.store.submissions.submit(
                Submission(
                    jobs: [newJob(session: "s")], idempotency: nil, sessionEpoch: known, reply: reply))
        }
        if case .failure(let error) = late { #expect(error == .sessionsChanged) }
        let attempt = try attempt(second)
        #expect(try #require(attempt.session?.flushedAt) >= before + -1.0)
    }
}

extension Result {
    fileprivate var error: Failure? { if case .failure(let error) = self { error } else { nil } }
}
