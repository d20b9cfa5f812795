import FerryCore
import FerryEngine
import FerryStore
import Logging
import Sys

/// Regularly removes partial files of attempts that are gone, and kept files of jobs that are gone.
final class Sweeper: Sendable {
    private static let intervalSeconds = 3_600.0
    private static let replyMilliseconds: Int32 = 30_000
    private let stopping = Mailbox<Never>()
    private let fileStopping = Mailbox<Never>()
    private let store: Store
    private let roots: @Sendable () -> [String]
    private let managedFiles: String
    private let clock: DatabaseClock
    private let retentionSeconds: Double
    private let logger: Logger

    /// `roots`: directories to search, none below another one. `managedFiles`: directory of kept files.
    init(
        store: Store, roots: @escaping @Sendable () -> [String], managedFiles: String, clock: DatabaseClock,
        retentionSeconds: Double, logger: Logger
    ) {
        self.managedFiles = managedFiles
        self.clock = clock
        self.retentionSeconds = retentionSeconds
        self.store = store
        self.roots = roots
        self.logger = logger
    }

    /// Starts two threads, which sweep at once and then regularly.
    func start() {
        _ = Thread(name: "sweep") { [self] in repeatedly(stopping, removePartialFiles) }
        // A thread of its own: the other sweep may take a day.
        _ = Thread(name: "sweep-managed") { [self] in repeatedly(fileStopping, removeManagedFiles) }
    }

    private func repeatedly(_ stopping: Mailbox<Never>, _ sweep: () -> Void) {
        while !stopping.isClosed {
            sweep()
            let seconds = min(Self.intervalSeconds, max(1, retentionSeconds / 4))
            _ = stopping.wait(milliseconds: Int32(seconds * 1_000))
        }
    }

    func stop() {
        stopping.close()
        fileStopping.close()
    }

    private func removePartialFiles() {
        let sweep = PartialSweep(
            ask: { [self] in decisions(of: $0) }, isStopped: { [stopping] in stopping.isClosed })
        let removed = roots().reduce(0) { $0 + sweep.run(below: $1) }
        if removed > 0 {
            logger.notice("Partial files of ended attempts were removed.", metadata: ["count": "\(removed)"])
        }
    }

    /// Removes kept files of jobs that are gone. Younger files are skipped: no job is removed before the
    /// shortest retention has passed.
    private func removeManagedFiles() {
        let shortest = store.sessions.sessionCache.current.retentionMin ?? retentionSeconds
        let sweep = ManagedFileSweep(
            ask: { [self] in known($0) }, isStopped: { [fileStopping] in fileStopping.isClosed })
        let removed = sweep.run(in: managedFiles, madeBefore: clock.now() + -min(shortest, retentionSeconds))
        if removed > 0 {
            logger.notice("Kept files of removed jobs were removed.", metadata: ["count": "\(removed)"])
        }
    }

    private func known(_ jobs: [JobID]) -> Set<JobID>? {
        let reply = Mailbox<Set<JobID>?>()
        // After an error, which the store logs, all files stay until the next sweep.
        store.jobs.known(jobs) { reply.send(try? $0.get()) }
        return reply.wait(milliseconds: Self.replyMilliseconds).first ?? nil
    }

    private func decisions(of jobs: [JobID]) -> [JobID: PartialSweep.Decision]? {
        let reply = Mailbox<[JobID: Bool]?>()
        // After an error, which the store logs, all files stay until the next sweep.
        store.jobs.removableFiles(of: jobs) { reply.send(try? $0.get()) }
        guard let goes = reply.wait(milliseconds: Self.replyMilliseconds).first ?? nil else { return nil }
        return goes.mapValues { $0 ? .remove : .keep }
    }
}
