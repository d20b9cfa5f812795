import Curl
import FerryCore

/// The file of an attempt whose bytes come one after the other. Loop thread only.
final class LocalFileSink: StreamSink {
    private let place: LocalFiles
    private unowned let loop: EngineLoop
    private let attempt: Attempt
    /// `nil` until the attempt needs a file: bodies that stay in memory need none.
    private var opening: LocalFileOpening?
    private var writer: LocalFileWriter?
    /// The file for a later attempt, from `keep` to `leave`.
    private var left: PartialFile?
    var writeFailed: ((TransferError) -> Void)? {
        get { writer?.writeFailed }
        set { writer?.writeFailed = newValue }
    }

    init(for attempt: Attempt, at place: LocalFiles, on loop: EngineLoop) {
        self.attempt = attempt
        self.place = place
        self.loop = loop
    }

    /// Returns where the file goes.
    private func destination() throws(TransferError) -> Destination {
        if let opening { return opening.destination }
        let destination = try place.destination(of: attempt)
        opening = LocalFileOpening(destination, at: place)
        return destination
    }

    // MARK: Before the first request

    func open(_ attempt: Attempt) throws(TransferError) -> SinkOpening {
        var opening = LocalFileOpening(try place.destination(of: attempt), at: place)
        defer { self.opening = opening }
        return try opening.open(attempt, on: loop)
    }

    func opened() -> TransferError? { opening?.opened(attempt) }

    var earlier: EarlierBytes? { opening?.earlier }
    var isBegun: Bool { writer != nil }

    // MARK: While bytes arrive

    func takeName(from head: ResponseHead, _ url: WebURL) throws(TransferError) {
        try opening?.takeName(from: head, url)
    }

    var byteCount: Int64? { writer?.byteCount ?? opening?.resumption?.file.byteCount }

    func drop() -> Bool {
        if let writer {
            writer.discard(freesName: true)
            self.writer = nil
            return true
        }
        return opening?.drop() ?? false
    }

    private func setting(isLengthKnown: Bool) -> LocalFileWriter.Setting {
        LocalFileWriter.Setting(
            space: place.space, fileThreads: place.fileThreads, syncs: place.syncs,
            destination: { [unowned self] () throws(TransferError) in try destination() },
            reader: (loop, AttemptKey(attempt)),
            expectedSpace: opening?.takeExpectedSpace(isLengthKnown: isLengthKnown))
    }

    func begin(_ plan: ContentPlan) throws(TransferError) {
        let made = try LocalFileWriter(plan, setting(isLengthKnown: plan.length != nil))
        take(made, plan, isContinued: false)
    }

    func resume(_ plan: ContentPlan, total: Int64) throws(TransferError) {
        // No input reaches this: the attempt resumes only what it has found.
        guard let file = opening?.resumption?.file else { preconditionFailure("nothing to resume") }
        let made = try LocalFileWriter(plan, setting(isLengthKnown: true), resuming: file, total: total)
        _ = opening?.takeResumption()
        take(made, plan, isContinued: true)
    }

    private func take(_ made: LocalFileWriter, _ plan: ContentPlan, isContinued: Bool) {
        if isContinued || plan.length ?? 0 >= EngineLimits.recordedByteCountMin {
            made.recorded.at = loop.multi.now
        }
        if plan.length ?? .max >= EngineLimits.bulkByteCountMin { made.stage = loop.stage }
        writer = made
    }

    func expect(total: Int64) throws(TransferError) { try writer?.expect(total: total) }
    var writesLater: Bool { writer?.stage != nil }
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) { try writer?.append(bytes) }
    var lag: Int64 { writer?.lag ?? 0 }
    var failure: TransferError? { writer?.digestFailure }
    var isShort: Bool { writer?.isShort ?? false }
    var hasKnownEnd: Bool { writer?.hasKnownEnd ?? false }
    func checkEnd() throws(TransferError) { try writer?.checkEnd() }
    var inMemory: [UInt8]? { writer?.inMemory }
    var digests: Digests? { writer?.digests }

    func secondPassed(_ now: Int64) throws(TransferError) {
        guard let writer else { return }
        if let file = try writer.fileToRecord(now) {
            place.fileThreads.send(.run { [syncs = place.syncs] in file.checkpoint(syncs: syncs) })
        }
        try writer.secondPassed(now)
    }

    // MARK: The end

    func commit(_ make: (any PendingContent) -> Publication) throws(TransferError) -> Publication {
        let destination = try destination()
        // No input reaches this: only a content whose bytes have come is committed.
        guard let writer else { preconditionFailure("no content has begun") }
        self.writer = nil
        return writer.publish { make(LocalFileContent(destination, $0, place)) }
    }

    func keep() -> Bool {
        let earlier = opening?.takeResumption()
        if let writer {
            left = writer.keep()
            if left == nil { writer.discard() }
            self.writer = nil
        } else {
            left = earlier?.file
        }
        return left != nil
    }

    func leave(_ done: @escaping @Sendable (PartialDownload?) -> Void) {
        guard let left else { return done(nil) }
        self.left = nil
        opening?.leave(left, nil, done)
    }

    func abort() {
        writer?.discard()
        writer = nil
        _ = opening?.drop()
    }

    func release() { opening?.releaseSpace() }

    func judge(_ error: TransferError, of attempt: Attempt, expecting total: Int64?) -> TransferError {
        // The attempt reports why its root does not open when it opens its destination.
        guard (try? destination()) != nil, let opening else { return error }
        return opening.judge(error, of: attempt, expecting: total)
    }
}
