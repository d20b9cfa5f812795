/// One decision about a host, with the figures that it was based on and a sentence for people. Stored as
/// history.
public struct HostDecision: Sendable, Equatable {
    /// Kind of a decision.
    public enum Kind: String, ShownChoice {
        /// A limit was set, raised, reverted because the increase brought failures or the decrease did not
        /// help, lowered, or removed.
        case limited, raised, reverted, lowered, released
        /// Only the request rate changed.
        case paced
        /// Requests are held; the host became unreachable; the host was reached again.
        case backedOff = "backed_off"
        case unreachable, reachable
        /// An operator changed the settings.
        case configured
    }

    /// Time of the decision.
    public var at: Timestamp
    /// Kind of the decision.
    public var kind: Kind
    /// The requests that the decision is about.
    public var scope: HostScope
    /// Attempts at once before and after; `nil` if there is no limit.
    public var limitBefore: Int?
    public var limitAfter: Int?
    /// Attempts of the scope in flight.
    public var inFlight: Int?
    /// Throughput of the whole origin, or `nil` if it has not been measured.
    public var answeredPerSecond: Double?
    public var bytesPerSecond: Double?
    /// Attempts that were throttled, and lost, in the evidence.
    public var throttled: Int
    public var lost: Int
    /// Request rate before and after, in attempts per second; `nil` if there is no limit.
    public var rateBefore: Double?
    public var rateAfter: Double?
    /// The decision in words.
    public var sentence: String

    /// Creates a decision.
    public init(
        at: Timestamp, kind: Kind, scope: HostScope = .origin, limitBefore: Int?, limitAfter: Int?,
        inFlight: Int? = nil, answeredPerSecond: Double? = nil, bytesPerSecond: Double? = nil,
        throttled: Int = 0, lost: Int = 0, rateBefore: Double? = nil, rateAfter: Double? = nil,
        sentence: String
    ) {
        self.at = at
        self.kind = kind
        self.scope = scope
        self.limitBefore = limitBefore
        self.limitAfter = limitAfter
        self.inFlight = inFlight
        self.answeredPerSecond = answeredPerSecond
        self.bytesPerSecond = bytesPerSecond
        self.throttled = throttled
        self.lost = lost
        self.rateBefore = rateBefore
        self.rateAfter = rateAfter
        self.sentence = sentence
    }

    /// The decision as JSON, as stored and as shown to administrators.
    public var json: [UInt8] { shown(reservingCapacity: 320) }
}

extension HostDecision: ShownObject {
    public static let summary = "A decision about a host, with the figures that it is based on."
    public static let schemaName = "HostDecision"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("at", \.at, "Time of the decision.")
        list.member(
            "kind", \.kind,
            "Kind of the decision. limited, raised, reverted, lowered, released: the connection limit was "
                + "set, raised, taken back, lowered or removed. paced: only the request rate changed. "
                + "backed_off: requests are held. unreachable, reachable: the host was lost or reached "
                + "again. configured: an operator changed the settings.")
        list.member(
            "tenant", { $0.scope.tenant.isEmpty ? nil : $0.scope.tenant },
            "Tenant whose requests the decision is about; null means all tenants.")
        list.member(
            "path", { $0.scope.path.isEmpty ? nil : $0.scope.path },
            "Path whose requests the decision is about; null means all paths.")
        list.member("limit_before", \.limitBefore, "Limit before the decision; null means none.")
        list.member("limit_after", \.limitAfter, "Limit after the decision; null means none.")
        list.member("in_flight", \.inFlight, "Requests of the scope in progress, or null if not known.")
        list.member(
            "jobs_per_second", \.answeredPerSecond,
            "Answered attempts per second of the whole host, or null if not measured.")
        list.member(
            "bytes_per_second", \.bytesPerSecond,
            "Bytes per second of the whole host, or null if not measured.")
        list.member("throttled", \.throttled, "Number of attempts that got 429 or 503.")
        list.member("lost", \.lost, "Number of attempts that got 408, 502, 504 or no complete response.")
        // Not required: stored decisions of earlier versions have no rates.
        list.optional(
            "request_rate_before", { .some($0.rateBefore) },
            "Requests per second before the decision; null means no limit.")
        list.optional(
            "request_rate_after", { .some($0.rateAfter) },
            "Requests per second after the decision; null means no limit.")
        list.member("sentence", \.sentence, "The decision as a sentence.")
    }
}
