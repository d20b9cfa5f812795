import FerryAPI
import FerryCore
import FerryEngine
import FerryStore
import Logging
import Synchronization
import Sys

/// Regularly removes objects of the content store that are not needed. One node of the cluster sweeps at a
/// time; each looks whether the database was restored. Any thread.
final class ContentSweeper: Sendable {
    private static let intervalSeconds = 3_600.0
    /// Seconds until the next look after one that has failed, and while nothing is removed because the
    /// database was restored.
    private static let retrySeconds = 60.0
    private static let replyMilliseconds: Int32 = 30_000

    private typealias Acceptance = Reply<ContentStoreStatus?>

    private let objects: ContentObjects
    private let store: Store
    private let sweep: ContentSweep
    private let interval: Double
    private let logger: Logger
    private let acceptances = Mailbox<Acceptance>()
    private let isSweeping = Atomic<Bool>(false)

    /// `unusedSeconds`: age from which objects are removed that are not needed.
    init(
        _ objects: ContentObjects, store: Store, unusedSeconds: Double, clock: DatabaseClock, logger: Logger
    ) {
        self.objects = objects
        self.store = store
        self.logger = logger
        interval = min(Self.intervalSeconds, max(1, unusedSeconds / 4))
        sweep = ContentSweep(
            objects, unusedSeconds: unusedSeconds, clock: clock, logger: logger,
            ask: { [store] contents in
                // After an error, which the store logs, all contents stay until the next sweep.
                Self.wait { reply in
                    store.contentStore.unused(
                        contents.map { content in
                            switch content.owner {
                            case .job(let job): .init(of: job, key: content.key)
                            case .upload(let upload): .init(of: upload, key: content.key)
                            }
                        }, reply: reply)
                }
            })
    }

    /// Starts a thread, which sweeps at once and then regularly.
    func start() {
        _ = Thread(name: "sweep-content") { [self] in
            while !acceptances.isClosed {
                let seconds = step()
                for reply in acceptances.wait(milliseconds: Int32(seconds * 1_000)) { accept(reply) }
            }
            for reply in acceptances.take() { reply(.failure(.unavailable)) }
        }
    }

    func stop() {
        acceptances.close()
        sweep.stop()
    }

    // MARK: Sweeps

    /// Sweeps, if it is the turn of this node. Returns the seconds until the next look.
    private func step() -> Double {
        let retry = min(Self.retrySeconds, interval)
        // A result that waits for the database names an object that no row names yet.
        guard areResultsCommitted(), let storeGeneration = sweep.storeGeneration(),
            let claim = Self.wait({
                store.contentStore.claimSweep(storeGeneration: storeGeneration, every: interval, reply: $0)
            })
        else { return retry }
        note(storeGeneration: storeGeneration, databaseGeneration: claim.generation)
        guard !objects.counts.isRestored else { return retry }
        guard claim.begins else { return min(interval, max(1, claim.nextSeconds)) }
        guard sweep.raiseStoreGeneration(to: claim.generation) else { return retry }
        isSweeping.store(true, ordering: .relaxed)
        defer { isSweeping.store(false, ordering: .relaxed) }
        let outcome = sweep.run()
        if outcome.removedCount > 0 {
            logger.notice(
                "Unused objects were removed from the content store.",
                metadata: ["count": "\(outcome.removedCount)"])
        }
        return interval
    }

    private func areResultsCommitted() -> Bool {
        let reply = Mailbox<Void>()
        store.dispatcher.whenCommitted { reply.send(()) }
        return !reply.wait(milliseconds: Self.replyMilliseconds).isEmpty
    }

    private func note(storeGeneration: Int64, databaseGeneration: Int64) {
        let isRestored = storeGeneration > databaseGeneration
        guard objects.counts.note(isRestored: isRestored) else { return }
        let metadata: Logger.Metadata = ["store": "\(storeGeneration)", "database": "\(databaseGeneration)"]
        if isRestored {
            logger.error(
                """
                The database has an earlier state than the content store: it was restored. No object is \
                removed until an operator accepts this state (ferry admin content-store accept).
                """, metadata: metadata)
        } else {
            logger.notice("The state of the database was accepted.", metadata: metadata)
        }
    }

    private static func wait<Value: Sendable>(_ ask: (@escaping Reply<Value>) -> Void) -> Value? {
        let reply = Mailbox<Value?>()
        ask { reply.send(try? $0.get()) }
        return reply.wait(milliseconds: replyMilliseconds).first ?? nil
    }
}

extension ContentSweeper: ContentStoreControl {
    func status(reply: @escaping Reply<ContentStoreStatus>) {
        store.contentStore.state { [self] result in reply(result.map { status($0) }) }
    }

    private func status(_ state: ContentStoreCommands.State) -> ContentStoreStatus {
        ContentStoreStatus(
            isAvailable: objects.isAvailable, generation: state.generation, sweptAt: state.sweptAt,
            isRestored: objects.counts.isRestored, removedCount: objects.counts.removedCount,
            missingCount: objects.counts.missingCount)
    }

    func accept(reply: @escaping Reply<ContentStoreStatus?>) {
        guard objects.isAvailable else { return reply(.failure(.unavailable)) }
        // Before a sweep, the database had the generation of the store at least.
        guard !isSweeping.load(ordering: .relaxed) else { return reply(.success(nil)) }
        if !acceptances.send(reply) { reply(.failure(.unavailable)) }
    }

    private func accept(_ reply: @escaping Acceptance) {
        guard let storeGeneration = sweep.storeGeneration() else { return reply(.failure(.unavailable)) }
        let result = Self.wait { done in
            store.contentStore.accept(storeGeneration: storeGeneration) { done(.success($0)) }
        }
        guard case .success(let state)? = result else {
            if case .failure(let error)? = result { return reply(.failure(error)) }
            return reply(.failure(.unavailable))
        }
        if let state {
            note(storeGeneration: storeGeneration, databaseGeneration: state.generation)
        }
        reply(.success(state.map { status($0) }))
    }
}
