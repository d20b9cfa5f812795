/// A host for operators: the state of an origin and its settings.
public struct HostRecord: Sendable {
    /// Reason for which a host is not `normal`.
    public struct Reason: Sendable, Equatable {
        /// Stable code.
        public var code: String
        /// One sentence for people.
        public var detail: String
        /// Creates a reason.
        public init(code: String, detail: String) {
            self.code = code
            self.detail = detail
        }
    }

    /// `scheme://host:port`.
    public var origin: String
    /// State of the whole origin.
    public var state: HostState
    /// Reason for which the state is not `normal`; `nil` if it is.
    public var reason: Reason?
    /// Transfers at once on all nodes, or `nil` for no limit.
    public var connectionLimit: Int?
    /// Transfers that begin per second on all nodes, or `nil` for no limit.
    public var requestRateLimit: Double?
    /// Transfers that run on all nodes.
    public var inFlight = 0
    /// End of a hold, or `nil`.
    public var backoffUntil: Timestamp?
    /// Time since which the host cannot be reached, or `nil`.
    public var unreachableSince: Timestamp?
    /// Time of the next probe, or `nil`.
    public var nextProbeAt: Timestamp?
    /// Throughput of the last measurement, or `nil` before the first.
    public var jobsPerSecond: Double?
    public var bytesPerSecond: Double?
    /// Settings of operators; `nil` if not set.
    public var connectionsMin: Int?
    public var connectionsMax: Int?
    public var isPaused = false
    public var bytesPerSecondMax: Int64?
    public var requestsPerSecondMax: Double?
    /// The tenants and paths of tenants whose requests are limited by themselves.
    public var scopes: [Scope] = []
    /// Decisions as JSON objects, the newest first.
    public var decisions: [[UInt8]] = []

    /// A limited scope; the limits are like those of the host.
    public struct Scope: Sendable, Equatable {
        /// Tenant.
        public let tenant: String
        /// First path segment and hash of the credentials, or `nil` for all paths of the tenant.
        public let path: String?
        /// `limited` or `backingOff`.
        public let state: HostState
        /// One sentence for people.
        public let detail: String
        /// Limits, or `nil`.
        public let connectionLimit: Int?
        public let requestRateLimit: Double?
        public let backoffUntil: Timestamp?

        /// Creates a scope.
        public init(
            tenant: String, path: String?, state: HostState, detail: String, connectionLimit: Int?,
            requestRateLimit: Double?, backoffUntil: Timestamp?
        ) {
            self.tenant = tenant
            self.path = path
            self.state = state
            self.detail = detail
            self.connectionLimit = connectionLimit
            self.requestRateLimit = requestRateLimit
            self.backoffUntil = backoffUntil
        }
    }

    /// Creates a record without limits.
    public init(origin: String, state: HostState) {
        self.origin = origin
        self.state = state
    }

    /// The members that a `HostPatch` can change, as JSON.
    public var changeable: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.memberOrNull("minimum_connections", connectionsMin)
        writer.memberOrNull("maximum_connections", connectionsMax)
        writer.member("paused", isPaused)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
        writer.memberOrNull("max_requests_per_second", requestsPerSecondMax)
        writer.memberOrNull("backoff_until", backoffUntil)
        writer.endObject()
        return writer.bytes
    }

}

/// State of a host or of a scope of its requests.
public enum HostState: String, ShownChoice {
    case normal, limited
    case backingOff = "backing_off"
    case unreachable
    /// Reachable again; the waiting jobs are released in growing numbers.
    case recovering
    case paused
}

extension HostRecord: ShownObject {
    public static let summary = "State and settings of an origin."
    public static let schemaName = "Host"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("host", \.origin, "The origin: scheme://host:port.")
        list.member("state", \.state, "State of the whole host.")
        list.member("reason", \.reason, "Why the state is not normal, or null if it is.")
        list.member(
            "connection_limit", \.connectionLimit,
            "Transfers at once on all nodes; null means no limit.")
        list.member(
            "request_rate_limit", \.requestRateLimit,
            "Transfers begun per second, of all nodes together; null means no limit.")
        list.member("in_flight", \.inFlight, "Transfers that run with the host, of all nodes together.")
        list.member("backoff_until", \.backoffUntil, "Time before which no job begins, or null.")
        list.member(
            "unreachable_since", \.unreachableSince, "Time since which the host cannot be reached, or null.")
        list.member("next_probe_at", \.nextProbeAt, "Time of the next probe, or null.")
        list.object(
            "throughput", named: "HostThroughput", "Throughput of the host in its last measurement."
        ) { list in
            list.member(
                "jobs_per_second", \.jobsPerSecond, "Answered attempts per second, or null if not measured.")
            list.member("bytes_per_second", \.bytesPerSecond, "Bytes per second, or null if not measured.")
        }
        list.member(
            "minimum_connections", \.connectionsMin,
            "Setting: connections that the host always gets, or null if not set.")
        list.member(
            "maximum_connections", \.connectionsMax,
            "Setting: connections in use at once, of all nodes together, or null if not set.")
        list.member("paused", \.isPaused, "Setting: true if no job begins at the host.")
        list.member(
            "max_bytes_per_second", \.bytesPerSecondMax,
            "Setting: bytes per second in both directions, of all nodes together, or null if not set.")
        list.member(
            "max_requests_per_second", \.requestsPerSecondMax,
            "Setting: attempts begun per second, of all nodes together, or null if not set.")
        list.member("scopes", \.scopes, "Tenants, and paths of tenants, with a limit of their own.")
        list.member(
            "decisions", { $0.decisions.map(StoredJSON<HostDecision>.init) },
            "Latest decisions, newest first: 3 in lists, 50 of one host.")
    }
}

extension HostRecord.Reason: ShownObject {
    public static let summary = "Why a host is not in the state normal."
    public static let schemaName = "HostReason"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("code", \.code, "Stable code of the reason.")
        list.member("detail", \.detail, "The reason as a sentence.")
    }
}

extension HostRecord.Scope: ShownObject {
    public static let summary = "Limits of the requests of one tenant, or of one path of a tenant."
    public static let schemaName = "HostScope"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("tenant", \.tenant, "Tenant whose requests are limited.")
        list.member(
            "path", \.path,
            "First path segment of the URL, followed by # and a hash of the credentials if there are some; "
                + "null means all paths of the tenant.")
        list.member("state", \.state.rawValue, "State of the scope.", [.choices(["limited", "backing_off"])])
        list.member("detail", \.detail, "Why the scope is limited, as a sentence.")
        list.member(
            "connection_limit", \.connectionLimit,
            "Requests at once on all nodes; null means no limit.")
        list.member(
            "request_rate_limit", \.requestRateLimit,
            "Requests begun per second, of all nodes together; null means no limit.")
        list.member("backoff_until", \.backoffUntil, "Time before which no request begins, or null.")
    }
}

/// Changes of an operator to a host, as a merge patch (RFC 7396). `nil` leaves a value; an inner `nil`
/// removes it.
public struct HostPatch: FieldObject {
    public static let summary =
        "A merge patch (RFC 7396) of an operator's settings: absent fields stay, null removes a setting."
    public static let schemaName = "HostPatch"

    /// Settings, as in `HostRecord`.
    public var connectionsMin: Int??
    public var connectionsMax: Int??
    public var isPaused: Bool?
    public var bytesPerSecondMax: Int64??
    public var requestsPerSecondMax: Double??
    public var backoffUntil: Timestamp??

    /// Creates a patch that changes nothing.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        // More connections than a node can have.
        let counts = 1...1_000_000
        Self.field(
            &visitor, "minimum_connections", &connectionsMin, counts, .plain,
            "Least number of transfers at once on all nodes together that the host is given.")
        Self.field(
            &visitor, "maximum_connections", &connectionsMax, counts, .plain,
            "Largest number of transfers at once on all nodes together; not below minimum_connections.")
        var paused = isPaused.map(Optional.some)
        Self.field(
            &visitor, "paused", &paused, NoRule(), .plain, "Whether no transfers to the host begin.")
        isPaused = paused.map { $0 ?? false }
        Self.field(
            &visitor, "max_bytes_per_second", &bytesPerSecondMax, 1...JSON.safeIntegerMax,
            .of(unit: .bytesPerSecond), "Rate of all nodes together, both directions together.")
        Self.field(
            &visitor, "max_requests_per_second", &requestsPerSecondMax, 0.001...1_000_000, .plain,
            "Transfers that begin per second on all nodes together; further connections of a transfer count "
                + "as well.")
        Self.field(
            &visitor, "backoff_until", &backoffUntil, NoRule(), .plain,
            "Time before which no transfer begins; null ends a hold.")
    }

    /// Declares a setting that may be removed.
    private static func field<Value: FieldValue>(
        _ visitor: inout some FieldVisitor, _ name: String, _ value: inout Value??, _ rule: Value.Rule,
        _ traits: FieldTraits, _ text: String
    ) {
        var change = Change(value: value)
        visitor.field(name, &change, rule, traits, text)
        value = change.value
    }

    /// Change of a setting: `nil` leaves it; an inner `nil` removes it.
    private struct Change<Value: FieldValue>: FieldValue {
        var value: Value??

        static var isNullable: Bool { true }
        static func decode(_ json: JSONView, _ rule: Value.Rule, _ place: FieldPlace) -> Self? {
            Value?.decode(json, rule, place).map { Self(value: .some($0)) }
        }
        static func restore(_ json: JSON) -> Self? { Value?.restore(json).map { Self(value: .some($0)) } }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) {
            (value ?? nil).encode(into: &writer, isRedacted: isRedacted)
        }
        static func schema(_ rule: Value.Rule) -> [JSON.Member] { Value.schema(rule) }
    }

    /// Returns the error of a minimum above the maximum.
    public static func invalidBounds() -> InvalidFields {
        InvalidFields(
            "#/minimum_connections", "invalid_combination", "This must not be above maximum_connections.")
    }
}
