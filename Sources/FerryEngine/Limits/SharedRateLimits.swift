import FerryCore
import Synchronization
import Sys

/// The limits on speed that transfers share: of the service, of each session, and of each host. Any thread.
///
/// A bucket is shared by reference. A further level of limits needs a further bucket in `Pacing`.
final class SharedRateLimits: Sendable {
    private struct Weak {
        weak var bucket: TokenBucket?
    }
    private struct State {
        var limits = TransferLimits()
        var shares = RateShares()
        var receiving: TokenBucket?
        var sending: TokenBucket?
        var hosts: [String: Weak] = [:]
        /// The limits of sessions, for all nodes together.
        var sessionRates: [SessionKey: Int64] = [:]
        /// This node's shares of `sessionRates`.
        var sessions: [SessionKey: TokenBucket] = [:]
        /// The limits of single origins, for all nodes together.
        var originRates: [String: Int64] = [:]

        /// Returns the limit of a host or an origin on this node.
        func rate(ofHost name: String) -> Int64? {
            let rates = [limits.bytesPerSecondPerHostMax, part(of: originRates[name], for: .host(name))]
            return rates.compactMap(\.self).min()
        }

        /// Returns this node's part of a limit for all nodes together.
        func part(of limit: Int64?, for key: RateKey) -> Int64? {
            limit.map { shares.part(of: $0, for: key) }
        }
    }

    private let state = Mutex(State())
    /// Whether any limit is set. If not, a transfer reads nothing else.
    private let isLimiting = Atomic<Bool>(false)

    /// Returns the limits of a connection of the attempt to `url`; `nil` if none holds. `job`: the job's own
    /// limit. `places`: shared with the attempt's other connections.
    func pacing(
        of attempt: Attempt, at url: WebURL, job: TokenBucket?, places: @autoclosure () -> JobPlaces = .init()
    ) -> Pacing? {
        guard isLimiting.load(ordering: .relaxed) else {
            return job.map { Pacing(places(), job: $0, host: nil, receiving: nil, sending: nil) }
        }
        return state.withLock { state in
            let session =
                state.sessions.isEmpty
                ? nil : state.sessions[SessionKey(tenant: attempt.tenant, name: attempt.spec.session)]
            let host = Self.host(of: url.origin, &state)
            guard (job ?? session ?? host ?? state.receiving ?? state.sending) != nil else { return nil }
            return Pacing(
                places(), job: job, session: session, host: host, receiving: state.receiving,
                sending: state.sending)
        }
    }

    private static func host(of origin: String, _ state: inout State) -> TokenBucket? {
        // An origin with a limit of its own does not share its host's.
        let name = state.originRates[origin] == nil ? hostName(origin) : origin
        guard let rate = state.rate(ofHost: name) else { return nil }
        if let known = state.hosts[name]?.bucket { return known }
        if state.hosts.count >= EngineLimits.pacedHostCountMax {
            state.hosts = state.hosts.filter { $0.value.bucket != nil }
        }
        let bucket = TokenBucket(bytesPerSecond: rate, now: monotonicNanoseconds())
        state.hosts[name] = Weak(bucket: bucket)
        return bucket
    }

    /// `scheme://host:port` without scheme and port.
    private static func hostName(_ origin: String) -> String {
        let host = origin.split(separator: "/").last ?? ""
        return String(host.lastIndex(of: ":").map { host[..<$0] } ?? host)
    }

    /// Sets the limits, and this node's shares of those for all nodes together. Returns `true` if a limit
    /// changed; each transfer then has to ask for its limits again.
    func set(_ limits: TransferLimits, _ shares: RateShares) -> Bool {
        state.withLock { state in
            guard limits != state.limits || shares != state.shares else { return false }
            let now = monotonicNanoseconds()
            var hasChanged = limits != state.limits
            state.limits = limits
            state.shares = shares
            let receiving = state.part(of: limits.bytesReceivedPerSecondMax, for: .received)
            let sending = state.part(of: limits.bytesSentPerSecondMax, for: .sent)
            if Self.adjust(&state.receiving, receiving, now) { hasChanged = true }
            if Self.adjust(&state.sending, sending, now) { hasChanged = true }
            if Self.adjustHosts(&state, now) { hasChanged = true }
            if Self.shareSessions(&state, now) { hasChanged = true }
            noteLimits(state)
            return hasChanged
        }
    }

    /// Returns the most jobs that moved bytes at once under each limit for all nodes together, since the last
    /// call.
    func takeDemand() -> RateDemand {
        guard isLimiting.load(ordering: .relaxed) else { return RateDemand() }
        return state.withLock { state in
            var demand = RateDemand()
            demand[.received] = state.receiving?.takePeak() ?? 0
            demand[.sent] = state.sending?.takePeak() ?? 0
            for (key, bucket) in state.sessions { demand[.session(key)] = bucket.takePeak() }
            for (name, host) in state.hosts where state.originRates[name] != nil {
                demand[.host(name)] = host.bucket?.takePeak() ?? 0
            }
            return demand
        }
    }

    /// Sets the limits of sessions, for all nodes together. Returns `true` if one changed.
    func set(_ rates: [SessionKey: Int64]) -> Bool {
        state.withLock { state in
            guard rates != state.sessionRates else { return false }
            state.sessionRates = rates
            _ = Self.shareSessions(&state, monotonicNanoseconds())
            noteLimits(state)
            return true
        }
    }

    /// Sets the limits of single origins, for all nodes together. Returns `true` if one changed.
    func set(hosts rates: [String: Int64]) -> Bool {
        state.withLock { state in
            guard rates != state.originRates else { return false }
            state.originRates = rates
            _ = Self.adjustHosts(&state, monotonicNanoseconds())
            noteLimits(state)
            return true
        }
    }

    /// Adjusts this node's shares of the sessions' limits. Returns `true` if one changed.
    private static func shareSessions(_ state: inout State, _ now: Int64) -> Bool {
        var hasChanged = state.sessions.count != state.sessionRates.count
        var sessions: [SessionKey: TokenBucket] = [:]
        for (key, rate) in state.sessionRates {
            var bucket = state.sessions[key]
            if adjust(&bucket, state.part(of: rate, for: .session(key)), now) { hasChanged = true }
            sessions[key] = bucket
        }
        state.sessions = sessions
        return hasChanged
    }

    private func noteLimits(_ state: borrowing State) {
        isLimiting.store(
            state.limits != TransferLimits() || !state.sessionRates.isEmpty || !state.originRates.isEmpty,
            ordering: .relaxed)
    }

    private static func adjustHosts(_ state: inout State, _ now: Int64) -> Bool {
        var hasChanged = false
        for (name, host) in state.hosts {
            var bucket = host.bucket
            if bucket != nil, adjust(&bucket, state.rate(ofHost: name), now) { hasChanged = true }
        }
        return hasChanged
    }

    private static func adjust(_ bucket: inout TokenBucket?, _ rate: Int64?, _ now: Int64) -> Bool {
        guard let rate else {
            defer { bucket = nil }
            return bucket != nil
        }
        if let bucket { return bucket.change(bytesPerSecond: rate, now: now) }
        bucket = TokenBucket(bytesPerSecond: rate, now: now)
        return true
    }
}
