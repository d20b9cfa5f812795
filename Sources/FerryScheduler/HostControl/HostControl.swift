package import FerryCore

/// Decides how much one origin gets, of all nodes together: a pure state machine of reports, probes and the clock,
/// kept as JSON in the origin's row.
package struct HostControl: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        case normal, limited
        case backingOff = "backing_off"
        case unreachable
        /// Reached again; the jobs that waited are let go in growing numbers.
        case recovering
        case paused
    }

    /// What holds for the requests of one scope now. Nil: no such limit.
    package struct Limit: Sendable, Equatable {
        /// Attempts at once, of all nodes together.
        package var connectionLimit: Int?
        /// Nothing begins before this.
        package var blockedUntil: Timestamp?
        /// Attempts begun a second, of all nodes together.
        package var requestRate: Double?

        package init(
            connectionLimit: Int? = nil, blockedUntil: Timestamp? = nil, requestRate: Double? = nil
        ) {
            self.connectionLimit = connectionLimit
            self.blockedUntil = blockedUntil
            self.requestRate = requestRate
        }
    }

    /// What an administrator is shown of one scope in trouble.
    package struct ScopeStatus: Sendable, Equatable {
        package let scope: HostScope
        package let state: State
        package let limit: Limit
        package let reason: String
    }

    /// What a node has to do about the host now.
    package struct Errands: Sendable, Equatable {
        /// Connect to the host, and tell `probed` whether that worked.
        package var probes = false
        /// Let so many of its waiting jobs go.
        package var releases = 0
    }

    /// Seconds of the longest hold that a host may ask for.
    package static let holdSecondsMax = 3_600.0
    /// Paths of one tenant, and scopes in all, that are told apart.
    package static let pathCountMax = 64
    package static let scopeCountMax = 512

    package var settings = HostSettings()
    private var breaker = CircuitBreaker()
    /// Of the whole origin, measured over the last ten seconds or more.
    package private(set) var answeredPerSecond: Double?
    package private(set) var bytesPerSecond: Double?

    package init() {}

    // MARK: Limits

    package func limits(at now: Timestamp) -> [HostScope: Limit] { [:] }
    package func state(of scope: HostScope = .origin, at now: Timestamp) -> State { .normal }
    package func reason(of scope: HostScope = .origin, at now: Timestamp) -> String? { nil }
    package func scopes(at now: Timestamp) -> [ScopeStatus] { [] }

    // MARK: Reports

    /// Takes what one node has seen. `reports` and `inFlight` are keyed by narrowest scopes; `inFlight`: attempts
    /// that run now, of all nodes; `jitter`: from 0 to 1.
    package mutating func take(
        _ reports: [HostScope: ScopeReport], by node: NodeID? = nil, inFlight: [HostScope: Int], now: Timestamp,
        jitter: Double
    ) -> [HostDecision] { [] }

    package func isReached(byOthersThan node: NodeID, after instant: Timestamp) -> Bool {
        breaker.isReached(byOthersThan: node, after: instant)
    }

    // MARK: The clock

    package func dueAt(_ now: Timestamp) -> Timestamp? { breaker.dueAt }
    package func isForgettable(at now: Timestamp) -> Bool { false }
    package var unreachableSince: Timestamp? { breaker.unreachableSince }
    package var unreachableCode: TransferError.Code? { breaker.unreachableCode }
    package var nextProbeAt: Timestamp? { breaker.nextProbeAt }
    package var releaseCount: Int { breaker.releaseCount }

    package mutating func errands(at now: Timestamp, mayProbe: Bool = true) -> Errands {
        Errands(probes: mayProbe && breaker.beginProbe(at: now), releases: breaker.release(at: now))
    }
    package mutating func released(_ count: Int, of allowed: Int) { breaker.released(count, of: allowed) }
    package mutating func probed(
        _ code: TransferError.Code?, by node: NodeID? = nil, at now: Timestamp
    ) -> HostDecision? { nil }
    package mutating func stopProbing(at now: Timestamp) { breaker.stopProbing(at: now) }

    // MARK: Operators

    package mutating func configure(
        _ settings: HostSettings, backoffUntil: Timestamp??, now: Timestamp
    ) -> HostDecision? { nil }

    // MARK: JSON

    package var json: [UInt8] { Array("{}".utf8) }
    package init?(json bytes: [UInt8]) { nil }
}
