import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Consistency of rows", .onOwnThread)
struct RowCheckTests {
    private static let (one, two) = (
        "'00000000-0000-7000-8000-000000000001'", "'00000000-0000-7000-8000-000000000002'"
    )

    private static func job(_ columns: String, _ values: String, count: String = "queued") -> String {
        """
        INSERT INTO jobs (id, created_at, expires_at, priority, kind, tenant, session, origin, spec, queue,
            urgency, \(columns))
        VALUES (\(one), now(), now(), 0.5, 'data', 'acme', 'default', 'http://a:80', '{}', 1, now(),
            \(values));
        \(countRows(count, 1))
        """
    }

    private static func finished(_ columns: String, _ values: String) -> String {
        """
        INSERT INTO finished_jobs (id, created_at, finished_at, revision, attempt, failed_attempts, kind,
            tenant, session, origin, spec, \(columns))
        VALUES (\(one), now(), now(), 2, 1, 0, 'data', 'acme', 'default', 'http://a:80', '{}', \(values));
        """
    }

    /// Adds a row of the log with the first sequence number and events with details of the lengths.
    private static func events(_ id: String, from first: Int, details: [Int]) -> String {
        let records = details.map { length in
            let size = String(length, radix: 16)
            return String(repeating: "0", count: 72 + 8 - size.count) + size
                + String(repeating: "ff", count: length)
        }
        return """
            INSERT INTO events (id, first_sequence, first_at, last_at, types, tenant, session, packed)
            VALUES (\(id), \(first), now(), now(), 0, 'acme', 'a', '\\x\(records.joined())');
            """
    }

    private struct Told {
        let type: EventType
        let state: JobState
        var attempt = 1
        var second = 0
    }

    /// Adds a row of the log with events of the first job.
    private static func history(_ told: [Told]) -> String {
        let packed = told.map {
            """
            event_pack(\($0.type.code), NULL, \(one), to_timestamp(\($0.second)), \($0.attempt), 1,
                '\($0.state.rawValue)', NULL, NULL)
            """
        }
        return """
            INSERT INTO sessions (tenant, name, last_sequence) VALUES ('acme', 'a', \(told.count));
            INSERT INTO events (id, first_sequence, first_at, last_at, types, tenant, session, packed)
            VALUES (\(two), 1, now(), now(), 0, 'acme', 'a', \(packed.joined(separator: " || ")));
            """
    }

    private static let created = Told(type: .jobCreated, state: .queued, attempt: 0)
    private static let started = Told(type: .jobStarted, state: .running)
    private static let succeeded = Told(type: .jobSucceeded, state: .succeeded)

    private static func session(last: Int) -> String {
        "INSERT INTO sessions (tenant, name, last_sequence) VALUES ('acme', 'a', \(last));"
    }

    private static func delivery(_ columns: String, _ values: String) -> String {
        """
        INSERT INTO deliveries (id, event, sequence, occurred_at, next_try_at, type, tenant, session, url,
            job_json, \(columns))
        VALUES (\(one), \(two), 1, now(), now(), 'job.failed', 'acme', 'a', 'https://a/', '{}', \(values));
        """
    }

    /// `times`: when the group was closed and when it finished.
    static func group(_ times: String) -> String {
        """
        INSERT INTO job_groups (id, created_at, tenant, name, closed_at, finished_at)
        VALUES (\(two), now(), 'acme', 'night', \(times));
        """
    }

    static func groupCounts(_ state: String, _ count: Int) -> String {
        "INSERT INTO job_group_counts (job_group, shard, \(state)) VALUES (\(two), 'test', \(count));"
    }

    static let consistent = [
        group("NULL, NULL") + job("state, job_group", "'queued', \(two)") + groupCounts("queued", 1),
        group("now(), NULL") + job("state, waiting_for", "'waiting', 'dependency'", count: "waiting")
            + "INSERT INTO job_dependencies VALUES (\(two), \(one), 1);",
        "", job("state", "'queued'"),
        "INSERT INTO nodes VALUES (\(two), now(), now(), 1, false, true, false, false, 'a', '0');"
            + job("state, node, attempt, started_at", "'running', \(two), 1, now()", count: "running"),
        finished("state, error", "'failed', '{}'"),
        history([created, started, succeeded]) + finished("state", "'succeeded'"),
        // Of a job that waits, is tried again, and was deleted after its end.
        history([
            Told(type: .jobCreated, state: .waiting, attempt: 0), started,
            Told(type: .jobAttemptFailed, state: .waiting),
            Told(type: .jobFailed, state: .failed, attempt: 2, second: 5),
            Told(type: .jobUnacknowledged, state: .failed, attempt: 2, second: 5),
            Told(type: .jobAcknowledged, state: .failed, attempt: 2, second: 5),
        ]),
        session(last: 304) + events(one, from: 7, details: [0, 300, 0]) + events(two, from: 10, details: [5])
            + events("gen_random_uuid()", from: 11, details: Array(repeating: 1, count: 294)),
        session(last: 8) + events(one, from: 7, details: [0]) + events(two, from: 8, details: [0])
            + """
            UPDATE events SET first_at = now() - interval '1 second', not_before = now()
            WHERE first_sequence = 8;
            """,
    ]

    @Test("rows that keep to all rules are consistent", arguments: consistent)
    func kept(script: String) throws { #expect(try brokenRules(script).isEmpty) }

    static let broken: [(rule: String, script: String)] = [
        ("an unfinished job is waiting", job("state", "'failed'") + countRows("queued", -1)),
        ("an unfinished job is not among", job("state", "'queued'") + finished("state", "'cancelled'")),
        ("a waiting job waits for something", job("state", "'waiting'", count: "waiting")),
        ("a waiting job waits for something", job("state, waiting_for", "'queued', 'retry'")),
        (
            "a running job has a node",
            job("state, attempt, started_at", "'running', 1, now()", count: "running")
        ),
        ("a running job has a node", job("state, node", "'queued', \(two)")),
        ("the node of a job exists", job("state, node, attempt", "'queued', \(two), 1")),
        ("a running job has an attempt", job("state", "'running'", count: "running")),
        ("a job has no more failed attempts", job("state, failed_attempts", "'queued', 1")),
        ("only a job of a node has a requested", job("state, suspend_requested", "'queued', true")),
        ("only a waiting job has a question", job("state, question", "'queued', '{}'")),
        (
            "a queued job is in a claim queue",
            job("state", "'queued'")
                + "INSERT INTO claim_queues (id, tenant, session) VALUES (1, 'acme', 'b');"
        ),
        ("a job that waits for dep", job("state, waiting_for", "'waiting', 'dependency'", count: "waiting")),
        ("a finished job has succeeded", finished("state", "'queued'")),
        ("a failed job has an error", finished("state", "'failed'")),
        (
            "an acknowledged job does not wait",
            finished("state, acknowledged_at", "'cancelled', now()") + """
                INSERT INTO unacknowledged_jobs (job, expires_at, next_look_at, tenant, session, rules)
                VALUES (\(one), now(), now(), 'acme', 'default', '{"by": "client"}');
                """
        ),
        (
            "a job whose upload is abandoned",
            job("state", "'queued'") + """
                INSERT INTO abandoned_uploads (job, created_at, due_at, ends_at, tries, tenant, origin, spec,
                    next_request)
                VALUES (\(one), now(), now(), now(), 0, 'acme', 'http://a:80', '{}', '');
                """
        ),
        (
            "a job knows since which revision",
            job("state, spec_revision", "'queued', 2")
                + "INSERT INTO earlier_specs (job, last_revision, spec) VALUES (\(one), 2, '{}');"
        ),
        (
            "the dependency of a job is unfinished",
            job("state, waiting_for", "'waiting', 'dependency'", count: "waiting")
                + "INSERT INTO job_dependencies VALUES (\(two), \(one));"
        ),
        (
            "a dependency knows that it has",
            job("state", "'queued'") + "INSERT INTO job_dependencies VALUES (\(one), \(two));"
        ),
        ("the counts of unfinished jobs", countRows("suspended", 1) + countRows("waiting", -1)),
        ("the counts of unfinished jobs", countRows("deliveries_pending", 1)),
        (
            "the events of a session have",
            session(last: 10) + events(one, from: 7, details: [0, 300]) + events(two, from: 10, details: [0])
        ),
        (
            "the events of a session show",
            session(last: 8) + events(one, from: 7, details: [0]) + events(two, from: 8, details: [0])
                + "UPDATE events SET first_at = now() - interval '1 second' WHERE first_sequence = 8;"
        ),
        ("a session knows the sequence", session(last: 8) + events(one, from: 7, details: [0, 300, 0])),
        ("a session knows the sequence", events(one, from: 7, details: [0])),
        ("the events of a job begin with", history([started])),
        ("a job is created once", history([created, created])),
        ("a job begins once", history([created, started, started])),
        ("after the end of a job come", history([created, succeeded, started])),
        ("after the end of a job come", history([created, succeeded, succeeded])),
        ("an event has a state", history([created, Told(type: .jobStarted, state: .queued)])),
        (
            "the attempts of a job grow",
            history([
                created, Told(type: .jobAttemptFailed, state: .waiting, attempt: 2),
                Told(type: .jobAttemptFailed, state: .waiting),
            ])
        ),
        (
            "the events of a job are in the order",
            history([Told(type: .jobCreated, state: .queued, attempt: 0, second: 2), started])
        ),
        ("a job whose end was told", history([created, succeeded]) + job("state", "'queued'")),
        (
            "a finished job is as the event",
            history([created, succeeded]) + finished("state", "'cancelled'")
        ),
        (
            "a finished job is as the event",
            history([created, Told(type: .jobSucceeded, state: .succeeded, attempt: 2)])
                + finished("state", "'succeeded'")
        ),
        ("the end of a finished job", history([created, started]) + finished("state", "'succeeded'")),
        (
            "the deliveries of an event",
            delivery("state", "'accepted'") + """
                INSERT INTO deliveries (id, event, sequence, occurred_at, next_try_at, type, tenant, session,
                    url, job_json, state)
                VALUES (\(two), \(two), 1, now(), now(), 'job.failed', 'acme', 'a', 'https://b/', '{"a": 1}',
                    'accepted');
                """
        ),
        ("a delivery that is not pending", delivery("state, node", "'accepted', \(two)")),
        (
            "the counts of the unfinished jobs of a group",
            group("NULL, NULL") + groupCounts("queued", 1)
        ),
        (
            "the counts of the unfinished jobs of a group",
            group("NULL, NULL") + job("state, job_group", "'queued', \(two)")
        ),
        (
            "a finished group has no unfinished jobs",
            group("now(), now()") + job("state, job_group", "'queued', \(two)") + groupCounts("queued", 1)
        ),
        (
            "the group of an unfinished job exists", job("state, job_group", "'queued', \(two)")
        ),
        (
            "the dependency of a job is unfinished",
            group("now(), now()") + job("state, waiting_for", "'waiting', 'dependency'", count: "waiting")
                + "INSERT INTO job_dependencies VALUES (\(two), \(one), 1);"
        ),
        (
            "a try belongs to a delivery",
            "INSERT INTO delivery_tries VALUES (\(one), now(), 1, 1, 204, NULL, '');"
        ),
        (
            "a schedule with a next run",
            """
            INSERT INTO schedules (id, created_at, updated_at, watches_jobs, next_run_at, tenant, definition,
                specs, secrets, payloads)
            VALUES (\(one), now(), now(), false, now(), 'acme', '{}', '{}', '{}', '{}');
            """
        ),
        (
            "limits and connections of a host",
            "INSERT INTO hosts (origin) VALUES ('http://a:80');"
                + "INSERT INTO host_limits (origin, connection_limit) VALUES ('http://a:80', 0);"
        ),
        (
            "limits and connections of a host",
            """
            INSERT INTO connections (job, attempt, count, origin, tenant, session)
            VALUES (\(one), 1, 0, 'http://a:80', 'acme', 'a');
            """
        ),
    ]

    @Test("each rule is reported if a row breaks it", arguments: broken)
    func reported(rule: String, script: String) throws {
        let found = try brokenRules(script)
        #expect(found.contains { $0.rule.hasPrefix(rule) }, "\(found)")
    }

    @Test("every rule of the statement has a row here that breaks it")
    func rules() {
        let texts = Statements.checkRows.sql.matches(of: /(?:\(|SELECT )'([a-z]+ [^']{12,})',/).map(\.1)
        #expect(Set(texts).count == 40)
        for text in texts { #expect(Self.broken.contains { text.hasPrefix($0.rule) }, "\(text)") }
    }

    @Test("the states that events may have are those of the transition table")
    func states() throws {
        let list = try #require(
            Statements.checkRows.sql.firstMatch(of: /\(h\.type, h\.state\) IN \(([^A-Za-z]*)\)\),\n/))
        let found = Set(list.1.matches(of: /\((\d+), (\d+)\)/).map { "\($0.1) \($0.2)" })
        let codes: [JobState] = [.waiting, .queued, .running, .suspended, .succeeded, .failed, .cancelled]
        // The only event without an input, and the failure of a job's last attempt.
        var expected: Set = [
            "\(EventType.jobResumedAtOffset.code) 3", "\(EventType.jobAttemptFailed.code) 6",
        ]
        for before in [nil] + JobState.allCases.map(Optional.some) {
            for input in JobInput.allCases {
                guard let plain = JobTransition(input, from: before) else { continue }
                for (cancels, suspends) in [(false, false), (true, false), (false, true)] {
                    let isStopped = before == .running
                    let transition = plain.after(
                        cancellationRequested: cancels && isStopped,
                        suspensionRequested: suspends && isStopped)
                    guard let event = transition.event, let state = transition.state,
                        let code = codes.firstIndex(of: state)
                    else { continue }
                    expected.insert("\(event.code) \(code + 1)")
                }
            }
        }
        #expect(found == expected)
    }

    /// Checks rows that a transaction has written, and undoes it.
    private func brokenRules(_ script: String) throws -> [BrokenRule] {
        let database = try TestDatabase(template: template)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "BEGIN;" + script)
        let found = try RowCheck.brokenRules(&connection)
        try connection.execute(script: "ROLLBACK")
        return found
    }
}
