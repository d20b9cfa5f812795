/// How a session is set up. The defaults suit a lane: short statements, nothing left open.
package struct ConnectionOptions: Sendable {
    /// Shown in `pg_stat_activity`; a URL that names one wins.
    package var applicationName = "ferry"
    /// The time to reach one host; libpq counts whole seconds and at least two.
    package var connectTimeout: Duration = .seconds(5)
    /// How long a call waits for its answer that does not say so itself.
    package var answerTimeout: Duration = .seconds(60)
    /// Shortens these waits once it has begun.
    package var impatience: ShutdownTimeout?
    /// The server ends a statement that takes longer (57014). nil: never.
    package var statementTimeout: Duration? = .seconds(30)
    /// The server ends a session that leaves a transaction open for longer. nil: never.
    package var idleInTransactionTimeout: Duration? = .seconds(30)
    /// How long sent bytes may stay unacknowledged before a dead peer is noticed (tcp(7)).
    package var tcpUserTimeout: Duration = .seconds(10)
    /// Holds the planner to index scans and nested loops. Plans of statements that were prepared on a young
    /// or skewed table are otherwise up to 400 times slower.
    package var pinsPlans = false
    /// Further settings of the session, such as `ferry.shard`.
    package var settings: [Setting] = []

    /// One run-time parameter.
    package struct Setting: Sendable {
        package let name: String
        package let value: String
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package init() {}

    /// What is set once the session is there.
    var sessionSettings: [Setting] {
        var all: [Setting] = [
            // A pinned plan that has no index to use costs 10^10, and would be compiled first.
            Setting("jit", "off"),
            // A host that vanished leaves its sessions to the server, with what they hold. As the client's
            // own (`Connecting`); nothing on a local socket.
            Setting("tcp_keepalives_idle", "10"), Setting("tcp_keepalives_interval", "5"),
            Setting("tcp_keepalives_count", "3"),
            Setting("tcp_user_timeout", String(tcpUserTimeout.milliseconds)),
        ]
        if let statementTimeout {
            all.append(Setting("statement_timeout", String(statementTimeout.milliseconds)))
        }
        if let idleInTransactionTimeout {
            all.append(
                Setting("idle_in_transaction_session_timeout", String(idleInTransactionTimeout.milliseconds)))
        }
        if pinsPlans {
            for kind in ["seqscan", "sort", "bitmapscan", "hashjoin", "mergejoin"] {
                all.append(Setting("enable_\(kind)", "off"))
            }
            // Planning a statement anew costs more than running it.
            all.append(Setting("plan_cache_mode", "force_generic_plan"))
        }
        return all + settings
    }
}

extension Duration {
    /// Whole milliseconds, rounded up; at most what fits into an Int32.
    var milliseconds: Int32 {
        let (seconds, attoseconds) = components
        guard seconds < Int64(Int32.max) / 1000 else { return Int32.max }
        return Int32(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        guard seconds < Int64.max / 2_000_000_000 else { return Int64.max / 2 }
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
