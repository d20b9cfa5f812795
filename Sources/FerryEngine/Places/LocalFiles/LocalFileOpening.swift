import FerryCore
import Glibc
import Synchronization
import Sys

/// Opening of an attempt's file: its location, and the bytes that a sink finds there before the first
/// request. Loop thread only.
struct LocalFileOpening {
    /// Result of the search by a file thread.
    private final class Search: Sendable {
        struct Found {
            var resumption: Resumption?
            var failure: TransferError?
        }
        private let found = Mutex(Found())

        func set(_ resumption: Resumption?, _ failure: TransferError?) {
            found.withLock { $0 = Found(resumption: resumption, failure: failure) }
        }

        func take() -> Found {
            found.withLock { found in
                defer { found = Found() }
                return found
            }
        }
    }

    let place: LocalFiles
    var destination: Destination
    /// Bytes of an earlier attempt, until a content begins, or they are dropped.
    private(set) var resumption: Resumption?
    /// Space for the bytes that the job expects, until a response says how many they are.
    private var expectedSpace: StorageClaim?
    private var search: Search?
    /// Whether the response suggests the name of the file.
    private let isNamedByResponse: Bool

    init(_ destination: Destination, at place: LocalFiles) {
        self.destination = destination
        isNamedByResponse = destination.name.isEmpty
        self.place = place
    }

    var earlier: EarlierBytes? {
        resumption.map { EarlierBytes(record: $0.record, ranges: $0.ranges) }
    }

    /// Looks for the bytes of earlier attempts if there may be any, and checks the destination that the job
    /// names, on a file thread. Throws as `needSpace` does, and what keeps the file from getting its name in
    /// a directory that was checked a moment ago.
    mutating func open(_ attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> SinkOpening {
        let mayHaveBytes = attempt.number > 1 || attempt.secrets.resumePoint != nil
        guard mayHaveBytes || !destination.isManaged else {
            try needSpace(attempt)
            return .opened
        }
        if !mayHaveBytes, let directory = checkedDirectory {
            try destination.checkName(in: directory)
            try needSpace(attempt)
            return .opened
        }
        let search = Search()
        self.search = search
        let (place, destination, key, onLoop) = (place, destination, AttemptKey(attempt), loop.runner)
        guard mayHaveBytes else {
            place.fileThreads.send(
                .run {
                    search.set(nil, destination.failure(noting: place.checkedDirectories))
                    onLoop { $0.sinkOpened(key) }
                })
            return .checking
        }
        let withGaps = attempt.spec.isFetchedInParts
        let identity =
            PartialRecord.isPossible(attempt.spec) ? PartialRecord.identity(of: attempt.spec.request) : nil
        let kept = place.keptPartialFiles.take([attempt.job]).first
        let point = attempt.secrets.resumePoint
        place.fileThreads.send(
            .run {
                if let kept { destination.adopt(kept, identity: identity, withGaps: withGaps) }
                // If the root of the other job does not open, its bytes cannot be used.
                if let point, place.keeps(point.location), let identity,
                    let other = try? place.destination(of: point)
                {
                    destination.adopt(from: other, identity: identity, withGaps: withGaps)
                }
                let found = destination.takeOver(identity: identity, withGaps: withGaps)
                let finish = { @Sendable (found: Resumption?, failure: TransferError?) in
                    search.set(found, failure ?? destination.failure(noting: place.checkedDirectories))
                    onLoop { $0.sinkOpened(key) }
                }
                guard found == nil, let identity, key.number > 1, let objects = destination.objects else {
                    return finish(found, nil)
                }
                // An attempt on another node may have left bytes in the content store.
                let isTaken = objects.runCopying {
                    do throws(TransferError) {
                        try objects.fetchPieces(into: destination, identity: identity, place.space)
                        let found = destination.takeOver(identity: identity, withGaps: withGaps)
                        finish(found, nil)
                    } catch {
                        finish(nil, error)
                    }
                }
                if !isTaken { finish(nil, .contentStoreUnavailable) }
            })
        return .searching
    }

    /// Takes what the file thread has found. Returns why the file cannot get its name, or has no space.
    mutating func opened(_ attempt: Attempt) -> TransferError? {
        let found = search?.take()
        search = nil
        resumption = found?.resumption
        if let failure = found?.failure { return failure }
        do throws(TransferError) {
            try needSpace(attempt)
            return nil
        } catch {
            return error
        }
    }

    /// Returns the directory of the destination if it was checked a moment ago, so that a look at one name in
    /// it does not wait for a disk; `nil` if it is not known, or while a disk may not answer.
    private var checkedDirectory: StorageDirectory? {
        guard !place.space.hasShortages, !place.space.isStalled,
            !place.fileThreads.isSlow(monotonicNanoseconds())
        else { return nil }
        return place.checkedDirectories.directory(of: destination)
    }

    // MARK: Space

    /// Promises the space that the job expects to need. Throws `storage_full` if it is not free, and
    /// `storage_unavailable` while writing there fails. Costs nothing for a job without expectations while no
    /// file system has failed.
    private mutating func needSpace(_ attempt: Attempt) throws(TransferError) {
        let space = place.space
        let expected = attempt.spec.expectedFileByteCount
        guard space.hasShortages || expected != nil, let directory = nearestDirectory else { return }
        if space.hasShortages {
            let total = resumption?.record.total ?? space.needs[attempt.job] ?? expected ?? 0
            try space.needSpace(at: directory, expecting: total, after: resumption?.byteCount ?? 0)
            space.needs.forget(attempt.job)
        }
        // The length of a file that is continued is known.
        guard let expected, resumption?.record.total == nil else { return }
        expectedSpace = try space.claim(at: directory, expecting: expected, estimatedBy: attempt.tenant)
    }

    /// The directory that the file goes to, or its root if that is not made yet.
    private var nearestDirectory: StorageDirectory? { destination.openDirectory ?? destination.root }

    /// Returns the expected space, once. A known length needs a claim of its own.
    mutating func takeExpectedSpace(isLengthKnown: Bool) -> StorageClaim? {
        defer { expectedSpace = nil }
        return isLengthKnown ? nil : expectedSpace
    }

    mutating func releaseSpace() { expectedSpace = nil }

    /// Notes what an error says about the disk. A failed write concerns the disk if no file can be written
    /// there, otherwise only this file.
    func judge(_ error: TransferError, of attempt: Attempt, expecting total: Int64?) -> TransferError {
        let space = place.space
        switch error.code {
        case .storageFull:
            if error.isRetryable, attempt.spec.storesFile, let directory = destination.openDirectory {
                space.noteFull(at: directory)
            }
            if let total { space.needs.note(attempt.job, total) }
        // An error without a cause in the operating system is that of the content store.
        case .storageUnavailable where error.osError != 0:
            // A disk that hangs would block the loop as well.
            if !space.isStalled, let nearestDirectory, !space.isUnavailable(at: nearestDirectory) {
                return error.ofThisFile
            }
        default: break
        }
        return error
    }

    // MARK: The bytes of earlier attempts

    /// Returns the bytes of the earlier attempt, which are no longer held here.
    mutating func takeResumption() -> Resumption? {
        defer { resumption = nil }
        return resumption
    }

    /// Removes the bytes of the earlier attempt. Returns `false` if there are none.
    mutating func drop() -> Bool {
        guard let resumption = takeResumption() else { return false }
        place.fileThreads.send(.run { resumption.file.discard() })
        return true
    }

    /// Takes the name that a response suggests, if the job names only a directory, and checks it.
    mutating func takeName(from head: ResponseHead, _ url: WebURL) throws(TransferError) {
        guard isNamedByResponse else { return }
        destination.takeName(from: head, url)
        try destination.check()
    }

    /// Lets a file thread save the file for a later attempt. `ranges`: of the file; `nil`: all of it.
    func leave(
        _ file: PartialFile, _ ranges: ByteRanges?, _ done: @escaping @Sendable (PartialDownload?) -> Void
    ) {
        place.fileThreads.send(
            .run { [place] in
                let kept = file.keep(syncs: place.syncs, ranges: ranges)
                guard let kept else {
                    file.discard()
                    return done(nil)
                }
                place.keptPartialFiles.add(kept)
                file.sendPieces { done(kept.partialDownload) }
            })
    }
}

extension TransferError {
    /// The error of a failed write that concerns only this file.
    fileprivate var ofThisFile: TransferError {
        TransferError(
            .storageFailed, "The file could not be written.", phase: phase, isRetryable: true,
            osError: osError)
    }
}
