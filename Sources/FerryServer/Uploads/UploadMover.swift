import FerryCore
import FerryEngine
import FerryStore
import Sys

/// Moves complete uploads from the disk of this node to the content store, which all nodes can read. An
/// upload whose bytes the store does not take stays, and is tried again.
final class UploadMover: Sendable {
    private static let milliseconds: Int32 = 2_000
    /// Seconds after the move for which the file stays: a job or a request may be about to open it.
    private static let fileSeconds: Int64 = 60
    private static let replyMilliseconds: Int32 = 30_000
    private let stopping = Mailbox<Never>()
    private let uploads: UploadCommands
    private let files: StagedUploads
    private let isAvailable: @Sendable () -> Bool

    /// `isAvailable`: whether the content store answers.
    init(uploads: UploadCommands, files: StagedUploads, isAvailable: @escaping @Sendable () -> Bool) {
        self.uploads = uploads
        self.files = files
        self.isAvailable = isAvailable
    }

    /// Starts a thread, which looks for uploads until `stop`.
    func start() {
        _ = Thread(name: "move-uploads") { [self] in
            // Files of moved uploads, and when they were moved, in monotonic nanoseconds. After a crash the
            // sweep removes them.
            var moved: [(upload: UploadID, at: Int64)] = []
            while !stopping.isClosed {
                if isAvailable() { moved += moveAll().map { ($0, monotonicNanoseconds()) } }
                let limit = monotonicNanoseconds() - Self.fileSeconds * 1_000_000_000
                for one in moved.prefix(while: { $0.at <= limit }) {
                    files.remove(UploadBytes(upload: one.upload, object: nil))
                }
                moved.removeFirst(moved.prefix { $0.at <= limit }.count)
                _ = stopping.wait(milliseconds: Self.milliseconds)
            }
        }
    }

    func stop() { stopping.close() }

    /// Moves what is there, a page at a time. Returns the uploads that were moved.
    private func moveAll() -> [UploadID] {
        var moved: [UploadID] = []
        var last: UploadID?
        while !stopping.isClosed, isAvailable() {
            let reply = Mailbox<[StagedUpload]?>()
            // After an error, which the store logs, they are looked for again.
            uploads.localUploads(after: last) { reply.send(try? $0.get()) }
            let found = (reply.wait(milliseconds: Self.replyMilliseconds).first ?? nil) ?? []
            moved += move(found)
            last = found.last?.id
            if found.count < UploadCommands.localCountMax { break }
        }
        return moved
    }

    /// Moves uploads at the same time. Returns those that were moved.
    private func move(_ found: [StagedUpload]) -> [UploadID] {
        let ended = Mailbox<UploadID?>()
        for upload in found {
            files.copyToObject(upload) { [files, uploads] key in
                guard let key else {
                    ended.send(nil)
                    return
                }
                uploads.moveUpload(upload.id, to: key) { result in
                    // The upload is gone. After another error the object is unused, and the sweep removes it.
                    if case .failure(.notFound) = result { files.removeObject(key) }
                    ended.send((try? result.get()).map { upload.id })
                }
            }
        }
        var moved: [UploadID?] = []
        while moved.count < found.count, !stopping.isClosed {
            moved += ended.wait(milliseconds: Self.milliseconds)
        }
        return moved.compactMap(\.self)
    }
}
