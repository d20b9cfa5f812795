import Synchronization

/// What limits an origin just now, for all nodes together.
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

    /// What may begin at once: of a rate what comes together in a fiftieth of a second (request_burst in
    /// migrations/0029_request_rates.sql).
    package var countAtOnce: Int? {
        let burst = requestRate.map { Int(max(1, min($0 / 50, 1e6))) }
        return [connectionLimit, burst].compactMap(\.self).min()
    }
}

/// The origins (`scheme://host:port`) whose use is limited, as this node knows them: at most a heartbeat old.
/// Any thread. While there is none, asking costs one load.
package final class HostLimits: Sendable {
    private let hasAny = Atomic<Bool>(false)
    private struct State {
        var limits: [String: HostLimit] = [:]
        /// The latest reading whose answer holds.
        var reading = 0
    }
    private let state = Mutex(State())
    private let readings = Atomic<Int>(0)

    package init() {}

    /// To be called before the limits are read, for `replace`.
    package func beginReading() -> Int { readings.add(1, ordering: .relaxed).newValue }

    package var isEmpty: Bool { !hasAny.load(ordering: .acquiring) }

    /// Nil: the origin is free.
    package func limit(of origin: String) -> HostLimit? {
        guard hasAny.load(ordering: .acquiring) else { return nil }
        return state.withLock { $0.limits[origin] }
    }

    /// What holds from now on, unless a later reading has been answered. Returns whether anything has
    /// changed.
    @discardableResult
    package func replace(_ all: [String: HostLimit], reading: Int) -> Bool {
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
    /// As many transfers use its host as may.
    case hostLimit(Int)
    /// So many transfers begin at its host in a second.
    case hostRate(Double)
    case hostBackoff(until: Timestamp)
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
                (.sessionLimit, "is given \(count) connections of the session, which are in use")
            case .hostLimit(let count):
                (.hostLimit, "is given \(count) connections at once, which are in use")
            case .hostRate(let rate):
                (.hostRate, "is given \(decimalText(rate)) transfers a second")
            case .hostBackoff: (.hostBackoff, "is backed off")
            case .hostPaused: (.hostPaused, "is paused")
            }
        let error = TransferError(
            .hostHeld, "The transfer goes on at \(origin), which \(why).", phase: .connecting,
            isRetryable: true)
        return error.json(heldBy: code)
    }
}

extension HostLimits {
    /// Why nothing may begin at the origin now, whatever runs; nil: it may.
    package func hold(on origin: String, at now: Timestamp) -> HostHold? {
        guard let limit = limit(of: origin) else { return nil }
        if limit.isPaused { return HostHold(origin: origin, reason: .hostPaused) }
        guard let until = limit.blockedUntil, until > now else { return nil }
        return HostHold(origin: origin, reason: .hostBackoff(until: until))
    }

    /// Why a job of this origin waits in the queue, as far as limits tell: what runs is not counted.
    /// `sessionLimit`: connections of its session to one host; nil: no limit.
    package func reason(for origin: String, sessionLimit: Int?, at now: Timestamp) -> QueueReason {
        let limit = limit(of: origin)
        if limit?.isPaused == true { return .hostPaused }
        if let until = limit?.blockedUntil, until > now { return .hostBackoff(until: until) }
        if let rate = limit?.requestRate { return .hostRate(rate) }
        switch (limit?.connectionLimit, sessionLimit) {
        case (let host?, let session?): return host < session ? .hostLimit(host) : .sessionLimit(session)
        case (let host?, nil): return .hostLimit(host)
        case (nil, let session?): return .sessionLimit(session)
        case (nil, nil): return .noFreeSlot
        }
    }
}
