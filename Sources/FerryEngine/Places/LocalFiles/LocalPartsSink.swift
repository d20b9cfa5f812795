import FerryCore

/// The file of an attempt whose bytes come in parts. Loop thread only.
final class LocalPartsSink: PartsSink {
    private let place: LocalFiles
    private unowned let loop: EngineLoop
    private let attempt: Attempt
    private var opening: LocalFileOpening
    private var writer: LocalPartsWriter?
    /// The file for a later attempt, from `keep` to `leave`, and its bytes that could not be written.
    private var left: (file: PartialFile, lost: ByteRanges)?
    private var ranges = ByteRanges()
    var writeFailed: ((TransferError) -> Void)?

    init(_ destination: Destination, for attempt: Attempt, at place: LocalFiles, on loop: EngineLoop) {
        opening = LocalFileOpening(destination, at: place)
        self.attempt = attempt
        self.place = place
        self.loop = loop
    }

    // MARK: Before the first request

    func open(_ attempt: Attempt) throws(TransferError) -> SinkOpening {
        try opening.open(attempt, on: loop)
    }

    func opened() -> TransferError? { opening.opened(attempt) }

    var earlier: EarlierBytes? { opening.earlier }

    // MARK: While bytes arrive

    func takeName(from head: ResponseHead, _ url: WebURL) throws(TransferError) {
        try opening.takeName(from: head, url)
    }

    var isBegun: Bool { writer != nil }
    var byteCount: Int64? { writer?.file.byteCount ?? opening.resumption?.file.byteCount }

    func drop() -> Bool {
        if let writer {
            writer.discard()
            self.writer = nil
            return true
        }
        return opening.drop()
    }

    func begin(_ plan: PartsPlan) throws(TransferError) {
        let destination = opening.destination
        let directory = try destination.root.directory(destination.directory, making: true)
        var claim = opening.takeExpectedSpace(isLengthKnown: plan.total != nil)
        if claim == nil {
            claim = try place.space.claim(
                at: directory, expecting: plan.total ?? plan.expectedByteCount,
                estimatedBy: plan.total == nil ? attempt.tenant : nil)
        }
        write(try PartialFile(destination, in: directory), plan)
        writer?.claim = claim
    }

    func resume(_ plan: PartsPlan) throws(TransferError) {
        guard let resumption = opening.takeResumption() else { return }
        write(resumption.file, plan)
        writer?.advance(to: resumption.offset)
        try plan.allowance?.need(plan.total ?? 0)
        guard let directory = opening.destination.openDirectory, let total = plan.total else { return }
        writer?.claim = try place.space.claim(at: directory, expecting: total - resumption.byteCount)
    }

    private func write(_ file: PartialFile, _ plan: PartsPlan) {
        let (key, onLoop) = (AttemptKey(attempt), loop.runner)
        let made = LocalPartsWriter(
            file, plan.digests, fileThreads: place.fileThreads, stage: loop.stage, syncs: place.syncs
        ) { onLoop { $0.take(.placeCaughtUp, for: key) } }
        made.allowance = plan.allowance
        made.writeFailed = { [weak self] in self?.writeFailed?($0) }
        plan.content.show(file)
        writer = made
    }

    func append(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        try writer?.append(bytes, at: offset)
    }

    func flush() throws(TransferError) { try writer?.flush() }
    func wrote(_ range: Range<Int64>) { writer?.wrote(range) }
    func advance(to prefix: Int64) { writer?.advance(to: prefix) }
    var isFarBehind: Bool { writer?.isFarBehind ?? false }
    var hasCaughtUp: Bool { writer?.hasCaughtUp ?? false }
    var digests: Digests? { writer?.digests }
    func becomeResumable(_ record: PartialRecord) { writer?.file.becomeResumable(record) }

    func checkpoint(_ ranges: ByteRanges) {
        guard let file = writer?.file else { return }
        place.fileThreads.send(
            .run { [syncs = place.syncs] in file.checkpoint(syncs: syncs, ranges: ranges) })
    }

    // MARK: The end

    func commit(_ make: (any PendingContent) -> Publication) throws(TransferError) -> Publication {
        // No input reaches this: only a content whose bytes have come is committed.
        guard let writer else { preconditionFailure("no content has begun") }
        self.writer = nil
        return writer.publish { make(LocalFileContent(opening.destination, $0, place)) }
    }

    func keep() -> Bool {
        guard let writer else {
            left = opening.takeResumption().map { ($0.file, ByteRanges()) }
            return left != nil
        }
        self.writer = nil
        do throws(TransferError) {
            try writer.flush()
        } catch {
            guard error.code == .storageFull else {
                writer.discard()
                return false
            }
        }
        writer.stop()
        left = (writer.file, writer.lost)
        return true
    }

    func setRanges(_ ranges: ByteRanges) { self.ranges = ranges }

    func leave(_ done: @escaping @Sendable (PartialDownload?) -> Void) {
        guard let left else { return done(nil) }
        self.left = nil
        opening.leave(left.file, ranges.subtracting(left.lost), done)
    }

    func discard(then done: @escaping @Sendable () -> Void) {
        guard let writer else { return place.fileThreads.send(.run(done)) }
        self.writer = nil
        writer.discard(then: done)
    }

    func abort() { _ = drop() }

    func release() { opening.releaseSpace() }

    func judge(_ error: TransferError, of attempt: Attempt, expecting total: Int64?) -> TransferError {
        opening.judge(error, of: attempt, expecting: total)
    }
}
