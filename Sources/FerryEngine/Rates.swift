import FerryCore
import Synchronization
import Sys

/// The limits that transfers share: of the service, of each session, and of each host. Any thread.
///
/// A bucket is shared by reference; whoever adds a level (a tenant's) adds a bucket to `Pacing`.
final class Rates: Sendable {
    private struct Weak {
        weak var bucket: TokenBucket?
    }
    private struct State {
        var limits = TransferLimits()
        var workerCount = 1
        var receiving: TokenBucket?
        var sending: TokenBucket?
        var hosts: [String: Weak] = [:]
        /// Of all nodes together.
        var sessionRates: [SessionKey: Int64] = [:]
        /// This node's shares of them.
        var sessions: [SessionKey: TokenBucket] = [:]
        /// Of single origins, all nodes together.
        var originRates: [String: Int64] = [:]

        /// Of a host on this node. `own`: what all nodes together may.
        func rate(of own: Int64?) -> Int64? {
            let rates = [
                limits.bytesPerSecondPerHostMax, Rates.share(own, of: workerCount),
            ]
            return rates.compactMap(\.self).min()
        }
    }

    private let state = Mutex(State())
    /// Whether any is set: all that a transfer looks at otherwise.
    private let isLimiting = Atomic<Bool>(false)

    /// Nil when nothing limits a transfer of the attempt there. `job`: its own limit.
    func pacing(of attempt: Attempt, at url: WebURL, job: TokenBucket?) -> Pacing? {
        guard isLimiting.load(ordering: .relaxed) else {
            return job.map { Pacing(job: $0, host: nil, receiving: nil, sending: nil) }
        }
        return state.withLock { state in
            let session =
                state.sessions.isEmpty
                ? nil : state.sessions[SessionKey(tenant: attempt.tenant, name: attempt.spec.session)]
            return Pacing(
                job: job, session: session, host: Self.host(of: url.origin, &state),
                receiving: state.receiving,
                sending: state.sending)
        }
    }

    private static func host(of origin: String, _ state: inout State) -> TokenBucket? {
        let own = state.originRates[origin]
        guard let rate = state.rate(of: own) else { return nil }
        // One with a rate of its own shares with nobody.
        let name = own == nil ? hostName(origin) : origin
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

    /// Sets the limits, of which this node has the part of one of `workerCount` workers. True when that
    /// changed something: every transfer has to look anew.
    func set(_ limits: TransferLimits, workerCount: Int) -> Bool {
        state.withLock { state in
            guard limits != state.limits || workerCount != state.workerCount else { return false }
            let now = monotonicNanoseconds()
            state.limits = limits
            state.workerCount = workerCount
            let share = { Self.share($0, of: workerCount) }
            state.receiving = Self.adjust(state.receiving, share(limits.bytesReceivedPerSecondMax), now)
            state.sending = Self.adjust(state.sending, share(limits.bytesSentPerSecondMax), now)
            adjustHosts(&state, now)
            Self.shareSessions(&state, now)
            noteLimits(state)
            return true
        }
    }

    /// Sets the limits of sessions, of all nodes together. True when that changed something.
    func set(_ rates: [SessionKey: Int64]) -> Bool {
        state.withLock { state in
            guard rates != state.sessionRates else { return false }
            state.sessionRates = rates
            Self.shareSessions(&state, monotonicNanoseconds())
            noteLimits(state)
            return true
        }
    }

    /// Sets the rates of single origins, shared as the others. True when that changed something.
    func set(hosts rates: [String: Int64]) -> Bool {
        state.withLock { state in
            guard rates != state.originRates else { return false }
            state.originRates = rates
            adjustHosts(&state, monotonicNanoseconds())
            noteLimits(state)
            return true
        }
    }

    private static func shareSessions(_ state: inout State, _ now: Int64) {
        var sessions: [SessionKey: TokenBucket] = [:]
        for (key, rate) in state.sessionRates {
            sessions[key] = adjust(state.sessions[key], share(rate, of: state.workerCount), now)
        }
        state.sessions = sessions
    }

    private static func share(_ limit: Int64?, of workerCount: Int) -> Int64? {
        limit.map { max(1, $0 / Int64(max(1, workerCount))) }
    }

    private func noteLimits(_ state: borrowing State) {
        isLimiting.store(
            state.limits != TransferLimits() || !state.sessionRates.isEmpty || !state.originRates.isEmpty,
            ordering: .relaxed)
    }

    private func adjustHosts(_ state: inout State, _ now: Int64) {
        for (name, host) in state.hosts {
            _ = Self.adjust(host.bucket, state.rate(of: state.originRates[name]), now)
        }
    }

    private static func adjust(_ bucket: TokenBucket?, _ rate: Int64?, _ now: Int64) -> TokenBucket? {
        guard let rate else { return nil }
        guard let bucket else { return TokenBucket(bytesPerSecond: rate, now: now) }
        bucket.change(bytesPerSecond: rate, now: now)
        return bucket
    }
}
