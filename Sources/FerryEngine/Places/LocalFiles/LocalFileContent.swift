import CSys
import FerryCore
import Glibc
import Synchronization

/// A file whose bytes have come whole: small bodies are in memory, others in their partial file.
final class LocalFileContent: PendingContent {
    /// The bytes. `memory`: with the memory that is promised to them, if it is more than a little.
    enum Bytes: Sendable {
        case memory([UInt8], BufferReservation?)
        case file(PartialFile, DigestTail?)
    }

    /// A directory that contents of a batch share, and what its sync has led to.
    private final class SharedDirectory {
        let directory: StorageDirectory
        private var isSynced = false
        private var failure: TransferError?

        init(_ directory: StorageDirectory) { self.directory = directory }

        /// Brings the names in the directory to stable storage, once.
        func sync() throws(TransferError) {
            if !isSynced {
                isSynced = true
                if fsync(directory.descriptor) != 0 { failure = storageError(errno) }
            }
            if let failure { throw failure }
        }
    }

    private struct State {
        var directory: StorageDirectory?
        /// The partial file, as soon as all bytes are in it.
        var file: PartialFile?
        /// Space that is promised to bytes in memory.
        var claim: StorageClaim?
    }

    private let destination: Destination
    private let bytes: Bytes
    private let place: LocalFiles
    private let state: Mutex<State>

    init(_ destination: Destination, _ bytes: Bytes, _ place: LocalFiles) {
        self.destination = destination
        self.bytes = bytes
        self.place = place
        var state = State()
        if case .file(let file, _) = bytes { state.file = file }
        self.state = Mutex(state)
    }

    private var file: PartialFile? { state.withLock { $0.file } }

    var byteCount: Int64 {
        switch bytes {
        case .memory(let bytes, _): Int64(bytes.count)
        case .file(let file, _): file.byteCount
        }
    }

    // MARK: Verification

    func stopHashing() { if case .file(_, let tail) = bytes { tail?.stop() } }

    func finishHashing(_ digests: Digests, _ batch: CommitBatch) throws(TransferError) {
        let directory = try shared(batch).directory
        state.withLock { $0.directory = directory }
        switch bytes {
        case .memory(let bytes, let gathering):
            // A small body is written even if only the reserve is left: it was fetched already.
            if gathering != nil {
                try state.withLock { (state) throws(TransferError) in
                    state.claim = try place.space.claim(at: directory, expecting: Int64(bytes.count))
                }
            }
            digests.update(bytes)
        case .file(_, let tail): if let failure = tail?.failure { throw failure }
        }
    }

    private func shared(_ batch: CommitBatch) throws(TransferError) -> SharedDirectory {
        try batch.object(destination.directoryKey) {
            () throws(TransferError) in
            SharedDirectory(try destination.root.directory(destination.directory, making: true))
        }
    }

    func contents() throws(TransferError) -> [UInt8] {
        switch bytes {
        case .memory(let bytes, _): return bytes
        case .file(let file, let tail):
            if let failure = tail?.failure { throw failure }
            return try file.contents()
        }
    }

    var bytesToSend: ContentUpload.Bytes {
        switch bytes {
        case .memory(let bytes, _): .memory(bytes)
        case .file(let file, _): .file(file.descriptor, owner: file)
        }
    }

    // MARK: Stable storage

    func store() throws(TransferError) {
        guard case .memory(let bytes, _) = bytes else { return }
        try state.withLock { (state) throws(TransferError) in
            guard let directory = state.directory else { return }
            let file = try PartialFile(destination, in: directory)
            state.file = file
            try state.claim?.take(bytes.count, file.descriptor)
            try file.append(bytes)
        }
    }

    func beginSync() { if let file { csys_start_writeback(file.descriptor, 0, 0) } }

    func sync() throws(TransferError) { try file?.sync() }

    func syncLocation(_ batch: CommitBatch) throws(TransferError) { try shared(batch).sync() }

    // MARK: The end

    func commit() throws(TransferError) -> CommittedContent {
        let (file, directory) = state.withLock { ($0.file, $0.directory) }
        // No input reaches this: `store` has made the file of bytes in memory.
        guard let file, let directory else { preconditionFailure("only a stored file is committed") }
        let identity = file.identity
        let name = try give(file, in: directory)
        file.forgetRecord()
        // Closed here, on a file thread: close(2) may wait for the disk, and the loop must not.
        state.withLock { ($0.file, $0.directory) = (nil, nil) }
        // Managed files need no identity: only the service writes in their directory.
        return CommittedContent(
            location: destination.location(of: name), identity: destination.isManaged ? nil : identity)
    }

    func putAside(syncs: Bool) -> PartialDownload? {
        guard let file else { return nil }
        guard let kept = file.keep(syncs: syncs) else {
            file.discard()
            return nil
        }
        place.keptPartialFiles.add(kept)
        return kept.partialDownload
    }

    func abort() { file?.discard() }

    /// `replace` renames the partial file. The other values of `if_exists` link it, so that no file is
    /// overwritten, and keep the partial file until the result is committed: it proves to the next attempt
    /// that the published file is this job's.
    private func give(_ file: PartialFile, in directory: StorageDirectory) throws(TransferError) -> String {
        let (place, partial) = (directory.descriptor, file.name)
        if destination.ifExists == .replace {
            guard Self.named(partial, destination.name, { renameat(place, $0, place, $1) }) == 0 else {
                throw storageError(errno)
            }
            return destination.name
        }
        let last = destination.ifExists == .rename ? EngineLimits.renameCountMax : 0
        for number in 0...last {
            let name = destination.name(numbered: number)
            if Self.named(partial, name, { linkat(place, $0, place, $1, 0) }) == 0 {
                // All is written: a next attempt may look at the file, however long it stays open here.
                file.letGo()
                self.place.keptPartialFiles.add(KeptPartialFile(destination, partial: partial))
                return name
            }
            if errno == EEXIST { continue }
            if try Self.moved(partial, to: name, in: place) { return name }
        }
        throw storageError(EEXIST)
    }

    /// Calls a function with two names, without copies of them.
    private static func named(
        _ partial: String, _ name: String, _ call: (UnsafePointer<CChar>, UnsafePointer<CChar>) -> Int32
    ) -> Int32 {
        partial.withCString { partial in name.withCString { name in call(partial, name) } }
    }

    /// Renames without overwriting, for file systems without hard links, such as many in user space. Nothing
    /// proves afterwards whose file it is. Returns `false` if the name is taken.
    private static func moved(
        _ partial: String, to name: String, in place: Int32
    ) throws(TransferError) -> Bool {
        if csys_rename_noreplace(place, partial, place, name) == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS, EOPNOTSUPP:
            throw TransferError(
                .destinationInvalid,
                "The disk cannot give a name only if it is free; there if_exists has to be replace.",
                phase: .finishing, isRetryable: false, osError: errno)
        default: throw storageError(errno)
        }
    }
}
