import FerryCore
import FerryScheduler
import Synchronization
import Sys

/// What this node has seen of hosts since it last told the others, and what it knows from them. Any thread.
///
/// Nothing is kept of hosts that do well: while none is in trouble, the end of an attempt costs one load
/// here.
final class HostHealth: Sendable {
    struct Entry {
        /// By scope, the narrowest that are told apart.
        var reports: [HostScope: ScopeReport] = [:]
        /// Failures to reach it without an answer in between.
        var failureCount = 0
        /// There is a row of it.
        var isKnown = false
        /// When its reports were taken last; monotonic nanoseconds.
        var toldAt: Int64 = 0
        /// Of its last trouble, or of its row; monotonic nanoseconds.
        var since: Int64
    }
    private struct State {
        var entries: [String: Entry] = [:]
        var unreachable: [String: TransferError.Code] = [:]
        /// When somebody looks for those that are not reached.
        var due: [String: Timestamp] = [:]
        var misses = UnreachableNodes()
    }

    enum Message: Sendable {
        /// There is trouble that the others should hear of at once.
        case trouble
        /// Somebody has changed something.
        case changed
        /// A probe has ended; nil: somebody was reached.
        case probed(String, TransferError.Code?)
        /// This node has looked whether it reaches anybody.
        case looked(isReached: Bool)
    }

    /// Hosts that are remembered in memory and in the database; of others nothing is known.
    static let countMax = 10_000
    /// Beyond it names that nobody knows are not remembered: anybody can make them up.
    static let unknownCountMax = countMax / 2
    /// In the database, with those that operators have named.
    static let rowCountMax = countMax + 1_000
    /// Nanoseconds after which trouble that was too small to tell is forgotten.
    private static let patience: Int64 = 60_000_000_000
    /// Failures in a row to reach a host that are no accident any more.
    static let failureCountMin = 2

    let messages = Mailbox<Message>()
    private let state = Mutex(State())
    private let isWatching = Atomic<Bool>(false)
    private let hasUnreachable = Atomic<Bool>(false)

    /// Notes how an attempt ended.
    func note(_ result: AttemptResult, _ signal: HostSignal) {
        let seconds = result.trace.map { max(0, $0.finishedAt - $0.startedAt) } ?? 0
        note(
            signal, of: result.scope, result.attempt.job, seconds: seconds,
            bytes: result.bytesReceived + result.bytesSent)
    }

    /// Notes that an attempt has had no response for seconds.
    func noteSilence(of job: JobID, at scope: RequestScope) { note(.silent, of: scope, job) }

    /// Notes a response to a request that was not all of its attempt.
    func note(_ answer: HostResponse) { note(HostSignal(answer), of: answer.scope, answer.job) }

    private func note(
        _ signal: HostSignal, of scope: RequestScope, _ job: JobID, seconds: Double = 0, bytes: Int64 = 0
    ) {
        let origin = scope.origin
        switch signal {
        case .none: return
        case .answered:
            guard isWatching.load(ordering: .relaxed) else { return }
        case .throttled, .lost, .silent, .unreachable: break
        }
        let isUrgent = state.withLock { state in
            let isTrouble = signal != .answered
            state.misses.note(signal, at: Sys.monotonicNanoseconds())
            let countMax = signal == .unreachable(.hostNotFound) ? Self.unknownCountMax : Self.countMax
            guard state.entries[origin] != nil || isTrouble && state.entries.count < countMax else {
                return false
            }
            isWatching.store(true, ordering: .relaxed)
            let now = Sys.monotonicNanoseconds()
            var entry = state.entries[origin] ?? Entry(since: now)
            let wasUrgent = entry.isUrgent(isUnreachable: state.unreachable[origin] != nil)
            let told = entry.scope(for: scope)
            entry.reports[told, default: ScopeReport()].add(signal, job: job, seconds: seconds, bytes: bytes)
            if isTrouble { entry.since = now }
            switch signal {
            case .unreachable: entry.failureCount += 1
            // That is no end.
            case .silent: break
            default: entry.failureCount = 0
            }
            state.entries[origin] = entry
            return !wasUrgent && entry.isUrgent(isUnreachable: state.unreachable[origin] != nil)
        }
        if isUrgent { messages.send(.trouble) }
    }

    /// For how many seconds this node has reached nobody, of several that it tried; nil: it reaches some.
    var missingSeconds: Double? {
        state.withLock { $0.misses.seconds(at: Sys.monotonicNanoseconds()) }
    }

    /// Whether somebody was reached after the last miss.
    var hasReached: Bool { state.withLock { $0.misses.hasReached } }

    /// It tries anew.
    func forgetMisses() { state.withLock { $0.misses = UnreachableNodes() } }

    /// Whether there are hosts that nobody reaches, as far as is known.
    var hasAway: Bool { hasUnreachable.load(ordering: .relaxed) }

    /// Why nobody reaches a host, as far as is known; nil: it may be reached.
    func unreachable(_ origin: String) -> TransferError.Code? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.unreachable[origin] }
    }

    /// Whether nobody reaches a host, as far as is known.
    func away(_ origin: String) -> HostUnreachable? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { state in
            state.unreachable[origin].map { _ in HostUnreachable(nextProbeAt: state.due[origin]) }
        }
    }

    /// They can be reached again: their jobs may begin.
    func noteReachable(_ origins: [String]) {
        state.withLock { state in for origin in origins { state.unreachable[origin] = nil } }
    }

    /// Takes what is to be told, of at most `count` hosts: trouble first, then what has waited longest.
    func takeReports(_ count: Int) -> [String: [HostScope: ScopeReport]] {
        guard isWatching.load(ordering: .relaxed) else { return [:] }
        return state.withLock { state in
            var reports: [String: [HostScope: ScopeReport]] = [:]
            let now = Sys.monotonicNanoseconds()
            var telling: [(origin: String, hasNone: Bool, toldAt: Int64)] = []
            for (origin, entry) in state.entries {
                if entry.isWorthTelling {
                    telling.append((origin, !entry.isTrouble, entry.toldAt))
                } else if !entry.isKnown, now - entry.since > Self.patience {
                    state.entries[origin] = nil
                }
            }
            if telling.count > count {
                telling.sort { ($0.hasNone ? 1 : 0, $0.toldAt) < ($1.hasNone ? 1 : 0, $1.toldAt) }
            }
            for (origin, _, _) in telling.prefix(count) {
                reports[origin] = state.entries[origin]?.reports
                state.entries[origin]?.reports = [:]
                state.entries[origin]?.toldAt = now
            }
            isWatching.store(!state.entries.isEmpty, ordering: .relaxed)
            return reports
        }
    }

    /// They could not be told.
    func putBack(_ reports: [String: [HostScope: ScopeReport]]) {
        state.withLock { state in
            for (origin, reports) in reports {
                for (scope, report) in reports {
                    state.entries[origin]?.reports[scope, default: ScopeReport()].add(report)
                }
            }
        }
    }

    /// Whether anything is being watched.
    var isQuiet: Bool { !isWatching.load(ordering: .relaxed) }

    /// Takes over the hosts that have rows. `due`: when somebody looks for those that are not reached.
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

    /// How many hosts have rows, and how many of them nobody reaches.
    var counts: (known: Int, unreachable: Int) {
        guard isWatching.load(ordering: .relaxed) else { return (0, 0) }
        return state.withLock { ($0.entries.values.count { $0.isKnown }, $0.unreachable.count) }
    }
}

extension HostHealth.Entry {
    /// Losses, and requests without a response for seconds, that are no accident.
    private static let troubleCountMin = 3

    var isTrouble: Bool { reports.values.contains(where: \.isTrouble) }

    var isWorthTelling: Bool {
        guard reports.values.contains(where: { !$0.isEmpty }) else { return false }
        return isKnown || count(\.throttled) > 0 || failureCount >= HostHealth.failureCountMin
            || count(\.lost) >= Self.troubleCountMin || count(\.silent) >= Self.troubleCountMin
    }

    /// Whether the other nodes should hear of it at once.
    func isUrgent(isUnreachable: Bool) -> Bool {
        // More of the same from a host that is known to be in trouble is told a second later.
        reports.values.contains { $0.retryAfter != nil } || count(\.throttled) > 0 && !isKnown
            || count(\.silent) >= Self.troubleCountMin && !isKnown
            || !isUnreachable && failureCount >= HostHealth.failureCountMin
    }

    private func count(_ path: KeyPath<ScopeReport, Int>) -> Int {
        reports.values.reduce(0) { $0 + $1[keyPath: path] }
    }

    /// The scope under which requests are told: with too many of them those of their tenant, or of the whole
    /// origin.
    func scope(for request: RequestScope) -> HostScope {
        if reports[request.scope] != nil { return request.scope }
        let tenant = HostScope(tenant: request.tenant)
        if reports.count >= HostControl.scopeCountMax { return reports[tenant] != nil ? tenant : .origin }
        let paths = reports.keys.count { $0.tenant == request.tenant && !$0.path.isEmpty }
        return paths < HostControl.pathCountMax ? request.scope : tenant
    }
}
