import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Host limits", .onOwnThread)
struct HostLimitsTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("a notification makes a node load host limits, and forget them when they are deleted")
    func loading() throws {
        // With this lease no heartbeat comes during the test.
        let node = try TestNode(database.url, leaseSeconds: 300)
        defer { node.store.stop() }
        #expect(node.hosts.isEmpty)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin) VALUES ('https://limited:443'), ('https://away:443'),
                    ('https://back:443'), ('https://free:443'), ('https://paused:443'), ('https://mixed:443');
                INSERT INTO host_limits (origin, tenant, path, connection_limit, blocked_until) VALUES
                    ('https://limited:443', '', '', 3, NULL),
                    ('https://away:443', '', '', NULL, now() + '1 hour'),
                    ('https://back:443', '', '', NULL, now() - interval '1 hour'),
                    ('https://paused:443', '', '', 3, '9999-12-31T23:59:59Z'),
                    ('https://mixed:443', 'acme', '', 2, NULL),
                    ('https://mixed:443', 'acme', '/a', NULL, now() + '1 hour');
                """)
        try eventually("the limits are known") {
            try connection.execute(script: "NOTIFY ferry, 'hosts'")
            return !node.hosts.isEmpty
        }
        func scope(_ origin: String, tenant: String = "acme", path: String = "/") -> RequestScope {
            RequestScope(tenant: tenant, origin: origin, path: path)
        }
        #expect(node.hosts.limit(of: scope("https://limited:443")) == HostLimit(connectionLimit: 3))
        #expect(node.hosts.limit(of: scope("https://back:443")) == nil)
        #expect(node.hosts.limit(of: scope("https://free:443")) == nil)
        #expect(node.hosts.limit(of: scope("https://mixed:443", tenant: "other")) == nil)
        #expect(node.hosts.limit(of: scope("https://mixed:443")) == HostLimit(connectionLimit: 2))
        #expect(node.hosts.limitsPath(of: scope("https://mixed:443", path: "/a")))
        #expect(!node.hosts.limitsPath(of: scope("https://mixed:443", path: "/b")))
        #expect(node.hosts.limitsPaths(tenant: "acme", origin: "https://mixed:443"))
        #expect(!node.hosts.limitsPaths(tenant: "other", origin: "https://mixed:443"))
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        func reason(_ origin: String, _ sessionLimit: Int?, path: String = "/") -> String {
            node.hosts.reason(for: scope(origin, path: path), sessionLimit: sessionLimit, at: now).code
        }
        #expect(reason("https://mixed:443", nil, path: "/a") == "host_backoff")
        #expect(reason("https://mixed:443", nil, path: "/b") == "host_limit")
        #expect(reason("https://away:443", 2) == "host_backoff")
        #expect(reason("https://paused:443", 2) == "host_paused")
        #expect(reason("https://limited:443", nil) == "host_limit")
        #expect(reason("https://limited:443", 2) == "session_limit")
        #expect(reason("https://free:443", 2) == "session_limit")
        #expect(reason("https://free:443", nil) == "no_free_slot")
        try connection.execute(script: "DELETE FROM hosts")
        // A first heartbeat may have loaded the limits, so the node may not listen yet.
        try eventually("no limit is left") {
            try connection.execute(script: "NOTIFY ferry, 'hosts'")
            return node.hosts.isEmpty
        }
    }

    @Test("read_permits returns a time only for held hosts, since elsewhere the next end frees a place")
    func permits() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin) VALUES ('https://limited:443'), ('https://back:443'),
                    ('https://away:443'), ('https://paused:443');
                INSERT INTO host_limits (origin, connection_limit, blocked_until) VALUES
                    ('https://limited:443', 1, NULL), ('https://back:443', 1, now() - interval '1 hour'),
                    ('https://away:443', 1, now() + interval '1 hour'),
                    ('https://paused:443', 1, '9999-12-31T23:59:59Z');
                INSERT INTO claim_queues (id, tenant, session, origin)
                SELECT -row_number() OVER (ORDER BY origin), 'acme', 'default', origin FROM hosts;
                """)
        let queues: [Int64] = [-1, -2, -3, -4]
        var wanted = Parameters()
        wanted.appendArray(.int64, queues) { $0.append(int64: $1) }
        let locks = wanted
        wanted.appendArray(.int32, queues) { list, _ in list.append(int32: 2) }
        wanted.appendArray(.int32, queues) { list, _ in list.append(int32: nil) }
        wanted.append(TestNode.identifiers.make() as NodeID)
        wanted.append(float64: 15)
        var results = try connection.pipeline { [wanted] pipeline in
            pipeline.send(Statements.lockClaimQueues, locks)
            pipeline.send(Statements.readPermits, wanted)
        }
        let rows = results.take(1)
        let year = 366 * 86_400.0
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        var found: [Int64: (count: Int32?, wait: Double?)] = [:]
        for (index, queue) in rows.int64Array(0, 0).enumerated() {
            guard let queue else { continue }
            let until = rows.timestampArray(0, 2)[index].map { Timestamp(microseconds: $0) - now }
            found[queue] = (rows.int32Array(0, 1)[index], until)
        }
        // In the order of the hosts: away, back, limited, paused.
        #expect(found[-1]?.count == 0 && (0...3_601).contains(found[-1]?.wait ?? -1))
        #expect(found[-2]?.count == 1 && found[-2]?.wait == nil)
        #expect(found[-3]?.count == 1 && found[-3]?.wait == nil)
        #expect(found[-4]?.count == 0 && (3_600...year).contains(found[-4]?.wait ?? -1))
    }

    @Test("pausing and resuming a host takes effect on its node when the reply arrives")
    func pause() throws {
        // The node gets no notifications, not even its own.
        let node = try TestNode(database.url, leaseSeconds: 300) { $0.listens = false }
        defer { node.store.stop() }
        for _ in 0..<3 {
            for isPaused in [true, false] {
                let patch = try HostPatch(body: JSONView(parsing: Array(#"{"paused":\#(isPaused)}"#.utf8)))
                let host = try wait {
                    node.store.hostCommands.changeHost(
                        "https://example.org:443", patch, if: { _ in true }, reply: $0)
                }.get().get()
                #expect(host.isPaused == isPaused)
                let limit = node.hosts.limit(at: "https://example.org:443", .origin)
                #expect(limit?.isPaused ?? false == isPaused)
                if isPaused { #expect(try node.submit(newJob()).state == .queued) }
            }
            // Resuming the host wakes the waiting job.
            node.end(try node.attempt(), success)
        }
    }
}
