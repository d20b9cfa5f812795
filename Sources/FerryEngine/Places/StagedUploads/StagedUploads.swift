package import FerryCore
import Glibc
import Sys

/// The files of staged uploads on the disk of this node. Any thread; only file threads touch the disk.
package final class StagedUploads: UploadFiles {
    private let path: String
    private let fileThreads: FileThreadPool
    private let space: StorageSpace
    /// Whether bytes are on stable storage before their offset is acknowledged.
    private let syncs: Bool
    /// The content store, if complete uploads are moved to it.
    private let objects: ContentObjects?
    let digests = UploadDigests()

    init(
        _ path: String, _ fileThreads: FileThreadPool, _ localFiles: LocalFiles, objects: ContentObjects?
    ) {
        self.path = path
        self.objects = objects
        self.fileThreads = fileThreads
        space = localFiles.space
        syncs = localFiles.syncs
    }

    /// Returns the path below the directory of uploads: two hexadecimal digits, a slash, the identifier.
    static func path(for upload: UploadID) -> String {
        let shard = String(upload.low & 0xFF, radix: 16)
        return (shard.utf8.count == 1 ? "0" + shard : shard) + "/\(upload)"
    }

    /// Opens the file of an upload, as the port says. Makes a new file for offset 0. Replies with
    /// `storage_full` if there is no space for `size` bytes in all, or with `source_not_found` if the file
    /// has fewer bytes than `offset`.
    package func open(
        _ upload: UploadID, at offset: Int64, size: Int64?, contentDigest: String?, reprDigest: String?,
        events: UploadWriterEvents,
        reply: @escaping @Sendable (Result<any UploadFileWriter, TransferError>) -> Void
    ) {
        fileThreads.send(
            .run { [self] in
                do throws(TransferError) {
                    reply(
                        .success(
                            try makeWriter(upload, offset, size, contentDigest, reprDigest, events)))
                } catch {
                    reply(.failure(error))
                }
            })
    }

    private func makeWriter(
        _ upload: UploadID, _ offset: Int64, _ size: Int64?, _ contentDigest: String?, _ reprDigest: String?,
        _ events: UploadWriterEvents
    ) throws(TransferError) -> UploadWriter {
        let root = try StorageDirectory.root(path, .own)
        let (shard, name) = splitPath(Self.path(for: upload))
        let directory = try root.directory(shard, making: true)
        let claim = try space.claim(at: directory, expecting: size.map { max(0, $0 - offset) })
        let descriptor: Int32
        if let found = try directory.ownFile(name) {
            guard Int64(found.status.st_size) >= offset, ftruncate(found.descriptor, off_t(offset)) == 0
            else {
                close(found.descriptor)
                throw Self.missing
            }
            descriptor = found.descriptor
        } else {
            guard offset == 0 else { throw Self.missing }
            descriptor = try directory.newFile(name)
            // Later syncs of the file do not make its name durable.
            if syncs { fsync(directory.descriptor) }
        }
        let file = ClaimedFile(descriptor: descriptor, directory: directory, space: space, claim: claim)
        return UploadWriter(
            file, at: offset, digests.take(upload, upTo: offset, reprDigest),
            contentDigests: contentDigest.map { ExpectedDigest.all(in: $0, from: .client) } ?? [],
            bufferSize: size.map { $0 - offset }, syncs: syncs, fileThreads, events
        ) { [digests] in digests.keep($0, for: upload) }
    }

    /// Makes the file of an upload from those of complete ones, one after another.
    package func concatenate(
        _ parts: [UploadPart], into upload: UploadID,
        reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void
    ) {
        let copy = UploadConcatenation(parts, below: path, fileThreads, reply)
        let events = UploadWriterEvents(ready: { copy.noteReady() }, advanced: { _ in })
        let size = parts.reduce(0) { $0 + $1.byteCount }
        open(upload, at: 0, size: size, contentDigest: nil, reprDigest: nil, events: events) { opened in
            switch opened {
            case .failure(let error): reply(.failure(error))
            case .success(let writer): copy.begin(writer)
            }
        }
    }

    /// Returns a writer that stores nothing, and only tells the digest of the bytes.
    package func hasher(events: UploadWriterEvents) -> any UploadFileWriter {
        UploadWriter(
            nil, at: 0, UploadDigest(nil), contentDigests: [], bufferSize: nil, syncs: false, fileThreads,
            events
        ) { _ in }
    }

    /// Opens the file of a complete upload as a source. Throws `source_not_found` if it is not on this node.
    func source(of upload: StagedUpload) throws(TransferError) -> any ByteSource {
        guard let root = try StorageDirectory.existingRoot(path, .own) else { throw .sourceMissing }
        let source = try LocalFileSource(Self.path(for: upload.id), below: root, isManaged: true)
        guard source.size == upload.size else { throw .sourceChanged }
        return source
    }

    /// Opens the file of a complete upload for reading. Replies with a descriptor that the receiver owns, or
    /// with `nil` if there is no file of that size.
    package func read(
        _ upload: UploadID, byteCount: Int64, reply: @escaping @Sendable (Int32?) -> Void
    ) {
        fileThreads.send(
            .run { [path] in
                let descriptor = Glibc.open("\(path)/\(Self.path(for: upload))", O_RDONLY | O_CLOEXEC)
                var status = stat()
                guard descriptor >= 0 else { return reply(nil) }
                guard fstat(descriptor, &status) == 0, Int64(status.st_size) == byteCount else {
                    close(descriptor)
                    return reply(nil)
                }
                reply(descriptor)
            })
    }

    /// Removes the bytes of an upload. Returns at once.
    package func remove(_ bytes: UploadBytes) {
        digests.forget(bytes.upload)
        fileThreads.send(.run { [path] in unlink("\(path)/\(Self.path(for: bytes.upload))") })
        if let key = bytes.object { objects?.remove(key) }
    }

    /// Removes an object that no upload names. Returns at once.
    package func removeObject(_ key: String) { objects?.remove(key) }

    /// Copies the bytes of a complete upload from their file to a new object. Replies with its key, or with
    /// `nil` if the store does not take them, or there is no such file on this node.
    package func copyToObject(_ upload: StagedUpload, reply: @escaping @Sendable (String?) -> Void) {
        guard let objects, let size = upload.size, let sha256 = upload.sha256 else { return reply(nil) }
        fileThreads.send(
            .run { [self] in
                // Without its file, the upload stays as it is.
                guard let source = try? source(of: upload), let bytes = source.hashable else {
                    return reply(nil)
                }
                let key = ContentObjects.key(for: upload.id)
                let sent = ContentUpload(
                    bytes: .file(bytes.descriptor, owner: bytes.owner), byteCount: size,
                    sha256: hexEncoded(sha256), key: key, stop: StopSignal())
                objects.store(sent) { error in reply(error == nil ? key : nil) }
            })
    }

    private static let missing = TransferError(
        .sourceNotFound, "The bytes of the upload are not on the disk any more.", phase: .receiving,
        isRetryable: false)
}

/// Removes files of uploads that do not exist. Slow on purpose; one thread at a time.
package struct UploadSweep: Sendable {
    /// Files that one question to the store is about, at most.
    private static let askMax = 500

    private let ask: @Sendable ([UploadID]) -> Set<UploadID>?
    private let isStopped: @Sendable () -> Bool

    /// `ask`: returns which of these uploads exist; `nil` if the store is not available.
    package init(
        ask: @escaping @Sendable ([UploadID]) -> Set<UploadID>?, isStopped: @escaping @Sendable () -> Bool
    ) {
        self.ask = ask
        self.isStopped = isStopped
    }

    /// Checks the files of uploads that were created before `instant`. Returns how many were removed.
    package func run(in directory: String, madeBefore instant: Timestamp) -> Int {
        var removed = 0
        for shard in directoryNames(directory) where shard.utf8.count == 2 && !isStopped() {
            let uploads = directoryNames("\(directory)/\(shard)").compactMap { UploadID($0) }
                .filter { $0.millisecondsSince1970 < instant.microseconds / 1_000 }
            for start in stride(from: 0, to: uploads.count, by: Self.askMax) where !isStopped() {
                let asked = uploads[start..<min(start + Self.askMax, uploads.count)]
                guard let known = ask(Array(asked)) else { return removed }
                removed += asked.count { upload in
                    !known.contains(upload) && unlink("\(directory)/\(StagedUploads.path(for: upload))") == 0
                }
            }
        }
        return removed
    }
}
