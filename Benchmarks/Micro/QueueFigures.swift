import FerryCore
import FerryStore
import Glibc
import Postgres
import Sys
import TestSupport

/// Costs of a job for the store, in the situations in which queues in PostgreSQL become slow. PostgreSQL is
/// real, without syncs; nothing is transferred. Every figure is a ratio of two that were measured in turn.
enum QueueFigures {
    static let all = ["backlog", "limits", "slots", "nodes", "snapshot", "history"]

    /// `count`: rows of the situation, or its milliseconds or seconds; 0: the figure's own.
    static func print(_ name: String, count: Int) throws {
        switch name {
        case "backlog": try backlog(queued: count > 0 ? count : 1_000_000)
        case "limits": try limits(hostCount: count > 0 ? count : 1_000)
        case "slots": try slots(milliseconds: count > 0 ? Double(count) : 5)
        case "nodes": try nodes(milliseconds: count > 0 ? Double(count) : 20)
        case "snapshot": try snapshot(seconds: count > 0 ? count : 600)
        case "history": try history(finished: count > 0 ? count : 10_000_000)
        default: Swift.print("no such figure: \(name); there are \(all.joined(separator: ", "))")
        }
    }

    // MARK: Many rows queued

    private static let measuredCount = 60_000
    /// The first ones are not measured: a node that starts looks for claim queues, and its caches are cold.
    private static let warmingCount = 10_000
    private static let hostCount = 10_000
    private static let wideQueue = 1_000_000

    private static func backlog(queued: Int) throws {
        var (empty, full): ([Int64], [Int64]) = ([], [])
        for _ in 0..<2 {
            empty.append(try claimed(queued: 0))
            full.append(try claimed(queued: queued))
        }
        report("claim and finish a job, \(queued) more in the queue", full, "none", empty)
    }

    /// Nanoseconds for each job: claims, attempts that succeed at once, results in batches.
    static func claimed(queued: Int) throws -> Int64 {
        let bench = try StoreBench { connection throws(PostgresError) in
            try fill(&connection, count: queued + measuredCount)
        }
        try bench.start()
        let early = bench.wait(warmingCount)
        let begin = monotonicNanoseconds()
        let count = measuredCount - early
        _ = bench.wait(count)
        let nanoseconds = (monotonicNanoseconds() - begin) / Int64(count)
        bench.stop()
        return nanoseconds
    }

    /// Rows as submissions write them, of many hosts, without the submissions. Of those that come later a
    /// tenth waits for a begin date, and the hosts of a third are backed off.
    private static func fill(_ connection: inout Connection, count: Int) throws(PostgresError) {
        try connection.execute(
            script: """
                INSERT INTO claim_queues (id, tenant, session) VALUES (\(wideQueue), 'bench', 'default');
                INSERT INTO claim_queues (id, tenant, session, origin)
                SELECT -1 - h, 'bench', 'default', 'http://host-' || h || '.example:80'
                FROM generate_series(0, \(hostCount - 1), 3) AS h WHERE \(count) > \(measuredCount);
                INSERT INTO hosts (origin) SELECT origin FROM claim_queues WHERE id < 0;
                INSERT INTO host_limits (origin, blocked_until)
                SELECT origin, now() + '1 hour' FROM hosts;
                INSERT INTO jobs (id, created_at, expires_at, priority, kind, state, waiting_for,
                    next_attempt_at, tenant, session, origin, queue, urgency, spec)
                SELECT ('0190' || lpad(to_hex(n), 12, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid, now(),
                    now() + '1 day', 0.5, 'download', state::job_state,
                    CASE WHEN state = 'waiting' THEN 'begin_date' END::waiting_for,
                    CASE WHEN state = 'waiting' THEN now() + '1 hour' END, 'bench', 'default', origin,
                    CASE WHEN host % 3 = 0 THEN -1 - host ELSE \(wideQueue) END, now(),
                    '{"kind":"download","session":"default","request":{"url":"' || origin || '/' || n ||
                    '","method":"GET"},"destination":{"path":"' || n || '","if_exists":"replace"}}'
                FROM (
                    SELECT n, host, 'http://host-' || host || '.example:80' AS origin,
                        CASE WHEN n > \(measuredCount) AND n % 10 = 0 THEN 'waiting' ELSE 'queued' END AS state
                    FROM (
                        SELECT n,
                            CASE WHEN n <= \(measuredCount) AND n % \(hostCount) % 3 = 0 THEN 1 ELSE 0 END
                            + n % \(hostCount) AS host
                        FROM generate_series(1, \(count)) AS n
                    ) AS drawn
                ) AS made;
                INSERT INTO job_counts (shard, queued, waiting)
                SELECT 'bench', count(*) FILTER (WHERE state = 'queued'),
                    count(*) FILTER (WHERE state = 'waiting') FROM jobs;
                ANALYZE jobs; ANALYZE claim_queues; ANALYZE hosts; ANALYZE host_limits;
                """)
    }

    // MARK: Limits

    /// Every host has a limit that never binds, against none.
    private static func limits(hostCount: Int) throws {
        let free = try StoreBench()
        let limited = try StoreBench { connection throws(PostgresError) in
            try connection.execute(
                script: """
                    INSERT INTO hosts (origin)
                    SELECT 'http://host-' || h || '.example:80' FROM generate_series(0, \(hostCount - 1)) AS h;
                    INSERT INTO host_limits (origin, connection_limit) SELECT origin, 1000 FROM hosts;
                    ANALYZE hosts; ANALYZE host_limits;
                    """)
        }
        let rates = try alternate([free, limited], times: 5, jobCount: 10_000, hostCount: hostCount)
        report("submit, claim and finish a job, \(hostCount) hosts limited", rates[1], "none", rates[0])
    }

    // MARK: Slots

    /// Measures the share of sixteen slots that short transfers use: the least time that they could take by
    /// the time they took.
    private static func slots(milliseconds: Double) throws {
        let (slotCount, jobCount) = (16, 8_000)
        let bench = try StoreBench(slots: slotCount, milliseconds: milliseconds)
        try bench.start()
        defer { bench.stop() }
        _ = bench.run(2_000, clientCount: 64)
        let nanoseconds = bench.run(jobCount, clientCount: 64)
        let part = milliseconds * 1e6 / Double(slotCount) / Double(nanoseconds)
        Swift.print("slots: \(slotCount) used to \(percent(part)) by transfers of \(milliseconds) ms")
    }

    // MARK: Nodes

    /// Measures the gain of a second node where transfers wait for the network and both share one database:
    /// jobs each second of two nodes by those of one.
    private static func nodes(milliseconds: Double) throws {
        let (slotCount, jobCount, clientCount) = (16, 4_000, 256)
        let alone = try StoreBench(slots: slotCount, milliseconds: milliseconds)
        let first = try StoreBench(slots: slotCount, milliseconds: milliseconds)
        let second = try StoreBench(slots: slotCount, milliseconds: milliseconds, beside: first)
        for node in [alone, first, second] { try node.start() }
        var (one, two): ([Int64], [Int64]) = ([], [])
        for time in 0...3 {
            let nanoseconds = (
                alone.run(jobCount, clientCount: clientCount), first.run(jobCount, clientCount: clientCount)
            )
            guard time > 0 else { continue }
            one.append(nanoseconds.0)
            two.append(nanoseconds.1)
        }
        for node in [second, first, alone] { node.stop() }
        let ratio = Double(median(one)) / Double(median(two))
        Swift.print(
            "nodes: two of \(slotCount) slots, \(milliseconds) ms a transfer, end \(percent(ratio)) of one's jobs"
        )
    }

    // MARK: Rows that are dead and cannot be removed

    /// Somebody keeps a snapshot open for so long while jobs come and go as fast as they can; in turn with
    /// the same without.
    private static func snapshot(seconds: Int) throws {
        let benches = [try StoreBench(), try StoreBench()]
        for bench in benches {
            try bench.start()
            _ = bench.run(10_000)
        }
        var holder = try Connection(url: benches[1].database.url)
        try holder.execute(script: "SET idle_in_transaction_session_timeout = 0")
        try holder.execute(script: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs;")
        let begin = monotonicNanoseconds()
        var (endedCount, reportCount) = (0, 0)
        var nanoseconds: [[Int64]] = [[], []]
        while reportCount < 10 {
            for (index, bench) in benches.enumerated() { nanoseconds[index].append(bench.run(10_000)) }
            endedCount += 10_000
            let passed = Int((monotonicNanoseconds() - begin) / 1_000_000_000)
            guard passed * 10 >= seconds * (reportCount + 1) else { continue }
            reportCount += 1
            report(
                "submit, claim and finish a job, \(passed) s and \(endedCount) jobs after a snapshot was opened",
                nanoseconds[1], "no snapshot", nanoseconds[0])
            nanoseconds = [[], []]
        }
        try holder.execute(script: "COMMIT")
        for bench in benches { bench.stop() }
    }

    // MARK: History

    private static func history(finished: Int) throws {
        let empty = try StoreBench()
        let full = try StoreBench { connection throws(PostgresError) in
            try fillHistory(&connection, count: finished)
        }
        let rates = try alternate([empty, full], times: 5, jobCount: 10_000)
        report("submit, claim and finish a job, \(finished) in the history", rates[1], "none", rates[0])
    }

    /// Finished jobs of the last week, as finish_jobs.sql writes them.
    private static func fillHistory(
        _ connection: inout Connection, count: Int
    ) throws(PostgresError) {
        try connection.execute(
            script: """
                SET statement_timeout = 0;
                INSERT INTO finished_jobs (id, created_at, started_at, finished_at, node, revision, attempt,
                    failed_attempts, kind, state, tenant, session, origin, spec, response, result)
                SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n), 19, '8'))::uuid, made, made,
                    made, '01900000-0000-7000-8000-000000000000', 2, 1, 0, 'download', 'succeeded', 'bench',
                    'default', 'http://host-1.example:80',
                    '{"request":{"url":"http://host-1.example/' || n || '"},"destination":{"path":"a"}}',
                    '{"status":200,"headers":[]}', '{"path":"a","size":1,"sha256":"ab"}'
                FROM (
                    SELECT n, made, (extract(epoch FROM made) * 1000)::bigint AS ms
                    FROM (
                        SELECT n, now() - '7 days'::interval * (1 - n / \(count).0) AS made
                        FROM generate_series(1, \(count)) AS n
                    ) AS drawn
                ) AS made;
                """)
    }

    // MARK: Pieces

    /// Nanoseconds for each job of every bench, in turn, the first time for warmth.
    private static func alternate(
        _ benches: [StoreBench], times: Int, jobCount: Int, hostCount: Int = 1
    ) throws -> [[Int64]] {
        for bench in benches { try bench.start() }
        var all = benches.map { _ in [Int64]() }
        for time in 0...times {
            for (index, bench) in benches.enumerated() {
                let nanoseconds = bench.run(jobCount, hostCount: hostCount)
                if time > 0 { all[index].append(nanoseconds) }
            }
        }
        for bench in benches { bench.stop() }
        return all
    }

    private static func report(_ what: String, _ values: [Int64], _ other: String, _ others: [Int64]) {
        let (value, base) = (median(values), median(others))
        Swift.print(
            "\(value) ns  store: \(what); \(other): \(base) ns, \(percent(Double(value) / Double(base)))")
        // The next one takes minutes.
        fflush(nil)
    }

    private static func median(_ values: [Int64]) -> Int64 { values.sorted()[values.count / 2] }

    private static func percent(_ part: Double) -> String { "\(Int((part * 100).rounded())) %" }
}
