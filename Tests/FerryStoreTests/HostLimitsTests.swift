import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import Testing

@Suite("Limits of hosts")
struct HostLimitsTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("every node learns what limits an origin, and when nothing does any more")
    func board() throws {
        // So long a lease that no heartbeat comes to help.
        let node = try TestNode(database.url, leaseSeconds: 300)
        defer { node.store.stop() }
        #expect(node.hosts.isEmpty)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO hosts (origin, connection_limit, blocked_until) VALUES
                    ('https://limited:443', 3, NULL), ('https://away:443', NULL, now() + '1 hour'),
                    ('https://back:443', NULL, now() - interval '1 hour'), ('https://free:443', NULL, NULL),
                    ('https://paused:443', 3, '9999-12-31T23:59:59Z');
                """)
        try eventually("the limits are known") {
            try connection.execute(script: "NOTIFY ferry, 'hosts'")
            return !node.hosts.isEmpty
        }
        #expect(node.hosts.limit(of: "https://limited:443") == HostLimit(connectionLimit: 3))
        #expect(node.hosts.limit(of: "https://back:443") == nil)
        #expect(node.hosts.limit(of: "https://free:443") == nil)
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        func reason(_ origin: String, _ sessionLimit: Int?) -> String {
            node.hosts.reason(for: origin, sessionLimit: sessionLimit, at: now).code
        }
        #expect(reason("https://away:443", 2) == "host_backoff")
        #expect(reason("https://paused:443", 2) == "host_paused")
        #expect(reason("https://limited:443", nil) == "host_limit")
        #expect(reason("https://limited:443", 2) == "session_limit")
        #expect(reason("https://free:443", 2) == "session_limit")
        #expect(reason("https://free:443", nil) == "no_free_slot")
        try connection.execute(script: "DELETE FROM hosts")
        // What was known may come of a heartbeat: nobody need listen yet.
        try eventually("no limit is left") {
            try connection.execute(script: "NOTIFY ferry, 'hosts'")
            return node.hosts.isEmpty
        }
    }

    @Test("a host that is paused gets nothing from the answer on, and something from the next answer on")
    func pause() throws {
        // It hears nothing, not even of its own changes.
        let node = try TestNode(database.url, leaseSeconds: 300) { $0.listens = false }
        defer { node.store.stop() }
        for _ in 0..<3 {
            for isPaused in [true, false] {
                let patch = try HostPatch(JSON.parse(Array(#"{"paused":\#(isPaused)}"#.utf8)))
                let host = try wait {
                    node.store.control.changeHost(
                        "https://example.org:443", patch, if: { _ in true }, reply: $0)
                }.get().get()
                #expect(host.isPaused == isPaused)
                let limit = node.hosts.limit(of: "https://example.org:443")
                #expect(limit?.isPaused ?? false == isPaused)
                if isPaused { #expect(try node.submit(newJob()).state == .queued) }
            }
            // Whoever lets it go on wakes what waits.
            node.end(try node.attempt(), success)
        }
    }
}
