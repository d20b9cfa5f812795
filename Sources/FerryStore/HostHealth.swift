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
        var report = HostReport()
        /// Failures to reach it without an answer in between.
        var failureCount = 0
        /// There is a row of it.
        var isKnown = false
        /// When its report was taken last; monotonic nanoseconds.
        var toldAt: Int64 = 0
        /// Of its last trouble, or of its row; monotonic nanoseconds.
        var since: Int64
    }
    private struct State {
        var entries: [String: Entry] = [:]
        var unreachable: [String: TransferError.Code] = [:]
        /// When somebody looks for those that are not reached.
        var due: [String: Timestamp] = [:]
        var misses = NodeMisses()
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
        note(signal, of: result.host) { $0.measure(result, isAnswered: signal == .answered) }
    }

    /// Notes that an attempt has had no answer for seconds.
    func noteSilence(of origin: String) { note(.silent, of: origin) { _ in } }

    /// Notes an answer to a request that was not all of its attempt.
    func note(_ answer: HostAnswer) { note(HostSignal(answer), of: answer.origin) { _ in } }

    private func note(_ signal: HostSignal, of origin: String, _ measure: (inout HostReport) -> Void) {
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
            entry.report.add(signal)
            measure(&entry.report)
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
    func forgetMisses() { state.withLock { $0.misses = NodeMisses() } }

    /// Whether there are hosts that nobody reaches, as far as is known.
    var hasAway: Bool { hasUnreachable.load(ordering: .relaxed) }

    /// Why nobody reaches a host, as far as is known; nil: it may be reached.
    func unreachable(_ origin: String) -> TransferError.Code? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.unreachable[origin] }
    }

    /// Whether nobody reaches a host, as far as is known.
    func away(_ origin: String) -> HostAway? {
        guard hasUnreachable.load(ordering: .relaxed) else { return nil }
        return state.withLock { state in
            state.unreachable[origin].map { _ in HostAway(nextProbeAt: state.due[origin]) }
        }
    }

    /// They can be reached again: their jobs may begin.
    func noteReachable(_ origins: [String]) {
        state.withLock { state in for origin in origins { state.unreachable[origin] = nil } }
    }

    /// Takes what is to be told, of at most `count` hosts: trouble first, then what has waited longest.
    func takeReports(_ count: Int) -> [String: HostReport] {
        guard isWatching.load(ordering: .relaxed) else { return [:] }
        return state.withLock { state in
            var reports: [String: HostReport] = [:]
            let now = Sys.monotonicNanoseconds()
            var telling: [(origin: String, hasNone: Bool, toldAt: Int64)] = []
            for (origin, entry) in state.entries {
                if entry.isWorthTelling {
                    telling.append((origin, !entry.report.isTrouble, entry.toldAt))
                } else if !entry.isKnown, now - entry.since > Self.patience {
                    state.entries[origin] = nil
                }
            }
            if telling.count > count {
                telling.sort { ($0.hasNone ? 1 : 0, $0.toldAt) < ($1.hasNone ? 1 : 0, $1.toldAt) }
            }
            for (origin, _, _) in telling.prefix(count) {
                reports[origin] = state.entries[origin]?.report
                state.entries[origin]?.report = HostReport()
                state.entries[origin]?.toldAt = now
            }
            isWatching.store(!state.entries.isEmpty, ordering: .relaxed)
            return reports
        }
    }

    /// They could not be told.
    func putBack(_ reports: [String: HostReport]) {
        state.withLock { state in
            for (origin, report) in reports { state.entries[origin]?.report.add(report) }
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
    var isWorthTelling: Bool {
        guard !report.isEmpty else { return false }
        return isKnown || report.throttled > 0 || failureCount >= HostHealth.failureCountMin
            || report.lost >= 3 || report.silent >= HostCondition.Silence.countMin
    }

    func isUrgent(isUnreachable: Bool) -> Bool {
        // More 503 from a host that all know to be in trouble comes with the next look, a second later.
        report.retryAfter != nil || report.asksForPause || report.throttled > 0 && !isKnown
            || report.silent >= HostCondition.Silence.countMin && !isKnown
            || !isUnreachable && failureCount >= HostHealth.failureCountMin
    }
}

extension HostReport {
    /// Adds what an attempt has moved, and how long it took.
    fileprivate mutating func measure(_ result: AttemptResult, isAnswered: Bool) {
        bytes += result.bytesReceived + result.bytesSent
        guard isAnswered, let trace = result.trace else { return }
        seconds += max(0, trace.finishedAt - trace.startedAt)
        guard let connect = trace.transactions.firstConnectSeconds else { return }
        connections += 1
        connectSeconds += connect
    }
}
