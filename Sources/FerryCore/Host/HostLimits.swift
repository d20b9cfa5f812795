import Synchronization

/// Limits of the requests of a scope, for all nodes together.
public struct HostLimit: Sendable, Equatable {
    /// Transfers at once, or `nil` for no limit.
    public var connectionLimit: Int?
    /// Time before which nothing begins, or `nil`.
    public var blockedUntil: Timestamp?
    /// `true` if an operator has paused the host.
    public var isPaused: Bool
    /// Transfers that may begin per second, or `nil` for no limit.
    public var requestRate: Double?

    /// Creates a limit.
    public init(
        connectionLimit: Int? = nil, blockedUntil: Timestamp? = nil, isPaused: Bool = false,
        requestRate: Double? = nil
    ) {
        self.connectionLimit = connectionLimit
        self.blockedUntil = blockedUntil
        self.isPaused = isPaused
        self.requestRate = requestRate
    }

    /// Adds another limit of the same requests, such as of a wider scope: the stricter value of each.
    public mutating func combine(_ other: HostLimit) {
        connectionLimit = [connectionLimit, other.connectionLimit].compactMap(\.self).min()
        blockedUntil = [blockedUntil, other.blockedUntil].compactMap(\.self).max()
        isPaused = isPaused || other.isPaused
        requestRate = [requestRate, other.requestRate].compactMap(\.self).min()
    }

    /// Number of requests that may begin at once, or `nil` for no limit. Of a rate, the requests of a
    /// fiftieth of a second (request_burst in migrations/0001_baseline.sql).
    public var countAtOnce: Int? {
        let burst = requestRate.map { Int(max(1, min($0 / 50, 1e6))) }
        return [connectionLimit, burst].compactMap(\.self).min()
    }
}

/// The limited scopes of requests (`HostScope`), as this node knows them: at most a heartbeat old. May be
/// used on any thread. If there are none, a look-up costs one atomic load.
///
/// No other code decides which limits apply to a request, and how they combine.
public final class HostLimits: Sendable {
    private let hasAny = Atomic<Bool>(false)
    private struct State {
        /// Limits by origin and scope.
        var limits: [String: [HostScope: HostLimit]] = [:]
        /// Number of the reading that the limits are from.
        var reading = 0
    }
    private let state = Mutex(State())
    private let readings = Atomic<Int>(0)

    /// Creates an empty set of limits.
    public init() {}

    /// Returns the number of a reading for `replace`. Call it before the limits are read from the database.
    public func beginReading() -> Int { readings.add(1, ordering: .relaxed).newValue }

    /// `true` if nothing is limited.
    public var isEmpty: Bool { !hasAny.load(ordering: .acquiring) }

    /// Returns the limits of requests of the scope, combined with those of its wider scopes; `nil` if there
    /// are none.
    public func limit(of scope: RequestScope) -> HostLimit? {
        let all = limits(of: scope)
        guard var combined = all.first?.limit else { return nil }
        for (_, limit) in all.dropFirst() { combined.combine(limit) }
        return combined
    }

    /// Returns the widest scope that limits requests of `scope`, or `nil` if none does.
    public func widestLimited(of scope: RequestScope) -> HostScope? { limits(of: scope).first?.scope }

    /// Returns `true` if the path of the scope has a limit of its own.
    public func limitsPath(of scope: RequestScope) -> Bool {
        limits(of: scope).contains { !$0.scope.path.isEmpty }
    }

    /// Returns `true` if a path of the tenant at the origin has a limit of its own.
    public func limitsPaths(tenant: String, origin: String) -> Bool {
        guard hasAny.load(ordering: .acquiring) else { return false }
        return state.withLock { state in
            state.limits[origin]?.keys.contains { $0.tenant == tenant && !$0.path.isEmpty } ?? false
        }
    }

    /// Returns the scope with the same tenant, origin and first path segment whose path has a limit of its
    /// own, whatever its credentials; `nil` if there is none.
    public func limitedScope(like scope: RequestScope) -> RequestScope? {
        guard hasAny.load(ordering: .acquiring) else { return nil }
        let path = state.withLock { state in
            state.limits[scope.origin]?.keys
                .filter { $0.tenant == scope.tenant && !$0.path.isEmpty && $0.segment == scope.scope.segment }
                .map(\.path).min()
        }
        return path.map { RequestScope(tenant: scope.tenant, origin: scope.origin, path: $0) }
    }

    /// Returns the limit of one scope alone, or `nil` if it has none.
    public func limit(at origin: String, _ scope: HostScope) -> HostLimit? {
        guard hasAny.load(ordering: .acquiring) else { return nil }
        return state.withLock { $0.limits[origin]?[scope] }
    }

    /// Returns the limits that apply to requests of the scope, the widest scope first.
    fileprivate func limits(of scope: RequestScope) -> [(scope: HostScope, limit: HostLimit)] {
        guard hasAny.load(ordering: .acquiring) else { return [] }
        return state.withLock { state in
            guard let limits = state.limits[scope.origin] else { return [] }
            return scope.scopes.compactMap { scope in limits[scope].map { (scope, $0) } }
        }
    }

    /// Replaces all limits, by origin and scope, unless a later reading has replaced them. Returns `true` if
    /// anything changed.
    @discardableResult
    public func replace(_ all: [String: [HostScope: HostLimit]], reading: Int) -> Bool {
        state.withLock { state in
            guard reading >= state.reading else { return false }
            state.reading = reading
            guard state.limits != all else { return false }
            state.limits = all
            hasAny.store(!all.isEmpty, ordering: .releasing)
            return true
        }
    }
}

/// Reason for which a queued job does not run.
public enum QueueReason: Sendable, Equatable {
    /// A node claims the job as soon as it has a free slot and the job is next.
    case noFreeSlot
    /// The session has as many connections to the host as it may have.
    case sessionLimit(Int)
    /// Requests of the scope have as many connections as they may have.
    case hostLimit(Int, of: HostScope)
    /// Requests of the scope begin at this rate per second.
    case hostRate(Double, of: HostScope)
    /// No request of the scope begins before this time.
    case hostBackoff(until: Timestamp, of: HostScope)
    /// An operator has paused the host.
    case hostPaused

    /// The code in `waiting_reason`.
    public var code: String {
        switch self {
        case .noFreeSlot: "no_free_slot"
        case .sessionLimit: "session_limit"
        case .hostLimit: "host_limit"
        case .hostRate: "host_rate"
        case .hostBackoff: "host_backoff"
        case .hostPaused: "host_paused"
        }
    }
}

/// A host that an attempt may not use now, with the reason.
public struct HostHold: Sendable, Equatable {
    /// Origin of the host.
    public let origin: String
    /// The reason.
    public let reason: QueueReason

    /// Creates a hold.
    public init(origin: String, reason: QueueReason) {
        self.origin = origin
        self.reason = reason
    }
}

extension HostScope {
    /// Names the requests of the scope after a count: "", " of this tenant", " of this tenant below
    /// /reports".
    public var ofWhom: String { isOrigin ? "" : " of this tenant\(belowPath)" }
    /// Names the requests of the scope after a state: "", " for this tenant", " for this tenant below
    /// /reports".
    public var forWhom: String { isOrigin ? "" : " for this tenant\(belowPath)" }

    private var belowPath: String { path.isEmpty ? "" : " below \(segment)" }

    /// First path segment with its slash, without the hash of the credentials.
    public var segment: String { path.firstIndex(of: "#").map { String(path[..<$0]) } ?? path }
}

extension HostLimits {
    /// Returns why no request of the scope may begin now, whatever the number of running ones; `nil` if
    /// requests may begin.
    public func hold(on scope: RequestScope, at now: Timestamp) -> HostHold? {
        for (holding, limit) in limits(of: scope) {
            if limit.isPaused { return HostHold(origin: scope.origin, reason: .hostPaused) }
            guard let until = limit.blockedUntil, until > now else { continue }
            return HostHold(origin: scope.origin, reason: .hostBackoff(until: until, of: holding))
        }
        return nil
    }

    /// Returns why a job of this scope is queued, from the limits of the host alone, without counting running
    /// jobs. `sessionLimit`: connections that its session may have to one host, or `nil` for no limit;
    /// `sessionCount`: connections that it has to this host, or `nil` if not known. A limit that is not
    /// reached is not the reason.
    public func reason(
        for scope: RequestScope, sessionLimit limit: Int?, sessionCount: Int? = nil, at now: Timestamp
    ) -> QueueReason {
        let sessionLimit = limit.flatMap { sessionCount ?? $0 >= $0 ? $0 : nil }
        let all = limits(of: scope)
        if let hold = hold(on: scope, at: now) { return hold.reason }
        let rates = all.compactMap { limit in limit.limit.requestRate.map { (limit.scope, $0) } }
        if let (scope, rate) = rates.min(by: { $0.1 < $1.1 }) { return .hostRate(rate, of: scope) }
        let counts = all.compactMap { limit in limit.limit.connectionLimit.map { (limit.scope, $0) } }
        guard let (scope, count) = counts.min(by: { $0.1 < $1.1 }) else {
            return sessionLimit.map { .sessionLimit($0) } ?? .noFreeSlot
        }
        if let sessionLimit, sessionLimit <= count { return .sessionLimit(sessionLimit) }
        return .hostLimit(count, of: scope)
    }
}

extension HostHold {
    /// The error of a job that waits for the host: `host_held`, with the code of its `waiting_reason` in
    /// `held_by`.
    public var error: Stored<ErrorRecord> {
        let (code, why): (WaitingReasonCode, String) =
            switch reason {
            case .noFreeSlot: (.hostLimit, "has no connection free")
            case .sessionLimit(let count):
                (.sessionLimit, "gets \(count) connections of the session, which are in use")
            case .hostLimit(let count, let scope):
                (.hostLimit, "gets \(count) connections\(scope.ofWhom), which are in use")
            case .hostRate(let rate, let scope):
                (.hostRate, "gets \(decimalText(rate)) requests per second\(scope.ofWhom)")
            case .hostBackoff(_, let scope): (.hostBackoff, "is backed off\(scope.forWhom)")
            case .hostPaused: (.hostPaused, "is paused by an operator")
            }
        let error = TransferError(
            .hostHeld, "The transfer continues at \(origin), which \(why).", phase: .connecting,
            isRetryable: true)
        return Stored(error, heldBy: code)
    }
}
