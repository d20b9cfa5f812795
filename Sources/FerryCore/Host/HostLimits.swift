import Synchronization

/// What limits the requests of a scope just now, for all nodes together.
package struct HostLimit: Sendable, Equatable {
    /// Transfers at once; nil: no limit.
    package var connectionLimit: Int?
    /// Nothing begins before; nil: no backoff.
    package var blockedUntil: Timestamp?
    /// An operator has paused it: nothing begins until somebody lets it go on.
    package var isPaused: Bool
    /// Transfers begun a second; nil: no limit.
    package var requestRate: Double?

    package init(
        connectionLimit: Int? = nil, blockedUntil: Timestamp? = nil, isPaused: Bool = false,
        requestRate: Double? = nil
    ) {
        self.connectionLimit = connectionLimit
        self.blockedUntil = blockedUntil
        self.isPaused = isPaused
        self.requestRate = requestRate
    }

    /// Adds what limits another scope of the same requests.
    mutating func combine(_ other: HostLimit) {
        connectionLimit = [connectionLimit, other.connectionLimit].compactMap(\.self).min()
        blockedUntil = [blockedUntil, other.blockedUntil].compactMap(\.self).max()
        isPaused = isPaused || other.isPaused
        requestRate = [requestRate, other.requestRate].compactMap(\.self).min()
    }

    /// What may begin at once: of a rate what comes together in a fiftieth of a second (request_burst in
    /// migrations/0029_request_rates.sql).
    package var countAtOnce: Int? {
        let burst = requestRate.map { Int(max(1, min($0 / 50, 1e6))) }
        return [connectionLimit, burst].compactMap(\.self).min()
    }
}

/// The scopes of requests (`HostScope`) that are limited, as this node knows them: at most a heartbeat old.
/// Any thread. While there is none, asking costs one load.
package final class HostLimits: Sendable {
    private let hasAny = Atomic<Bool>(false)
    private struct State {
        /// By origin, then by scope.
        var limits: [String: [HostScope: HostLimit]] = [:]
        /// The latest reading whose answer holds.
        var reading = 0
    }
    private let state = Mutex(State())
    private let readings = Atomic<Int>(0)

    package init() {}

    /// To be called before the limits are read, for `replace`.
    package func beginReading() -> Int { readings.add(1, ordering: .relaxed).newValue }

    package var isEmpty: Bool { !hasAny.load(ordering: .acquiring) }

    /// What limits requests of the scope, all its wider scopes included. `nil` if nothing does.
    package func limit(of scope: RequestScope) -> HostLimit? {
        let all = limits(of: scope)
        guard var combined = all.first?.limit else { return nil }
        for (_, limit) in all.dropFirst() { combined.combine(limit) }
        return combined
    }

    /// The widest scope that limits requests of `scope`.
    package func widestLimited(of scope: RequestScope) -> HostScope? { limits(of: scope).first?.scope }

    /// Whether the path of the scope is limited by itself, apart from its tenant and its origin.
    package func limitsPath(of scope: RequestScope) -> Bool {
        limits(of: scope).contains { !$0.scope.path.isEmpty }
    }

    /// Whether some paths of the tenant at the origin are limited by themselves.
    package func limitsPaths(tenant: String, origin: String) -> Bool {
        guard hasAny.load(ordering: .acquiring) else { return false }
        return state.withLock { state in
            state.limits[origin]?.keys.contains { $0.tenant == tenant && !$0.path.isEmpty } ?? false
        }
    }

    /// The scope with the same tenant, origin and first path segment whose path is limited by itself,
    /// whatever its credentials. `nil` if there is none.
    package func limitedScope(like scope: RequestScope) -> RequestScope? {
        guard hasAny.load(ordering: .acquiring) else { return nil }
        let path = state.withLock { state in
            state.limits[scope.origin]?.keys
                .filter { $0.tenant == scope.tenant && !$0.path.isEmpty && $0.segment == scope.scope.segment }
                .map(\.path).min()
        }
        return path.map { RequestScope(tenant: scope.tenant, origin: scope.origin, path: $0) }
    }

    /// What limits one scope by itself.
    package func limit(at origin: String, _ scope: HostScope) -> HostLimit? {
        guard hasAny.load(ordering: .acquiring) else { return nil }
        return state.withLock { $0.limits[origin]?[scope] }
    }

    /// The limits that hold for requests of the scope, the widest first.
    fileprivate func limits(of scope: RequestScope) -> [(scope: HostScope, limit: HostLimit)] {
        guard hasAny.load(ordering: .acquiring) else { return [] }
        return state.withLock { state in
            guard let limits = state.limits[scope.origin] else { return [] }
            return scope.scopes.compactMap { scope in limits[scope].map { (scope, $0) } }
        }
    }

    /// What holds from now on, by origin and scope, unless a later reading has been answered. Returns whether
    /// anything has changed.
    @discardableResult
    package func replace(_ all: [String: [HostScope: HostLimit]], reading: Int) -> Bool {
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

/// Why a queued job does not run. The code is what `waiting_reason` shows.
package enum QueueReason: Sendable, Equatable {
    /// It is claimed as soon as a node has room, and it is its turn.
    case noFreeSlot
    /// Its session has as many connections to its host as it may.
    case sessionLimit(Int)
    /// Requests of the scope have as many connections as they may.
    case hostLimit(Int, of: HostScope)
    /// So many requests of the scope begin in a second.
    case hostRate(Double, of: HostScope)
    case hostBackoff(until: Timestamp, of: HostScope)
    case hostPaused

    package var code: String {
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

/// A host that an attempt may not use now, and why.
package struct HostHold: Sendable, Equatable {
    package let origin: String
    package let reason: QueueReason

    package init(origin: String, reason: QueueReason) {
        self.origin = origin
        self.reason = reason
    }

    /// The `error` object of a job that waits for that: `host_held`, and in `held_by` what its
    /// `waiting_reason` says meanwhile.
    package var errorJSON: [UInt8] {
        let (code, why): (WaitingReason.Code, String) =
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
        return error.json(heldBy: code)
    }
}

extension HostScope {
    /// Names its requests after a count: "", " of this tenant", " of this tenant below /reports".
    package var ofWhom: String { isOrigin ? "" : " of this tenant\(belowPath)" }
    /// Names its requests after a state: "", " for this tenant", " for this tenant below /reports".
    package var forWhom: String { isOrigin ? "" : " for this tenant\(belowPath)" }

    private var belowPath: String { path.isEmpty ? "" : " below \(segment)" }

    /// The first path segment with its slash, without the hash of the credentials.
    package var segment: String { path.firstIndex(of: "#").map { String(path[..<$0]) } ?? path }
}

extension HostLimits {
    /// Why no request of the scope may begin now, whatever runs. `nil` if it may.
    package func hold(on scope: RequestScope, at now: Timestamp) -> HostHold? {
        for (holding, limit) in limits(of: scope) {
            if limit.isPaused { return HostHold(origin: scope.origin, reason: .hostPaused) }
            guard let until = limit.blockedUntil, until > now else { continue }
            return HostHold(origin: scope.origin, reason: .hostBackoff(until: until, of: holding))
        }
        return nil
    }

    /// Why a job of this scope waits in the queue, as far as limits tell: what runs is not counted.
    /// `sessionLimit`: connections of its session to one host; `nil` if there is no limit.
    package func reason(for scope: RequestScope, sessionLimit: Int?, at now: Timestamp) -> QueueReason {
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
