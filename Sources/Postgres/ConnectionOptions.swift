/// Settings of a session. The defaults are for short statements and short transactions.
public struct ConnectionOptions: Sendable {
    /// Name in `pg_stat_activity`; a name in the URL overrides it.
    public var applicationName = "ferry"
    /// Time to connect to one host. libpq rounds it up to whole seconds, and to two at least.
    public var connectTimeout: Duration = .seconds(5)
    /// Time to wait for the results of a call that sets no timeout of its own.
    public var resultTimeout: Duration = .seconds(60)
    /// Shortens all waits after its `begin()`.
    public var shutdownTimeout: ShutdownTimeout?
    /// Time after which the server cancels a statement (57014); `nil` for no limit.
    public var statementTimeout: Duration? = .seconds(30)
    /// Time after which the server ends a session with an idle open transaction; `nil` for no limit.
    public var idleInTransactionTimeout: Duration? = .seconds(30)
    /// Time for which sent bytes may be unacknowledged before the connection is considered lost (tcp(7)).
    public var tcpUserTimeout: Duration = .seconds(10)
    /// `true` to restrict the planner to index scans and nested loops. Otherwise plans of statements that
    /// were prepared on a small or skewed table are up to 400 times slower.
    public var pinsPlans = false
    /// Further run-time parameters of the session, such as `ferry.shard`.
    public var settings: [Setting] = []

    /// A run-time parameter.
    public struct Setting: Sendable {
        /// Name of the parameter.
        public let name: String
        /// Value of the parameter.
        public let value: String
        /// Creates a setting.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Creates the default options.
    public init() {}

    /// Parameters that are set at the beginning of the session.
    var sessionSettings: [Setting] {
        var all: [Setting] = [
            // With `pinsPlans`, a plan without a usable index has an estimated cost of 10^10, and JIT would
            // compile it.
            Setting("jit", "off"),
            // The server detects a lost client with the same values as the client (`Connecting.swift`), and
            // releases what its session holds. No effect on a local socket.
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
            // Planning these statements for each execution costs more than running them.
            all.append(Setting("plan_cache_mode", "force_generic_plan"))
        }
        return all + settings
    }
}

extension Duration {
    /// Whole milliseconds, rounded up and limited to the range of Int32.
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
