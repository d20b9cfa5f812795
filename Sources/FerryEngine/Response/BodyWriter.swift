import FerryCore

/// Takes a body as it arrives: in memory while it is small, then in the partial file. Loop thread only.
final class BodyWriter: StagedWriter {
    /// Where and how the bytes are kept.
    struct Plan {
        /// Bytes that may stay in memory.
        let memoryLimit: Int
        /// For a body that only gathers there, or may have to; nil: it is small enough to stay.
        var gathering: Gathering?
        let byteCountMax: Int64?
        /// How long the file will be, as far as anybody knows, and who knows whether there is room for it.
        let fileByteCount: Int64?
        let space: StorageSpace
        /// Asked when the first file is needed.
        let destination: () throws(TransferError) -> Destination
        let digests: Digests
        /// Hands the digest of a large file to the file threads.
        let makeTail: (PartialFile, Digests) -> DigestTail
        /// Told of the file when it is made; nil for bodies that no later attempt goes on from.
        let opened: ((PartialFile) -> Void)?
    }

    /// A body that is in memory for a while.
    struct Gathering {
        let claim: BufferReservation
        /// On the loop's clock.
        let since: Int64
        /// Up to so many bytes stay, for however long, and nobody counts them.
        var stayingByteCount = 0
        /// Where it cannot go to a file it stays as well: it has none when all goes well.
        var needsNoFile = false
    }

    /// Where the bytes of a large file gather; nil: each piece is written as it comes.
    var stage: WriteStage?
    /// Told of a failure that no caller is there for.
    var writeFailed: ((TransferError) -> Void)?

    private let plan: Plan
    /// False when more is announced: then nothing is gathered first.
    private let staysInMemory: Bool
    private var memory: [UInt8] = []
    private var gathering: Gathering?
    private var file: PartialFile?
    private var claim: StorageClaim?
    private var tail: DigestTail?
    /// There was no room for its bytes.
    private var hasRunFull = false
    private(set) var byteCount: Int64 = 0
    /// Bytes that were there before; behind them the digest may be as late as it is.
    private let resumedByteCount: Int64
    /// What the whole body must be long; nil: libcurl sees to it.
    private let total: Int64?
    /// When the record was last written, on the loop's clock, and how much had come by then.
    var recorded: (at: Int64, byteCount: Int64) = (0, 0)

    init(_ plan: Plan, expected: Int64?) throws(TransferError) {
        // Nobody else holds the claim: it is let go as soon as the bytes are in the file.
        gathering = plan.gathering
        var plan = plan
        plan.gathering = nil
        self.plan = plan
        resumedByteCount = 0
        total = nil
        staysInMemory = expected ?? 0 <= Int64(plan.memoryLimit)
        if let expected {
            try checkLength(expected)
            if staysInMemory { memory.reserveCapacity(Int(expected)) }
        }
        // Before the first byte: a disk that is full is to be found now.
        if !staysInMemory { _ = try openFile() }
    }

    /// Goes on where an earlier attempt stopped; all of it is hashed again.
    init(_ plan: Plan, resuming file: PartialFile, total: Int64) throws(TransferError) {
        self.plan = plan
        self.file = file
        self.total = total
        staysInMemory = false
        resumedByteCount = file.byteCount
        byteCount = file.byteCount
        try checkLength(total)
        let destination = try plan.destination()
        let place = try destination.root.directory(destination.directory, making: true)
        claim = try plan.space.claim(at: place, expecting: total - byteCount)
        let tail = plan.makeTail(file, plan.digests)
        tail.advance(to: byteCount)
        self.tail = tail
    }

    /// Throws `response_too_large`, `storage_full`, `storage_failed` or what the destination's path deserves.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        let total = byteCount + Int64(bytes.count)
        try checkLength(total)
        if file == nil, staysInMemory, total <= Int64(plan.memoryLimit), try gathers(Int(total)) {
            memory.append(contentsOf: bytes)
        } else {
            try appendToFile(bytes)
        }
        byteCount = total
    }

    /// Whether memory has room for so many bytes of it. If not, what there is has gone to the file.
    private func gathers(_ count: Int) throws(TransferError) -> Bool {
        guard let gathering, count > gathering.stayingByteCount, !gathering.claim.grow(to: count) else {
            return true
        }
        return try !leaveMemory(gathering)
    }

    /// False: there is no file for it, and it stays.
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
            throw TransferError(
                .responseInvalid, "The server sent more than it had announced.", phase: .receiving,
                isRetryable: true)
        }
        guard count <= plan.byteCountMax ?? .max else {
            throw TransferError(
                .responseTooLarge, "The body is longer than the job accepts.", phase: .receiving,
                isRetryable: false)
        }
    }

    private func appendToFile(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        if let stage, tail != nil { return try stage.append(bytes, at: byteCount, for: self) }
        try write(bytes, at: byteCount)
    }

    /// Past the stage; always behind what was written before.
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
        if let tail {
            tail.advance(to: file.byteCount)
        } else {
            plan.digests.update(bytes)
            if file.byteCount >= EngineLimits.inlineDigestByteCountMax {
                tail = plan.makeTail(file, plan.digests)
            }
        }
    }

    /// The file, which takes over what was gathered in memory.
    private func openFile() throws(TransferError) -> PartialFile {
        if let file { return file }
        let destination = try plan.destination()
        let place = try destination.root.directory(destination.directory, making: true)
        let claim = try plan.space.claim(at: place, expecting: plan.fileByteCount)
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
        plan.opened?(file)
        plan.digests.update(memory)
        memory = []
        gathering = nil
        return file
    }

    /// Once a second: what has gathered for too long goes to the file. Throws as `append` does.
    func secondPassed(_ now: Int64) throws(TransferError) {
        guard let gathering, now - gathering.since >= EngineLimits.gatheringMax,
            memory.count > gathering.stayingByteCount
        else { return }
        _ = try leaveMemory(gathering)
    }

    /// Why the bytes cannot be hashed; nil: they can.
    var digestFailure: TransferError? { tail?.failure }

    /// Bytes that wait for their digest. Nothing while those from before are hashed: that takes as long as
    /// the disk needs, and the server would not wait for it.
    var lag: Int64 {
        let lag = tail?.lag(at: byteCount) ?? 0
        return byteCount - lag < resumedByteCount ? 0 : lag
    }

    /// Throws `incomplete_body` when a resumed answer, whole as it was, did not reach the file's end, and
    /// `storage_failed` when the file lacks bytes that have come.
    ///
    /// What is staged is written before.
    func checkEnd() throws(TransferError) {
        try stage?.flush(self)
        guard file?.byteCount ?? byteCount == byteCount else {
            throw TransferError(
                .storageFailed, "The file lacks bytes that were received.", phase: .finishing,
                isRetryable: true)
        }
        guard let total, byteCount < total else { return }
        throw TransferError(
            .incompleteBody, "The server sent less than was left of the file.", phase: .receiving,
            isRetryable: true)
    }

    /// Whether the drain itself knows where the body ends.
    var hasKnownEnd: Bool { total != nil }

    /// The file that a later attempt may go on from, if there is one. Not that of a body without a known end
    /// which has filled the disk: nobody promised it room, and what it holds may be all that others lack.
    private var resumableFile: PartialFile? {
        guard !hasRunFull || plan.fileByteCount != nil else { return nil }
        // Nothing to go on from is better than a failure for another reason.
        if gathering != nil, plan.opened != nil, !memory.isEmpty { _ = try? openFile() }
        guard let file, file.isResumable else { return nil }
        return file
    }

    /// Once a second: the file whose record should say how far it is, from time to time. Throws as `append`
    /// does: what is staged is written before, for behind bytes that are lost nothing may follow.
    func fileToRecord(_ now: Int64) throws(TransferError) -> PartialFile? {
        guard now - recorded.at >= EngineLimits.recordInterval,
            byteCount - recorded.byteCount >= EngineLimits.recordedByteCountMin
        else { return nil }
        try stage?.flush(self)
        guard let file = resumableFile else { return nil }
        recorded = (now, byteCount)
        return file
    }

    /// The file as it is left to a later attempt; nil: there is none, and what there is is to be discarded.
    /// The drain must not be used otherwise afterwards.
    func keep() -> PartialFile? {
        // Bytes that cannot be written are fetched again.
        try? stage?.flush(self)
        guard let file = resumableFile else { return nil }
        tail?.stop()
        return file
    }

    /// What was received, whole; nil when it went to a file.
    var inMemory: [UInt8]? { file == nil ? memory : nil }

    var digests: Digests { plan.digests }
    func destination() throws(TransferError) -> Destination { try plan.destination() }

    /// Hands the bytes to the file threads; the drain must not be used afterwards.
    func publish(_ lane: FileThreadPool, _ make: (Publication.Bytes) -> Publication) -> Publication {
        guard let file else {
            let publication = make(.memory(memory, gathering?.claim))
            lane.send(.publish(publication))
            return publication
        }
        claim = nil
        let publication = make(.file(file, tail))
        if let tail {
            tail.finish(at: file.byteCount, then: .publish(publication))
        } else {
            lane.send(.publish(publication))
        }
        return publication
    }

    /// Removes the partial file, if there is one.
    func discard(_ lane: FileThreadPool) {
        gathering = nil
        guard let file else { return }
        stage?.drop(self)
        tail?.stop()
        self.file = nil
        claim = nil
        lane.send(.run { file.discard() })
    }
}
