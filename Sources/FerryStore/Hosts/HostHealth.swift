import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// Responses and failures of hosts that this node has not reported yet, and what it knows of hosts from the
/// other nodes. May be used from any thread.
///
/// Hosts without trouble have no entry: while no host is in trouble, the end of an attempt costs one atomic
/// load here.
final class HostHealth: Sendable {
    struct Entry {
        /// Reports by scope, the narrowest scopes that are kept apart.
        var reports: [HostScope: ScopeReport] = [:]
        /// Consecutive failures to reach it without a response in between.
        var failureCount = 0
        /// `true` if it has a row in the database.
        var isKnown = false
        /// When its reports were taken last, in monotonic nanoseconds.
        var reportedAt: Int64 = 0
        /// When its last trouble or its row was noticed, in monotonic nanoseconds.
        var since: Int64
    }
    private struct State {
        var entries: [String: Entry] = [:]
        var unreachable: [String: TransferError.Code] = [:]
        /// When a node probes each unreachable host next.
        var due: [String: Timestamp] = [:]
        var unreachableAttempts = UnreachableAttempts()
    }

    enum Message: Sendable {
        /// Trouble that the other nodes should know at once.
        case trouble
        /// Another node has changed something.
        case changed
        /// A probe has ended; `nil` if the host was reached.
        case probed(String, TransferError.Code?)
        /// This node has checked whether it reaches any host.
        case looked(isReached: Bool)
    }

    /// Maximum number of hosts in memory and in the database; further ones are not tracked.
    static let countMax = 10_000
    /// Number of entries from which host names without a DNS record are not added: anybody can make them up.
    static let unknownCountMax = countMax / 2
    /// Maximum number of rows, including hosts that operators have configured.
    static let rowCountMax = countMax + 1_000
    /// Nanoseconds after which trouble that was too small to report is forgotten.
    private static let forgetNanoseconds: Int64 = 60_000_000_000
    /// Consecutive failures to reach a host that count as trouble.
    static let failureCountMin = 2

    let messages = Mailbox<Message>()
    private let state = Mutex(State())
    private let isWatching = Atomic<Bool>(false)
    private let hasUnreachable = Atomic<Bool>(false)

    /// Records how an attempt ended.
    func note(_ result: AttemptResult, _ signal: HostSignal) {
        let seconds = result.trace.map { max(0, $0.finishedAt - $0.startedAt) } ?? 0
        note(
            signal, of: result.scope, result.attempt.job, seconds: seconds,
            bytes: result.bytesReceived + result.bytesSent)
    }

    /// Records that an attempt has had no response for seconds.
    func noteUnanswered(of job: JobID, at scope: RequestScope) { note(.unanswered, of: scope, job) }

    /// Records a response to a request that was not the last one of its attempt.
    func note(_ response: HostResponse) { note(HostSignal(response), of: response.scope, response.job) }

    private func note(
        _ signal: HostSignal, of scope: RequestScope, _ job: JobID, seconds: Double = 0, bytes: Int64 = 0
    ) {
        let origin = scope.origin
        switch signal {
        case .none: return
        case .answered:
            guard isWatching.load(ordering: .relaxed) else { return }
        case .throttled, .lost, .unanswered, .unreachable: break
        }
        let isUrgent = state.withLock { state in
            let isTrouble = signal != .answered
            state.unreachableAttempts.note(signal, at: Sys.monotonicNanoseconds())
            let countMax = signal == .unreachable(.hostNotFound) ? Self.unknownCountMax : Self.countMax
            guard state.entries[origin] != nil || isTrouble && state.entries.count < countMax else {
                return false
            }
            isWatching.store(true, ordering: .relaxed)
            let now = Sys.monotonicNanoseconds()
            var entry = state.entries[origin] ?? Entry(since: now)
            let wasUrgent = entry.isUrgent(isUnreachable: state.unreachable[origin] != nil)
            let reported = entry.scope(for: scope)
            entry.reports[reported, default: ScopeReport()].add(
                signal, job: job, seconds: seconds, bytes: bytes)
            if isTrouble { entry.since = now }
            switch signal {
            case .unreachable: entry.failureCount += 1
            // The request still runs.
            case .unanswered: break
            default: entry.failureCount = 0
            }
            state.entries[origin] = entry
            return !wasUrgent && entry.isUrgent(isUnreachable: state.unreachable[origin] != nil)
        }
        if isUrgent { messages.send(.trouble) }
    }

    /// Seconds for which this node has reached no host, of several that it tried; `nil` if it reaches some.
    var missingSeconds: Double? {
        state.withLock { $0.unreachableAttempts.seconds(at: Sys.monotonicNanoseconds()) }
    }

    /// `true` if a host was reached after the last failure.
    var hasReached: Bool { state.withLock { $0.unreachableAttempts.hasReached } }

    /// Forgets failures to reach hosts: the node tries again.
    func forgetUnreachableAttempts() { state.withLock { $0.unreachableAttempts = UnreachableAttempts() } }

    /// `true` if unreachable hosts are known.
    var knowsUnreachable: Bool { hasUnreachable.load(ordering: .relaxed) }

    /// Returns why a host is unreachable; `nil` if it may be reachable.
    func unreachable(_ origin: String) -> TransferError.Code? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.unreachable[origin] }
    }

    /// Returns the next probe of a host that is known to be unreachable; `nil` if it may be reachable.
    func unreachableHost(_ origin: String) -> HostUnreachable? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { state in
            state.unreachable[origin].map { _ in HostUnreachable(nextProbeAt: state.due[origin]) }
        }
    }

    /// Records that hosts are reachable again.
    func noteReachable(_ origins: [String]) {
        state.withLock { state in for origin in origins { state.unreachable[origin] = nil } }
    }

    /// Takes the reports of at most `count` hosts: hosts in trouble first, then those whose reports have
    /// waited longest.
    func takeReports(_ count: Int) -> [String: [HostScope: ScopeReport]] {
        guard isWatching.load(ordering: .relaxed) else { return [:] }
        return state.withLock { state in
            var reports: [String: [HostScope: ScopeReport]] = [:]
            let now = Sys.monotonicNanoseconds()
            var reportable: [(origin: String, hasNone: Bool, reportedAt: Int64)] = []
            for (origin, entry) in state.entries {
                if entry.isWorthReporting {
                    reportable.append((origin, !entry.isTrouble, entry.reportedAt))
                } else if !entry.isKnown, now - entry.since > Self.forgetNanoseconds {
                    state.entries[origin] = nil
                }
            }
            if reportable.count > count {
                reportable.sort { ($0.hasNone ? 1 : 0, $0.reportedAt) < ($1.hasNone ? 1 : 0, $1.reportedAt) }
            }
            for (origin, _, _) in reportable.prefix(count) {
                reports[origin] = state.entries[origin]?.reports
                state.entries[origin]?.reports = [:]
                state.entries[origin]?.reportedAt = now
            }
            isWatching.store(!state.entries.isEmpty, ordering: .relaxed)
            return reports
        }
    }

    /// Puts back reports that could not be written.
    func putBack(_ reports: [String: [HostScope: ScopeReport]]) {
        state.withLock { state in
            for (origin, reports) in reports {
                for (scope, report) in reports {
                    state.entries[origin]?.reports[scope, default: ScopeReport()].add(report)
                }
            }
        }
    }

    /// `true` if no host has an entry.
    var isQuiet: Bool { !isWatching.load(ordering: .relaxed) }

    /// Replaces what is known of hosts that have rows. `due`: when a node probes each unreachable one next.
    func replace(
        known: Set<String>, unreachable: [String: TransferError.Code], due: [String: Timestamp] = [:]
    ) {
        state.withLock { state in
            let now = Sys.monotonicNanoseconds()
            for origin in known where state.entries[origin]?.isKnown != true {
                state.entries[origin, default: Entry(since: now)].isKnown = true
            }
            for (origin, entry) in state.entries where entry.isKnown && !known.contains(origin) {
                state.entries[origin] = nil
            }
            state.unreachable = unreachable
            state.due = due
            isWatching.store(!state.entries.isEmpty, ordering: .relaxed)
            hasUnreachable.store(!unreachable.isEmpty, ordering: .relaxed)
        }
    }

    /// Number of hosts that have rows, and of unreachable ones.
    var counts: (known: Int, unreachable: Int) {
        guard isWatching.load(ordering: .relaxed) else { return (0, 0) }
        return state.withLock { ($0.entries.values.count { $0.isKnown }, $0.unreachable.count) }
    }
}

extension HostHealth.Entry {
    /// Lost connections, and requests without a response for seconds, that count as trouble.
    private static let troubleCountMin = 3

    var isTrouble: Bool { reports.values.contains(where: \.isTrouble) }

    var isWorthReporting: Bool {
        guard reports.values.contains(where: { !$0.isEmpty }) else { return false }
        return isKnown || count(\.throttled) > 0 || failureCount >= HostHealth.failureCountMin
            || count(\.lost) >= Self.troubleCountMin || count(\.silent) >= Self.troubleCountMin
    }

    /// Returns whether the other nodes should know of its trouble at once.
    func isUrgent(isUnreachable: Bool) -> Bool {
        // Further trouble of a host that is known to be in trouble is reported a second later.
        reports.values.contains { $0.retryAfter != nil } || count(\.throttled) > 0 && !isKnown
            || count(\.silent) >= Self.troubleCountMin && !isKnown
            || !isUnreachable && failureCount >= HostHealth.failureCountMin
    }

    private func count(_ path: KeyPath<ScopeReport, Int>) -> Int {
        reports.values.reduce(0) { $0 + $1[keyPath: path] }
    }

    /// Returns the scope under which a request is reported. If there are too many scopes, it is the tenant or
    /// the whole origin.
    func scope(for request: RequestScope) -> HostScope {
        if reports[request.scope] != nil { return request.scope }
        let tenant = HostScope(tenant: request.tenant)
        if reports.count >= HostControl.scopeCountMax { return reports[tenant] != nil ? tenant : .origin }
        let paths = reports.keys.count { $0.tenant == request.tenant && !$0.path.isEmpty }
        return paths < HostControl.pathCountMax ? request.scope : tenant
    }
}
