import Curl
import FerryCore
import OpenSSL

/// The requests of an upload to a store in parts: those that begin and complete it, one after the other, and
/// those that send parts, several at once. `MultipartConversation` decides about the former, `PartList` about
/// the latter. Loop thread only.
final class MultipartExchanges: SeveralConnections {
    /// Number of parts that are sent at once.
    static let connectionCountMax = 4
    /// Number of parts that are hashed before a connection is free for them.
    static let readyCountMax = 2

    unowned let running: RunningAttempt
    var attempt: Attempt { running.attempt }
    var context: EngineContext { running.context }
    var loop: EngineLoop { running.loop }
    /// Now on the loop's clock, in nanoseconds.
    var now: Int64 { loop.multi.now }
    var sink: (any ByteSink)? { nil }

    let object: JobSpec.StoreObject
    let source: any ByteSource
    /// The bytes of a copy as they come, and the requests that fetch them; `nil` for other jobs.
    let fetched: (file: FetchedFile, by: SourceExchange)?
    private let bytes: DigestTail.Bytes
    /// The body as a whole: its digests, and the check of its source.
    var body: RequestBody
    var parts: PartList
    var conversation: MultipartConversation
    /// The upload as later attempts need it; `nil` if there is none.
    var stored: ResumableUpload?
    /// Whether the database says that the store keeps an upload of the job.
    private var isNoted = false
    /// Identity of the bytes and of what the upload was begun with; `nil` if the source does not tell.
    let identity: String?
    /// Session token of the key that signs the requests; `nil` for other keys.
    let token: String?
    /// Facts that the store has told, for all requests from then on.
    var correction = StoreCorrection()

    /// The requests that run, by the order in which they began.
    var exchanges: [StoreExchange] = []
    private var hashes: [Int: PartHash] = [:]
    /// Digests of the whole body; `nil` until it is hashed.
    var digests: PayloadDigests?
    private var hashesWhole = false
    /// Whether requests are sent: from `start` to the result.
    var isSending = false
    private var isFilling = false
    private var mustFillAgain = false

    /// The job's own speed limit, which all requests share.
    private var rate: TokenBucket?
    /// The job's places in its own limit and in all others.
    private var places = JobPlaces()
    var connections: AttemptConnections
    /// Reason for which the last request was not sent, if a host may not be used.
    var hold: HostHold?
    /// Failures without a part that got through between them.
    var failureCount = 0
    /// Failures of each part that has not got through.
    var partFailureCounts: [Int: Int] = [:]
    /// Number of requests to complete the upload that have failed.
    var completionFailureCount = 0
    /// When the next request may be sent after a failure, in nanoseconds of the loop's clock.
    var pausedUntil: Int64 = 0
    /// Bytes of parts that the store had when the attempt began.
    var foundByteCount: Int64 = 0
    /// Whether they are known.
    var isListed = false
    /// The last response that counts, with the beginning of its body if it was refused.
    var shown: (head: ResponseHead, url: WebURL, excerpt: [UInt8])?
    /// Whether `shown` was reported to host control already.
    var isShownReported = false
    /// Reason for which the store refuses to complete the upload, while the object is looked at.
    var refusal: TransferError?
    /// The object at the store, when the upload has succeeded.
    var made: StoreObjectFacts?
    /// Whether a later attempt or another job may continue the upload.
    private(set) var keepsUpload = false
    /// The outcome that is reported when the upload is removed.
    var awaitedOutcome: AttemptResult.Outcome?

    /// `nil` if the body is sent with one request.
    convenience init?(of running: RunningAttempt, _ body: RequestBody) {
        let attempt = running.attempt
        guard let destination = attempt.spec.destination?.object, let divisible = body.source?.divisible,
            let total = body.byteCount
        else { return nil }
        // A store takes parts in signed requests only.
        let isSigned = attempt.storeKey(running.context.nodeCredentials) != nil
        let limit = isSigned ? Limits.singlePutByteCountMax : Limits.objectByteCountMax
        // An upload of other bytes has to be removed, however many there are now.
        guard total > limit || attempt.upload?.dialect == .s3 else { return nil }
        self.init(
            running, body, destination, divisible.source, divisible.bytes, total: total, fetched: nil)
    }

    /// Sends the object of a copy, whose bytes come. `contents`: the only source is `file`. Throws
    /// `size_mismatch` if a store takes no object of this size.
    convenience init(
        of running: RunningAttempt, copying contents: BodyContents, _ file: FetchedFile,
        from source: SourceExchange
    ) throws(TransferError) {
        // No input reaches this: only requests to a store have such a file.
        guard let destination = running.attempt.spec.destination?.object else {
            preconditionFailure("a copy to no store")
        }
        guard running.attempt.storeKey(running.context.nodeCredentials) != nil else {
            throw .tooLargeUnsigned(limit: file.partByteCount)
        }
        let total = file.byteCount
        if let total, total > PartDivision.copyByteCountMax {
            throw .tooLargeForStore(total, limit: PartDivision.copyByteCountMax)
        }
        var body = RequestBody()
        let (key, onLoop) = (running.key, running.loop.runner)
        try body.open(contents, of: running.attempt.spec, running.context.fileThreads) {
            onLoop { $0.take(.fetchedHashed, for: key) }
        }
        self.init(running, body, destination, file, file.bytes, total: total, fetched: (file, source))
    }

    private init(
        _ running: RunningAttempt, _ body: RequestBody, _ destination: JobSpec.ObjectDestination,
        _ source: any ByteSource, _ bytes: DigestTail.Bytes, total: Int64?,
        fetched: (file: FetchedFile, by: SourceExchange)?
    ) {
        let attempt = running.attempt
        self.running = running
        self.body = body
        self.source = source
        self.bytes = bytes
        self.fetched = fetched
        object = destination.object
        token = attempt.storeKey(running.context.nodeCredentials)?.sessionToken
        rate = attempt.spec.bytesPerSecondMax.map {
            TokenBucket(bytesPerSecond: $0, now: running.loop.multi.now)
        }
        connections = AttemptConnections(own: attempt.scope, hasOwn: running.isLeasedForTarget)
        identity = Self.identity(attempt, destination, source)
        let earlier = attempt.upload?.dialect == .s3 ? attempt.upload : nil
        let known = earlier?.parts.flatMap { earlier in
            total.flatMap { PartDivision(total: $0, partByteCount: earlier.byteCount) }
        }
        // The memory of a copy is for parts of this size.
        let ofCopy = fetched?.file.partByteCount
        let isUsable =
            known != nil && earlier?.byteCount == total && earlier?.body == identity
            && (ofCopy == nil || known?.partByteCount == ofCopy)
            && isSameLink(earlier?.target ?? "", attempt.spec.request.url)
        if let ofCopy {
            let division = PartDivision(
                arrived: total ?? 0, isWhole: total != nil, partByteCount: ofCopy)
            parts = PartList(ofCopy: division, total: total)
        } else {
            let division = PartDivision(total: total ?? 0)
            parts = PartList(isUsable ? known ?? division : division)
        }
        conversation = MultipartConversation(earlier: earlier?.parts?.upload, isUsable: isUsable)
        isNoted = earlier != nil && attempt.nextRequest != nil
        guard let earlier, isUsable else { return }
        stored = earlier
        parts.haveDigestTags = earlier.parts?.haveDigestTags ?? false
    }

    /// Text that two uploads share only if they have the same bytes and begin with the same request.
    private static func identity(
        _ attempt: Attempt, _ destination: JobSpec.ObjectDestination, _ source: any ByteSource
    ) -> String? {
        guard let bytes = BodyContents([.source(source)], subject: 0).identity else { return nil }
        let create = MultipartRequest(kind: .create)
        let fields =
            create.fields(of: destination, attempt.spec.storeChecksum, mayReplace: true)
            + attempt.spec.request.headers.filter { create.has($0.name.lowercased()) }
        let text = fields.map { "\($0.name): \($0.value)\n" }.joined()
        return hexEncoded(Digest.of(Array("\(bytes)\n\(text)".utf8)))
    }

    // MARK: State machine

    func begin() throws(TransferError) {
        resumeUpload()
        running.becomeBulk()
        running.handle(.prepared)
    }

    /// Continues an earlier upload, if there is one. That of another job becomes this one's.
    func resumeUpload() {
        if attempt.upload != nil { running.awaitResumption() }
        if let stored, !isNoted { keep(stored) }
    }

    func sinkOpened(_ failure: TransferError?) {}

    func revise(_ event: AttemptMachine.Event) -> AttemptMachine.Event? { event }

    func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start:
            isSending = true
            fill()
        case .stopTransfer: stopAll()
        case .store: store()
        case .discardBytes: keepsUpload = false
        case .keepBytes: keepsUpload = true
        case .report(let outcome): end(outcome)
        case .leave:
            stopAll()
            awaitedOutcome = nil
            endConnections()
        case .follow, .change, .startLater, .endPreparation, .revokeStorage: break
        }
    }

    func stopAll() {
        isSending = false
        let stopping = exchanges
        exchanges = []
        for one in stopping {
            one.stop()
            disconnect(one.connection)
        }
        for hash in hashes.values { hash.stop() }
        hashes = [:]
        body.stopHashing()
        fetched?.by.stop()
    }

    func take(_ reply: ExchangeReply) {
        guard isSending else { return }
        switch reply {
        case .partHashed(let part, .success(let digests)):
            hashes[part] = nil
            parts.hashed(part, digests)
            noteProgress()
            body.hash(upTo: parts.hashedPrefix)
            releaseFetched()
            fill()
        case .bodyHashed(.success(let digests)):
            self.digests = digests
            body.take(digests)
            fill()
        case .partHashed(_, .failure(let error)), .bodyHashed(.failure(let error)): fail(error)
        case .sourceDemanded(let demand): fetched?.by.take(demand)
        case .fetchedHashed: releaseFetched()
        case .bodyOpened, .bodyReadable, .marked, .placeCaughtUp, .contentRemoved: break
        }
    }

    /// Whether file threads hash the source.
    var isHashing: Bool { !hashes.isEmpty || hashesWhole && digests == nil }

    // MARK: Steps

    /// Sends the next requests on free connections, and hashes the next parts.
    func fill() {
        // A request that fails at once calls `fill` again.
        guard !isFilling else {
            mustFillAgain = true
            return
        }
        isFilling = true
        defer { isFilling = false }
        repeat {
            mustFillAgain = false
            if isSending { fillOnce() }
        } while mustFillAgain
        giveBackSpares()
    }

    private func fillOnce() {
        guard now >= pausedUntil else { return }
        switch conversation.step {
        case .request(let kind): if exchanges.isEmpty { ask(kind) }
        case .send:
            guard !parts.areDone else { return completeWhenHashed() }
            hashParts(upTo: Self.readyCountMax)
            while exchanges.count < Self.connectionCountMax, parts.readyCount > 0, sendPart() {}
        case .compare(let found):
            hashParts(upTo: .max)
            guard parts.areHashed, let digests = wholeDigests() else { return }
            compare(found, digests)
        case .done(let found): succeed(found)
        case .giveUp: fail(.uploadLost)
        }
        if isSending, exchanges.isEmpty, hashes.isEmpty, parts.readyCount > 0 || isAsking { waitForHosts() }
    }

    private var isAsking: Bool { if case .request = conversation.step { true } else { false } }

    /// Hashes parts until so many are ready to be sent, in addition to those that have a connection.
    private func hashParts(upTo readyCount: Int) {
        let free = Self.connectionCountMax - exchanges.count
        while hashes.count < Self.connectionCountMax,
            readyCount == .max || hashes.count + parts.readyCount < free + readyCount,
            let part = parts.takeUnhashed()
        {
            let (key, onLoop) = (running.key, loop.runner)
            let hash = PartHash(
                bytes, parts.division.range(of: part), checksum: attempt.spec.storeChecksum,
                context.fileThreads
            ) { digests in onLoop { $0.take(.partHashed(part, digests), for: key) } }
            hashes[part] = hash
            hash.start()
        }
    }

    /// Returns the digests of the whole body. `nil` if they come later.
    private func wholeDigests() -> PayloadDigests? {
        guard digests == nil, !hashesWhole else { return digests }
        hashesWhole = true
        let (key, onLoop) = (running.key, loop.runner)
        do throws(TransferError) {
            try body.hashBeforeSending { digests in onLoop { $0.take(.bodyHashed(digests), for: key) } }
        } catch {
            fail(error)
        }
        return nil
    }

    /// All parts are at the store. The object is made only if the whole has the digests that the job demands.
    private func completeWhenHashed() {
        guard exchanges.isEmpty, wholeDigests() != nil else { return }
        do throws(TransferError) { try body.check() } catch { return fail(error) }
        conversation.sentAll()
        mustFillAgain = true
    }

    /// Decides whether an object is the one that the upload has made.
    private func compare(_ found: StoreObjectFacts, _ digests: PayloadDigests) {
        let hasSameChecksum =
            found.checksum != nil
            && found.checksum == digests.checksum.map { Base64.encode($0.value) }
        let isSame = hasSameChecksum || found.entityTag.map { parts.isObject($0) } ?? false
        if !isSame, let refusal { return fail(refusal) }
        conversation.compared(found, isSame: isSame, isEarlier: refusal != nil)
        refusal = nil
        if !isSame { beginAnew() }
        mustFillAgain = true
    }

    /// The upload is gone, and another one is to begin.
    func beginAnew() {
        parts.forgetUpload()
        note(nil)
        running.noteResumption(at: 0)
        noteProgress()
    }

    /// Lets later attempts continue the upload; `nil`: they find none.
    func note(_ upload: ResumableUpload?) {
        guard stored != upload else { return }
        stored = upload
        keep(upload)
    }

    private func keep(_ upload: ResumableUpload?) {
        isNoted = upload != nil
        context.marker?.note(upload, of: attempt)
    }

    /// The store has removed the upload of the job: nothing is left that has to be removed after its end.
    func noteRemoval() { if isNoted { keep(nil) } }

    // MARK: Speed and progress

    /// Counts the bytes of parts at the store, and those that are on their way.
    func noteProgress() {
        running.progress.set(
            sent: exchanges.reduce(parts.byteCountAtStore) { $1.part == nil ? $0 : $0 + $1.sent })
    }

    /// Returns the limits that hold for a request to `url`; `nil` if none does.
    func pacing(at url: WebURL) -> Pacing? {
        context.rates.pacing(of: attempt, at: url, job: rate, places: places)
    }

    func adopt(_ edit: AttemptEdit) {
        let before = attempt.spec.bytesPerSecondMax
        running.apply(edit)
        if let from = running.source { fetched?.by.adopt(from) }
        guard edit.spec.bytesPerSecondMax != before else { return }
        rate = edit.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: now) }
        limitsChanged()
    }

    func limitsChanged() {
        let before = places
        places = JobPlaces()
        defer { fetched?.by.limitsChanged() }
        let changes = exchanges.map { (one: $0, pacing: pacing(at: $0.exchange.hop.url)) }
        let isSame = changes.allSatisfy { change in
            guard let now = change.pacing, let before = change.one.exchange.pacing else {
                return change.pacing == nil && change.one.exchange.pacing == nil
            }
            return now.holds(like: before)
        }
        if isSame { places = before }
        for (one, pacing) in changes {
            if !isSame { one.exchange.pace(pacing) }
            one.exchange.resume()
        }
    }
}
