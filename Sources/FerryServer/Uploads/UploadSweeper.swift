import FerryCore
import FerryEngine
import FerryStore
import Logging
import Sys

/// Regularly removes expired uploads with their bytes, and files without an upload.
final class UploadSweeper: Sendable {
    private static let seconds = 60.0
    /// Sweeps of expired uploads between two sweeps of files.
    private static let fileSweepInterval = 60
    /// Seconds after its creation for which a file is not looked at: its upload may not be committed yet.
    private static let youngSeconds = 3_600.0
    private static let replyMilliseconds: Int32 = 30_000
    private let stopping = Mailbox<Never>()
    private let uploads: UploadCommands
    private let files: StagedUploads
    private let directory: String
    private let clock: DatabaseClock
    private let logger: Logger

    init(
        uploads: UploadCommands, files: StagedUploads, directory: String, clock: DatabaseClock, logger: Logger
    ) {
        self.uploads = uploads
        self.files = files
        self.directory = directory
        self.clock = clock
        self.logger = logger
    }

    /// Starts a thread, which sweeps at once and then regularly.
    func start() {
        _ = Thread(name: "sweep-uploads") { [self] in
            var count = 0
            while !stopping.isClosed {
                removeExpired()
                if count % Self.fileSweepInterval == 0 { removeFiles() }
                count += 1
                _ = stopping.wait(milliseconds: Int32(Self.seconds * 1_000))
            }
        }
    }

    func stop() { stopping.close() }

    private func removeExpired() {
        while !stopping.isClosed {
            let reply = Mailbox<[UploadBytes]?>()
            // After an error, which the store logs, the next sweep removes them.
            uploads.removeExpiredUploads { reply.send(try? $0.get()) }
            let removed = (reply.wait(milliseconds: Self.replyMilliseconds).first ?? nil) ?? []
            for bytes in removed { files.remove(bytes) }
            if removed.count < UploadCommands.expiredCountMax { return }
        }
    }

    private func removeFiles() {
        let sweep = UploadSweep(
            ask: { [self] in known($0) }, isStopped: { [stopping] in stopping.isClosed })
        let removed = sweep.run(in: directory, madeBefore: clock.now() + -Self.youngSeconds)
        if removed > 0 {
            logger.notice("Files without an upload were removed.", metadata: ["count": "\(removed)"])
        }
    }

    private func known(_ uploads: [UploadID]) -> Set<UploadID>? {
        let reply = Mailbox<Set<UploadID>?>()
        // After an error, which the store logs, all files stay until the next sweep.
        self.uploads.known(uploads) { reply.send(try? $0.get()) }
        return reply.wait(milliseconds: Self.replyMilliseconds).first ?? nil
    }
}
