import Postgres
import Sys
import TestSupport
import Testing

@Suite("Pipelines")
struct PipelineTests {
    let database: TestDatabase
    static let one = Statement("one", "SELECT 1::int4")
    static let insert = Statement("insert", "INSERT INTO t VALUES ($1::int4)", parameters: 1)
    static let count = Statement("count", "SELECT count(*) FROM t")

    init() throws {
        database = try TestDatabase()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE TABLE t (n integer CONSTRAINT t_n_positive CHECK (n > 0));
                ALTER TABLE t ADD CONSTRAINT t_n_unique UNIQUE (n) DEFERRABLE INITIALLY DEFERRED;
                """)
    }

    static func number(_ value: Int32) -> Parameters {
        var parameters = Parameters()
        parameters.append(int32: value)
        return parameters
    }

    @Test("results come in the order of the statements")
    func order() throws {
        var connection = try Connection(url: database.url)
        for _ in 0..<2 {
            var results = try connection.pipeline { pipeline in
                pipeline.send(Self.one)
                pipeline.send(Statement("two", "SELECT 2::int4"))
                pipeline.send(Self.one)
            }
            #expect(results.count == 3)
            let second = results.take(1)
            let first = results.take(0)
            #expect(first.int32(0, 0) == 1 && second.int32(0, 0) == 2)
        }
    }

    @Test("one failing statement undoes the whole pipeline and leaves the connection usable")
    func failure() throws {
        var connection = try Connection(url: database.url)
        do {
            _ = try connection.pipeline { pipeline in
                pipeline.send(Self.insert, Self.number(1))
                pipeline.send(Self.insert, Self.number(-1))
                pipeline.send(Self.insert, Self.number(2))
            }
            Issue.record("the check constraint did not fail")
        } catch {
            #expect(error.sqlState == "23514" && error.constraint == "t_n_positive")
            #expect(error.statement == "insert" && !error.isConnectionLost)
        }
        let result = try connection.execute(Self.count)
        #expect(result.int64(0, 0) == 0)
        _ = try connection.execute(Self.insert, Self.number(3))
        let again = try connection.execute(Self.count)
        #expect(again.int64(0, 0) == 1)
    }

    @Test("an error of the commit is thrown")
    func failingCommit() throws {
        var connection = try Connection(url: database.url)
        do {
            _ = try connection.pipeline { pipeline in
                pipeline.send(Self.insert, Self.number(1))
                pipeline.send(Self.insert, Self.number(1))
            }
            Issue.record("the deferred constraint did not fail")
        } catch {
            #expect(error.sqlState == "23505" && error.constraint == "t_n_unique")
        }
        let result = try connection.execute(Self.count)
        #expect(result.int64(0, 0) == 0)
    }

    @Test("a statement that could not be prepared is prepared again later")
    func failingPreparation() throws {
        var connection = try Connection(url: database.url)
        let late = Statement("late", "SELECT n FROM later")
        for _ in 0..<2 {
            do {
                _ = try connection.pipeline { pipeline in
                    pipeline.send(late)
                    pipeline.send(Statement("never", "SELECT 5"))
                }
                Issue.record("there is no such table")
            } catch {
                #expect(error.sqlState == "42P01" && error.statement == "late")
            }
        }
        try connection.execute(script: "CREATE TABLE later AS SELECT 7 AS n")
        let result = try connection.execute(late)
        #expect(result.int32(0, 0) == 7)
    }

    @Test("large volumes in both directions at once do not block each other")
    func largeVolumes() throws {
        var connection = try Connection(url: database.url)
        let echo = Statement("echo_bytes", "SELECT $1::bytea", parameters: 1)
        let megabytes = [UInt8](repeating: 7, count: 2 << 20)
        var parameters = Parameters()
        parameters.append(bytea: megabytes)
        var results = try connection.pipeline(timeout: .seconds(300)) { pipeline in
            for _ in 0..<20 { pipeline.send(echo, parameters) }
        }
        #expect(results.count == 20)
        let last = results.take(19)
        let received = last.bytes(0, 0)
        #expect(received == megabytes)
    }

    @Test("a timeout closes the connection and is thrown at once")
    func deadline() throws {
        var connection = try Connection(url: database.url)
        let start = Sys.monotonicNanoseconds()
        do {
            _ = try connection.execute(Statement("sleep", "SELECT pg_sleep(600)"), timeout: .milliseconds(50))
            Issue.record("the deadline did not pass")
        } catch {
            #expect(error.kind == .timedOut && error.isConnectionLost)
        }
        #expect(Sys.monotonicNanoseconds() - start < 60_000_000_000)
        #expect(connection.isOpen == false)
        do {
            _ = try connection.ping()
            Issue.record("a closed connection answered")
        } catch {
            #expect(error.kind == .connectionLost)
        }
    }

    @Test("a timeout after a statement's error closes the connection")
    func deadlineAfterError() throws {
        var connection = try Connection(url: database.url)
        let echo = Statement("echo_bytes", "SELECT length($1::bytea)", parameters: 1)
        var large = Parameters()
        large.append(bytea: [UInt8](repeating: 7, count: 24 << 20))
        // Until everything is sent, the server sends only the error of the first statement.
        for milliseconds in [4, 8, 16] {
            if !connection.isOpen { connection = try Connection(url: database.url) }
            #expect(throws: PostgresError.self) {
                _ = try connection.pipeline(timeout: .milliseconds(milliseconds)) { pipeline in
                    pipeline.send(Statement("wrong", "SELECT 1 / 0"))
                    pipeline.send(echo, large)
                }
            }
            guard connection.isOpen else { continue }
            var results = try connection.pipeline { pipeline in
                pipeline.send(Statement("one", "SELECT 1::bigint"))
                pipeline.send(Statement("two", "SELECT 2::bigint"))
            }
            try #require(results.count == 2, "it is out of step")
            #expect(results.take(0).int64(0, 0) == 1 && results.take(1).int64(0, 0) == 2)
        }
    }

    @Test("statement_timeout fails the statement and keeps the connection")
    func statementTimeout() throws {
        var options = ConnectionOptions()
        // Longer than stalls of the statements that connect and check the connection.
        options.statementTimeout = .seconds(2)
        var connection = try Connection(url: database.url, options: options)
        do {
            _ = try connection.execute(Statement("sleep", "SELECT pg_sleep(20)"))
            Issue.record("the statement was not stopped")
        } catch {
            #expect(error.sqlState == "57014" && error.isShortage && !error.isConnectionLost)
        }
        _ = try connection.ping(timeout: .seconds(60))
    }

    @Test("U+0000 in a text fails the statement and keeps the connection")
    func zeroByte() throws {
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.append(text: "a\0b")
        do {
            _ = try connection.execute(Statement("text", "SELECT $1::text", parameters: 1), parameters)
            Issue.record("the text was accepted")
        } catch {
            #expect(error.sqlState == "22021")
        }
        _ = try connection.ping(timeout: .seconds(60))
    }

    @Test("a result type changed by a migration leads to a reconnection")
    func staleStatement() throws {
        let reconnecting = ReconnectingConnection(url: database.url)
        let all = Statement("all_of_t", "SELECT * FROM t")
        try reconnecting.withConnection { connection throws(PostgresError) in
            _ = try connection.execute(all)
            try connection.execute(script: "ALTER TABLE t ADD COLUMN m integer")
        }
        #expect(throws: PostgresError.self) {
            try reconnecting.withConnection { connection throws(PostgresError) in
                _ = try connection.execute(all)
            }
        }
        try reconnecting.withConnection { connection throws(PostgresError) in
            let result = try connection.execute(all)
            #expect(result.columnCount == 2)
        }
    }

    @Test("an unprepared statement gets a custom plan whatever the session's setting")
    func plannedAnew() throws {
        var options = ConnectionOptions()
        options.pinsPlans = true
        options.settings.append(.init("enable_seqscan", "off"))
        var connection = try Connection(url: database.url, options: options)
        try connection.execute(
            script: """
                CREATE TABLE log (id integer PRIMARY KEY, tenant text, session text);
                INSERT INTO log SELECT n, 'a', 'busy' FROM generate_series(1, 20000) n;
                INSERT INTO log VALUES (0, 'a', 'quiet');
                CREATE INDEX log_session ON log (tenant, session, id);
                ANALYZE log;
                """)
        let list = Statement(
            "list_log",
            """
            SELECT id FROM log WHERE tenant = $1 AND ($2::text IS NULL OR session = $2)
            ORDER BY id DESC LIMIT 8
            """, parameters: 2, usesCustomPlan: true)
        var parameters = Parameters()
        parameters.append(text: "a")
        parameters.append(text: "quiet")
        let rows = try connection.execute(list, parameters)
        #expect(rows.rowCount == 1)
        let flush = Statement("flush", "SELECT pg_stat_force_next_flush() IS NULL")
        _ = try connection.execute(flush)
        let reads = try connection.execute(
            Statement(
                "reads",
                "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'log_session'"))
        #expect(reads.int64(0, 0) >= 1, "not through all rows of the others")
        let setting = try connection.execute(
            Statement("setting", "SELECT current_setting('plan_cache_mode')"))
        #expect(setting.text(0, 0) == "force_generic_plan", "only for that transaction")
    }
}
