import FerryCore
import FerryEngine
import FerryStore
import Logging
import Sys

/// Looks now and then for what dead attempts have left in the directories of this node.
final class Sweeper: Sendable {
    private static let intervalMilliseconds: Int32 = 3_600_000
    private static let answerMilliseconds: Int32 = 30_000
    private let ending = Mailbox<Never>()
    private let store: Store
    private let roots: @Sendable () -> [String]
    private let logger: Logger

    /// `roots`: directories without each other.
    init(store: Store, roots: @escaping @Sendable () -> [String], logger: Logger) {
        self.store = store
        self.roots = roots
        self.logger = logger
    }

    /// The first round begins at once, on a thread of its own.
    func start() {
        _ = Thread(name: "sweep") { [self] in
            while !ending.isClosed {
                round()
                _ = ending.wait(milliseconds: Self.intervalMilliseconds)
            }
        }
    }

    func stop() { ending.close() }

    private func round() {
        let sweep = PartialSweep(
            ask: { [self] in fates(of: $0) }, isStopped: { [ending] in ending.isClosed })
        let removed = roots().reduce(0) { $0 + sweep.run(below: $1) }
        if removed > 0 {
            logger.notice("Files of dead attempts were removed.", metadata: ["count": "\(removed)"])
        }
    }

    private func fates(of jobs: [JobID]) -> [JobID: PartialSweep.Fate]? {
        let answer = Mailbox<[JobID: Bool]?>()
        store.control.leftovers(of: jobs) { answer.send(try? $0.get()) }
        guard let goes = answer.wait(milliseconds: Self.answerMilliseconds).first ?? nil else { return nil }
        return goes.mapValues { $0 ? .goes : .stays }
    }
}
