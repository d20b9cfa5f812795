import FerryCore

/// Writes a content as it arrives: into memory while it is small, then into the partial file. Loop thread
/// only.
final class LocalFileWriter: StagedWriter {
    /// The place of the file, and what happens beside the writing.
    struct Setting {
        let space: StorageSpace
        let fileThreads: FileThreadPool
        let syncs: Bool
        /// Called when the first file is needed.
        let destination: () throws(TransferError) -> Destination
        /// The attempt that resumes reading when the digest has caught up; `nil` if none reads.
        var reader: (loop: EngineLoop, attempt: AttemptKey)?
        /// Space that is promised already; `nil` if the file has to claim it.
        var expectedSpace: StorageClaim?
    }

    /// Gathers the bytes of a large file; `nil` if each piece is written as it comes.
    var stage: WriteStage?
    /// Called with a failure for which there is no caller.
    var writeFailed: ((TransferError) -> Void)?

    private let plan: ContentPlan
    private let setting: Setting
    /// Whether the body may stay in memory. `false` if its announced length is too large; then it goes to the
    /// file at once.
    private let staysInMemory: Bool
    private var memory: [UInt8] = []
    private var gathering: Gathering?
    private var file: PartialFile?
    /// Until there is a file: the space that the job expects.
    private var claim: StorageClaim?
    private var tail: DigestTail?
    /// Whether a write has found no space.
    private var hasRunFull = false
    /// Whether readers follow the job, but its bytes could not leave the memory.
    private var staysUnread = false
    private(set) var byteCount: Int64 = 0
    /// Bytes of the earlier attempt. Until they are hashed, the digest's lag does not count.
    private let resumedByteCount: Int64
    /// Required length of the whole file; `nil` if libcurl checks the length.
    private var total: Int64?
    /// When the record was last written, in nanoseconds of the loop's clock, and the bytes received by then.
    var recorded: (at: Int64, byteCount: Int64) = (0, 0)

    init(_ plan: ContentPlan, _ setting: Setting) throws(TransferError) {
        // Only `gathering` holds the reservation, which is released as soon as the bytes are in the file.
        gathering = plan.gathering
        claim = setting.expectedSpace
        var (plan, setting) = (plan, setting)
        plan.gathering = nil
        setting.expectedSpace = nil
        self.plan = plan
        self.setting = setting
        resumedByteCount = 0
        total = nil
        staysInMemory = plan.length ?? 0 <= Int64(plan.memoryLimit)
        if let length = plan.length {
            try checkLength(length)
            if staysInMemory { memory.reserveCapacity(Int(length)) }
        }
        // A full disk is found before the first byte.
        if !staysInMemory { _ = try openFile() }
    }

    /// Continues where an earlier attempt stopped. All bytes are hashed again.
    init(
        _ plan: ContentPlan, _ setting: Setting, resuming file: PartialFile, total: Int64
    ) throws(TransferError) {
        self.plan = plan
        self.setting = setting
        self.file = file
        self.total = total
        staysInMemory = false
        resumedByteCount = file.byteCount
        byteCount = file.byteCount
        try checkLength(total)
        let destination = try setting.destination()
        let place = try destination.root.directory(destination.directory, making: true)
        claim = try setting.space.claim(at: place, expecting: total - byteCount)
        let tail = makeTail(file)
        tail.advance(to: byteCount)
        self.tail = tail
        file.advance(to: byteCount)
        plan.content?.show(file)
    }

    /// The next bytes continue these, or are the first ones of a file of `total` bytes. Throws
    /// `response_too_large`.
    func expect(total: Int64) throws(TransferError) {
        self.total = total
        try checkLength(total)
    }

    /// Whether bytes of the whole file are missing, as far as its length is known from a range.
    var isShort: Bool { total.map { byteCount < $0 } ?? false }

    /// Throws `response_too_large`, `storage_quota_exceeded`, `storage_full`, `storage_failed`, or an error
    /// of the destination's path.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        let total = byteCount + Int64(bytes.count)
        try checkLength(total)
        if file == nil, staysInMemory, total <= Int64(plan.memoryLimit), try gathers(Int(total)) {
            memory.append(contentsOf: bytes)
        } else {
            try appendToFile(bytes)
        }
        byteCount = total
        if file == nil, plan.content?.isFollowed == true { showMemory() }
    }

    /// Moves the bytes in memory to a file, for readers that follow the job. If no file can be made, they get
    /// the bytes at the end of the job.
    private func showMemory() {
        guard !staysUnread, !memory.isEmpty else { return }
        staysUnread = (try? openFile()) == nil
    }

    /// Whether so many bytes may be in memory. If not, the body moves to the file.
    private func gathers(_ count: Int) throws(TransferError) -> Bool {
        guard let gathering, count > gathering.stayingByteCount, !gathering.claim.grow(to: count) else {
            return true
        }
        return try !leaveMemory(gathering)
    }

    /// Moves the body to its file. Returns `false` if no file could be made and the body stays in memory.
    private func leaveMemory(_ gathering: Gathering) throws(TransferError) -> Bool {
        do throws(TransferError) {
            _ = try openFile()
            return true
        } catch {
            guard gathering.needsNoFile else { throw error }
            self.gathering = nil
            return false
        }
    }

    private func checkLength(_ count: Int64) throws(TransferError) {
        guard count <= total ?? .max else {
            throw .longerThanAnnounced
        }
        guard count <= plan.byteCountMax ?? .max else {
            throw .longerThanAccepted(.receiving)
        }
        try plan.allowance?.need(count)
    }

    private func appendToFile(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        if let stage, tail != nil { return try stage.append(bytes, at: byteCount, for: self) }
        try write(bytes, at: byteCount)
    }

    /// Appends to the file, without the stage.
    func write(_ bytes: UnsafeRawBufferPointer, at _: Int64) throws(TransferError) {
        do throws(TransferError) {
            try put(bytes)
        } catch {
            if error.code == .storageFull { hasRunFull = true }
            throw error
        }
    }

    private func put(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        let file = try openFile()
        try claim?.take(bytes.count, file.descriptor)
        try file.append(bytes)
        file.advance(to: file.byteCount)
        if let tail {
            tail.advance(to: file.byteCount)
        } else {
            plan.digests.update(bytes)
            if file.byteCount >= EngineLimits.inlineDigestByteCountMax {
                tail = makeTail(file)
            }
        }
    }

    /// Returns the file. Makes it first if needed, and moves the bytes in memory there.
    private func openFile() throws(TransferError) -> PartialFile {
        if let file { return file }
        let destination = try setting.destination()
        let place = try destination.root.directory(destination.directory, making: true)
        let claim: StorageClaim
        if let expected = self.claim {
            claim = expected
        } else {
            claim = try setting.space.claim(
                at: place, expecting: plan.expectedByteCount, estimatedBy: plan.estimatedBy)
        }
        let file = try PartialFile(destination, in: place)
        do throws(TransferError) {
            try claim.take(memory.count, file.descriptor)
            try file.append(memory)
        } catch {
            file.discard()
            throw error
        }
        self.claim = claim
        self.file = file
        record(file)
        file.advance(to: file.byteCount)
        plan.content?.show(file)
        plan.digests.update(memory)
        memory = []
        gathering = nil
        return file
    }

    /// Lets a later attempt continue the new file, if the response allows it.
    private func record(_ file: PartialFile) {
        guard let record = plan.record else { return }
        file.becomeResumable(record)
        if let length = plan.length, length >= EngineLimits.recordedByteCountMin {
            setting.fileThreads.send(.run { file.checkpoint(syncs: false) })
        }
    }

    /// Lets the file threads hash a large file.
    private func makeTail(_ file: PartialFile) -> DigestTail {
        let bytes = DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: setting.syncs)
        guard let (loop, attempt) = setting.reader else {
            return DigestTail(bytes, plan.digests, fileThreads: setting.fileThreads) {}
        }
        let onLoop = loop.runner
        return DigestTail(bytes, plan.digests, fileThreads: setting.fileThreads) {
            onLoop { $0.take(.placeCaughtUp, for: attempt) }
        }
    }

    /// Called once a second: moves a body to the file that has gathered for too long, or that readers follow.
    /// Throws as `append` does.
    func secondPassed(_ now: Int64) throws(TransferError) {
        if file == nil, plan.content?.isFollowed == true { showMemory() }
        guard file == nil, let gathering, now - gathering.since >= EngineLimits.gatheringMax,
            memory.count > gathering.stayingByteCount
        else { return }
        _ = try leaveMemory(gathering)
    }

    /// The failure of hashing; `nil` if there is none.
    var digestFailure: TransferError? { tail?.failure }

    /// Bytes that are not hashed yet. 0 while bytes of the earlier attempt are hashed: that takes as long as
    /// the disk needs, and the server would not wait for it.
    var lag: Int64 {
        let lag = tail?.lag(at: byteCount) ?? 0
        return byteCount - lag < resumedByteCount ? 0 : lag
    }

    /// Throws `incomplete_body` if a complete response to a resumed request did not reach the file's end, and
    /// `storage_failed` if the file lacks received bytes.
    ///
    /// Writes staged bytes first.
    func checkEnd() throws(TransferError) {
        try stage?.flush(self)
        guard file?.byteCount ?? byteCount == byteCount else {
            throw TransferError(
                .storageFailed, "The file lacks bytes that were received.", phase: .finishing,
                isRetryable: true)
        }
        guard let total, byteCount < total else { return }
        throw .shortBody
    }

    /// Whether the end of the body is known without the response's framing.
    var hasKnownEnd: Bool { total != nil }

    /// The file that a later attempt may continue, if there is one. The file of a body of unknown length that
    /// has filled the disk is not kept: other transfers may need its space.
    private var resumableFile: PartialFile? {
        guard !hasRunFull || plan.expectedByteCount != nil else { return nil }
        // If the bytes cannot be moved to a file, there is nothing to continue, and the attempt keeps its own
        // error.
        if gathering != nil, plan.record != nil, !memory.isEmpty { _ = try? openFile() }
        guard let file, file.isResumable else { return nil }
        return file
    }

    /// Called once a second: returns the file if its record is due. Staged bytes are written first, since no
    /// byte may follow lost ones. Throws as `append` does.
    func fileToRecord(_ now: Int64) throws(TransferError) -> PartialFile? {
        guard now - recorded.at >= EngineLimits.recordInterval,
            byteCount - recorded.byteCount >= EngineLimits.recordedByteCountMin
        else { return nil }
        try stage?.flush(self)
        guard let file = resumableFile else { return nil }
        recorded = (now, byteCount)
        return file
    }

    /// Returns the file that is left to a later attempt; `nil` if there is none, and the caller then calls
    /// `discard`. The writer must not be used otherwise afterwards.
    func keep() -> PartialFile? {
        // A later attempt fetches bytes again that cannot be written now.
        try? stage?.flush(self)
        guard let file = resumableFile else { return nil }
        tail?.stop()
        return file
    }

    /// The whole body; `nil` if it went to a file.
    var inMemory: [UInt8]? { file == nil ? memory : nil }

    var digests: Digests { plan.digests }

    /// Passes the bytes to the file threads. The writer must not be used afterwards.
    func publish(_ make: (LocalFileContent.Bytes) -> Publication) -> Publication {
        guard let file else {
            let publication = make(.memory(memory, gathering?.claim))
            setting.fileThreads.send(.publish(publication))
            return publication
        }
        claim = nil
        let publication = make(.file(file, tail))
        if let tail {
            tail.finish(at: file.byteCount, then: .publish(publication))
        } else {
            setting.fileThreads.send(.publish(publication))
        }
        return publication
    }

    /// Removes the partial file, if there is one. `freesName`: at once, so that another file can have the
    /// name. That is fast: the bytes go when a file thread closes the file.
    func discard(freesName: Bool = false) {
        gathering = nil
        guard let file else { return }
        stage?.drop(self)
        tail?.stop()
        self.file = nil
        claim = nil
        if freesName { file.discard() }
        setting.fileThreads.send(.run { if !freesName { file.discard() } })
    }
}
