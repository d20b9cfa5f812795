import FerryCore
import Glibc
import Synchronization
import Sys

/// Decides whether a host whose name did not resolve does not exist. libcurl reports all failures of
/// getaddrinfo(3) alike, so the name is looked up once more, on a thread of its own.
///
/// A resolver may answer that no name exists while its own network is away. The answer counts only if this
/// node has resolved another name in the last `witnessSeconds` and is not cut off. Any thread.
final class NameLookup: Sendable {
    private struct State {
        /// The name that was resolved last, and when, in monotonic nanoseconds.
        var latest: (name: String, at: Int64)?
        /// When another name than `latest` was resolved last.
        var otherAt: Int64?
        /// Names that are looked up, with the time of the first question.
        var waiting: [String: (since: Int64, replies: [@Sendable (Bool) -> Void])] = [:]
    }

    /// Seconds for which the resolution of another name proves that the resolver works.
    static let witnessSeconds: Int64 = 30
    /// Nanoseconds after which a lookup without an answer says nothing.
    private static let lookupMax: Int64 = 5_000_000_000
    /// Names that are looked up at most; others are not known to be missing.
    private static let nameCountMax = 64

    private let state = Mutex(State())
    private let box: Mailbox<String>
    private let isCutOff: @Sendable () -> Bool
    private let clock: @Sendable () -> Int64

    /// `resolve`: blocks until the name has resolved or not. `clock`: monotonic nanoseconds.
    init(
        isCutOff: @escaping @Sendable () -> Bool, resolve: @escaping @Sendable (String) -> NameAnswer,
        clock: @escaping @Sendable () -> Int64 = monotonicNanoseconds
    ) {
        self.isCutOff = isCutOff
        self.clock = clock
        let box = Mailbox<String>()
        self.box = box
        let answered = Answered()
        // Not joined: getaddrinfo(3) may hang for longer than a stop may take.
        _ = Thread(name: "ferry-names") {
            while true {
                let names = box.wait(milliseconds: -1)
                if names.isEmpty { return }
                for name in names {
                    let isMissing = resolve(name) == .missing
                    answered.lookup.withLock { $0.value }?.answer(name, isMissing: isMissing)
                }
            }
        }
        answered.lookup.withLock { $0.value = self }
    }

    /// Connects the thread with the lookup, which it does not keep alive.
    private final class Answered: Sendable {
        struct Reference: Sendable { weak var value: NameLookup? }
        let lookup = Mutex(Reference())
    }

    deinit { box.close() }

    /// Notes that a name has resolved.
    func noteResolved(_ name: String) {
        let now = clock()
        state.withLock { state in
            if let latest = state.latest, latest.name != name { state.otherAt = latest.at }
            state.latest = (name, now)
        }
    }

    /// Passes the error of a failed attempt on: if its host does not exist, as one that is not retryable. May
    /// reply on another thread, after at most a few seconds.
    func judge(_ error: TransferError, _ reply: @escaping @Sendable (TransferError) -> Void) {
        guard error.isRetryable, let name = error.unresolvedHost, isTrusted(about: name) else {
            return reply(error)
        }
        let now = clock()
        let isNew: Bool? = state.withLock { state in
            let isNew = state.waiting[name] == nil
            guard !isNew || state.waiting.count < Self.nameCountMax else { return nil }
            state.waiting[name, default: (now, [])].replies.append { isMissing in
                reply(isMissing ? .hostMissing : error)
            }
            return isNew
        }
        guard let isNew else { return reply(error) }
        if isNew { box.send(name) }
    }

    /// Called about once a second: ends lookups that take too long.
    func giveUpSlow() {
        let now = clock()
        giveUp { now - $0 >= Self.lookupMax }
    }

    /// Ends all lookups, because the engine stops.
    func giveUpAll() { giveUp { _ in true } }

    private func giveUp(_ isOver: (_ since: Int64) -> Bool) {
        let names = state.withLock { $0.waiting.filter { isOver($0.value.since) }.map(\.key) }
        for name in names { answer(name, isMissing: false) }
    }

    private func answer(_ name: String, isMissing: Bool) {
        let replies = state.withLock { $0.waiting.removeValue(forKey: name)?.replies ?? [] }
        let isKnown = isMissing && isTrusted(about: name)
        for reply in replies { reply(isKnown) }
    }

    /// Whether the resolver is known to work apart from this name.
    private func isTrusted(about name: String) -> Bool {
        let start = clock() - Self.witnessSeconds * 1_000_000_000
        let isWitnessed = state.withLock { state in
            guard let latest = state.latest else { return false }
            return latest.name != name && latest.at >= start || state.otherAt ?? .min >= start
        }
        return isWitnessed && !isCutOff()
    }
}

/// Answer of a resolver about a name.
package enum NameAnswer: Sendable {
    case found
    /// The name does not exist (EAI_NONAME).
    case missing
    /// Not known: a temporary failure, or a name without addresses.
    case unknown

    /// Asks the system's resolver. Blocks; thread-safe.
    package static func ofSystem(_ name: String) -> NameAnswer {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, nil, &hints, &list)
        if let list { freeaddrinfo(list) }
        return code == 0 ? .found : code == EAI_NONAME ? .missing : .unknown
    }
}

extension TransferError {
    fileprivate static let hostMissing = TransferError(
        .hostNotFound, "There is no host of this name.", phase: .resolving, isRetryable: false)
}
