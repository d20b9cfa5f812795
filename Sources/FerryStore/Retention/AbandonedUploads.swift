import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Removes multipart uploads from stores that ended jobs have left there (the table `abandoned_uploads`).
/// Runs on every worker, and skips uploads that another node has claimed. A claim lasts until the next try: a
/// try that fails, or whose node dies, needs no write. Used on the housekeeping thread only.
final class AbandonedUploads {
    /// Uploads that this node removes at once.
    private static let countMax = 16
    /// Nanoseconds between two looks for uploads that are due again. New ones are announced.
    private static let lookInterval: Int64 = 15_000_000_000

    /// An upload that this node has claimed.
    private struct Claimed: Sendable {
        let job: JobID
        let isLastTry: Bool
        /// Whether a store has it, as far as its row can be read.
        let isAtStore: Bool
    }

    private let queueState: QueueState
    /// Results of tries; an error means that the store may still have the upload.
    private let results = Mailbox<(upload: Claimed, error: TransferError?)>()
    private var runningCount = 0
    private var nextLook: Int64 = 0

    init(_ queueState: QueueState) { self.queueState = queueState }

    private var context: StoreContext { queueState.context }
    private var signals: StoreSignals { queueState.signals }

    /// Records the results of earlier tries, and begins those that are due.
    func remove(_ database: ReconnectingConnection) throws(PostgresError) {
        try record(results.take(), database)
        guard mayBegin, let remover = signals.uploadRemover else { return }
        while runningCount < Self.countMax {
            let now = Sys.monotonicNanoseconds()
            guard signals.takeAbandonedUploads() || now >= nextLook else { return }
            nextLook = now + Self.lookInterval
            let room = Self.countMax - runningCount
            let rows = try database.withConnection { connection throws(PostgresError) in
                try connection.execute(Statements.claimAbandonedUploads, .int32(Int32(room)))
            }
            // There may be more.
            if rows.rowCount == room { nextLook = now }
            for row in 0..<rows.rowCount { begin(rows, row, remover) }
        }
    }

    /// `true` if this node may send requests to stores now.
    private var mayBegin: Bool {
        let nodeState = queueState.nodeState
        return context.configuration.isWorker && !nodeState.isPaused && !nodeState.isCutOff
            && !nodeState.isStopping
    }

    private func begin(_ rows: borrowing ResultSet, _ row: Int, _ remover: any UploadRemover) {
        let attempt = Attempt(abandoned: rows, row, context)
        let isAtStore = attempt.map { $0.upload?.dialect == .s3 } ?? true
        let upload = Claimed(
            job: rows.identifier(row, 0), isLastTry: rows.bool(row, 7), isAtStore: isAtStore)
        let chores = signals.chores
        let results = results
        let reply: @Sendable (TransferError?) -> Void = { error in
            results.send((upload, error))
            chores.send(())
        }
        runningCount += 1
        guard let attempt else { return reply(.unreadable) }
        // Servers of other protocols remove uploads by their own rules.
        guard isAtStore else { return reply(nil) }
        remover.removeUpload(of: attempt, reply: reply)
    }

    private func record(
        _ results: [(upload: Claimed, error: TransferError?)], _ database: ReconnectingConnection
    ) throws(PostgresError) {
        guard !results.isEmpty else { return }
        runningCount -= results.count
        var done: [JobID] = []
        for (upload, error) in results {
            if let error {
                note(error, of: upload)
                guard upload.isLastTry else { continue }
            } else if upload.isAtStore {
                context.metrics.removedUploads.add(1, ordering: .relaxed)
            }
            done.append(upload.job)
        }
        guard !done.isEmpty else { return }
        try database.withConnection { [done] connection throws(PostgresError) in
            _ = try connection.execute(Statements.forgetAbandonedUploads, .identifiers(done))
        }
    }

    private func note(_ error: TransferError, of upload: Claimed) {
        let metadata: Logger.Metadata = ["job.id": "\(upload.job)", "cause": "\(error.message)"]
        guard upload.isLastTry else {
            context.logger.debug("an upload could not be removed from its store", metadata: metadata)
            return
        }
        context.metrics.givenUpUploads.add(1, ordering: .relaxed)
        context.logger.warning(
            "an upload stays at its store: each try to remove it has failed", metadata: metadata)
    }
}

extension Attempt {
    /// Makes the attempt that would continue an upload of claim_abandoned_uploads.sql. `nil` if the row
    /// cannot be read.
    fileprivate convenience init?(abandoned rows: borrowing ResultSet, _ row: Int, _ context: StoreContext) {
        let (configuration, job) = (context.configuration, rows.identifier(row, 0) as JobID)
        let storedSpec = StoredSpec(rows.bytes(row, 4), of: job, log: context.damagedRows)
        let sealed = rows.bytesOrNil(row, 6)
        guard let spec = storedSpec.whole(opening: configuration.seal),
            let secrets = sealed.map({ configuration.openSecrets($0) }) ?? JobSecrets(),
            let next = try? NextRequest(sealed: rows.bytes(row, 5), opening: configuration.seal)
        else { return nil }
        let createdAt = rows.instant(row, 1)
        self.init(
            job: job, number: 0, failedAttemptCount: 0, revision: 0, tenant: rows.text(row, 2),
            createdAt: createdAt, startedAt: createdAt, spec: spec, storedSpec: storedSpec, secrets: secrets,
            sealedSecrets: sealed, payload: nil, origin: rows.text(row, 3), scopePath: "", traceparent: nil,
            retryOf: nil, isCancelRequested: false, nextRequest: next)
    }
}
