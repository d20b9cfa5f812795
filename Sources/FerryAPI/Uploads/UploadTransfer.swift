internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// A request that adds bytes to a staged upload: finds or creates the upload, waits for its turn, passes the
/// body to the file, keeps the offset, and responds. Any thread.
final class UploadTransfer: RequestSink, UploadOccupant {
    private enum Stage {
        /// The upload is being looked up, created or opened.
        case preparing
        case receiving(any UploadFileWriter)
        /// The upload is on another node, which gets the body; `nil` if there is none.
        case forwarding(ForwardedBody?)
        /// The request has ended while it was prepared.
        case abandoned
        /// The last bytes are being written, or everything is done.
        case ending
    }
    private struct State {
        var stage = Stage.preparing
        var waker: StreamWaker?
        var responder: Responder?
        /// The response, as soon as it is known.
        var response: Response?
        /// The upload that gets the bytes.
        var upload: StagedUpload?
        /// A complete upload of the same name: the body is only compared with it.
        var existing: StagedUpload?
        /// The upload whose turn the request waits for or has.
        var entered: UploadID?
        var hasTurn = false
        var isCounted = false
        var receivedByteCount: Int64 = 0
        /// The body on its way to another node, after the request has ended.
        var forwarded: ForwardedBody?
        /// The store is being told a durable offset.
        var isAdvancing = false
    }

    private let services: UploadServices
    private let call: UploadCall
    private let fields: UploadFields?
    private let body: UploadBody
    private let state = Mutex(State())

    /// `fields`: of a request that creates the upload, else `nil`.
    init(_ services: UploadServices, _ call: UploadCall, creating fields: UploadFields?, _ body: UploadBody) {
        self.services = services
        self.call = call
        self.fields = fields
        self.body = body
    }

    // MARK: The server's side

    func attach(_ waker: StreamWaker) {
        state.withLock { $0.waker = waker }
        do throws(Problem) {
            try prepare()
        } catch {
            abandon(error)
        }
    }

    func begin() -> SinkStart {
        state.withLock { state in
            if let response = state.response { return .refuse(response) }
            switch state.stage {
            case .receiving: return .ready(interim: fields == nil ? nil : state.upload.flatMap(call.interim))
            case .forwarding: return .ready()
            case .preparing, .abandoned, .ending: return .wait
            }
        }
    }

    func refusal() -> Response? { state.withLock { $0.response } }

    func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        let (stage, before) = state.withLock { ($0.stage, $0.receivedByteCount) }
        if case .forwarding(let forwarded?) = stage { return unsafe forwarded.take(bytes) }
        guard case .receiving(let writer) = stage else { return bytes.count }
        do throws(Problem) {
            try needRoom(for: before + Int64(bytes.count), isWhole: false)
        } catch {
            abandon(error)
            return bytes.count
        }
        let count = unsafe writer.take(bytes)
        state.withLock { $0.receivedByteCount += Int64(count) }
        return count
    }

    func finish(_ responder: Responder) {
        let response = state.withLock { state in
            state.responder = responder
            return state.response
        }
        if let response {
            responder.send(response)
        } else {
            complete()
        }
    }

    /// The client has left: the upload keeps its bytes.
    func cancelled() { abandon(nil) }

    func giveWay() {
        abandon(Problem(.uploadSuperseded, "A later request works on this upload; this one has ended."))
    }

    // MARK: Preparation

    private func prepare() throws(Problem) {
        guard services.files != nil else {
            throw UploadCall.noFiles
        }
        if let length = call.contentLength { try needRoom(for: length, isWhole: true) }
        try services.load.take(for: call.tenant)
        state.withLock { $0.isCounted = true }
        guard let fields else { return prepareAppending() }
        let now = services.clock.now()
        let upload = StagedUpload(
            id: call.newID, tenant: call.tenant, node: services.node, name: call.name, fields: fields,
            size: body.size, createdAt: now, expiresAt: services.incompleteExpiry)
        services.store.createUpload(upload, reply: onSuccess { [self] in prepare(created: $0, upload) })
    }

    private func prepare(created: Created<StagedUpload>, _ draft: StagedUpload) {
        let found = created.record
        guard !created.isNew else { return enter(found.id) { [self] in open(found) } }
        if let home = found.home, home != services.node { return forward(to: home) }
        guard !found.isComplete else { return compare(found) }
        enter(found.id) { [self] in
            var upload = found
            (upload.fields, upload.size, upload.expiresAt) = (draft.fields, draft.size, draft.expiresAt)
            services.store.restartUpload(upload, reply: onSuccess { [self] in open($0) })
        }
    }

    private func prepareAppending() {
        guard let reference = call.reference else { return refuse(Problem(StoreError.notFound)) }
        services.store.upload(
            reference, tenant: call.tenant,
            reply: onSuccess { [self] found in
                if let home = found.home, home != services.node { return forward(to: home) }
                enter(found.id) { [self] in
                    // The request before has kept its bytes since.
                    services.store.upload(.id(found.id), tenant: call.tenant, reply: onSuccess(append))
                }
            })
    }

    /// Sends the request on to the node that has the upload.
    private func forward(to node: NodeID) {
        guard !call.isFromNode else { return refuse(call.elsewhere(node)) }
        let forwarded =
            call.contentLength == 0
            ? nil : ForwardedBody(byteCount: call.contentLength) { [weak self] in self?.wake() }
        let (isStarted, isFinished) = state.withLock { state -> (Bool, Bool) in
            guard case .preparing = state.stage else { return (false, false) }
            state.stage = .forwarding(forwarded)
            return (true, state.responder != nil)
        }
        // The other node counts the bytes and the request.
        release()
        guard isStarted else { return }
        if isFinished { forwarded?.end() }
        var request = ForwardedRequest(call.head, for: call.principal)
        request.body = forwarded
        services.others.forward(request, to: node) { [self] result in
            switch result {
            case .success(let response):
                CollectedResponse.collect(response) { [self] response in
                    respond(response ?? call.response(Self.cutOff(node)))
                }
            case .failure(let failure): respond(call.response(failure.problem))
            }
        }
        wake()
    }

    private static func cutOff(_ node: NodeID) -> Problem {
        Problem(NodeUnavailable(node, .doesNotAnswer, heartbeatAt: nil))
    }

    private func wake() { state.withLock { $0.waker }?.wake() }

    private func append(to upload: StagedUpload) {
        let offset = body.offset
        if upload.isComplete {
            // The client has not got the response to the request that completed the upload.
            let isRepetition =
                body.completion != .never && call.contentLength.map { offset + $0 == upload.offset } ?? false
            guard isRepetition else { return refuse(call.completed(upload, at: offset)) }
            leave()
            return respond(call.appended(upload))
        }
        if upload.fields.concatenation?.hasPrefix("final") == true {
            return refuse(Problem(.forbidden, "No bytes can be added to a final upload."))
        }
        guard offset == upload.offset else { return refuse(call.mismatch(upload, at: offset)) }
        if let size = body.size, upload.size ?? size != size {
            return refuse(call.lengthProblem("The upload has another size: \(upload.size ?? 0) bytes."))
        }
        var upload = upload
        upload.size = upload.size ?? body.size
        if let length = call.contentLength, let size = upload.size, offset + length > size {
            return refuse(call.lengthProblem("The body ends after the upload, which has \(size) bytes."))
        }
        open(upload)
    }

    /// Ends the request while no file is open for it.
    private func refuse(_ problem: Problem) {
        leave()
        respond(call.response(problem))
    }

    /// Waits for the end of other requests for the upload.
    private func enter(_ upload: UploadID, _ begin: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            guard case .preparing = state.stage else { return true }
            state.entered = upload
            return false
        }
        if isOver { return leave() }
        services.queue.enter(upload, self) { [self] in
            state.withLock { $0.hasTurn = true }
            begin()
        }
    }

    private func open(_ upload: StagedUpload) {
        state.withLock { $0.upload = upload }
        services.files?.open(
            upload.id, at: body.offset, size: upload.size, contentDigest: body.contentDigest,
            reprDigest: upload.fields.reprDigest, events: events
        ) { [self] result in
            switch result {
            case .success(let writer): start(writer)
            case .failure(let error): fail(error)
            }
        }
    }

    private func compare(_ existing: StagedUpload) {
        if let length = call.contentLength, length != existing.size { return refuse(call.nameTaken) }
        state.withLock { $0.existing = existing }
        if let files = services.files { start(files.hasher(events: events)) }
    }

    private func start(_ writer: any UploadFileWriter) {
        let (isStarted, isFinished, waker) = state.withLock { state -> (Bool, Bool, StreamWaker?) in
            guard case .preparing = state.stage else { return (false, false, nil) }
            state.stage = .receiving(writer)
            return (true, state.responder != nil, state.waker)
        }
        guard isStarted else { return writer.end(.keep) { [self] _ in keep(writer) } }
        if isFinished { complete() } else { waker?.wake() }
    }

    private var events: UploadWriterEvents {
        UploadWriterEvents(
            ready: { [weak self] in self?.noteReady() }, advanced: { [weak self] in self?.noteDurable($0) })
    }

    private func noteReady() {
        let (writer, waker) = state.withLock { state -> ((any UploadFileWriter)?, StreamWaker?) in
            guard case .receiving(let writer) = state.stage else { return (nil, nil) }
            return (writer, state.waker)
        }
        if let error = writer?.failure { return fail(error) }
        waker?.wake()
    }

    private func noteDurable(_ offset: Int64) {
        let upload = state.withLock { state -> StagedUpload? in
            guard !state.isAdvancing, case .receiving = state.stage else { return nil }
            state.isAdvancing = true
            return state.upload
        }
        guard let upload else { return }
        services.store.advanceUpload(
            upload.id, to: offset, size: upload.size, expiresAt: services.incompleteExpiry
        ) { [self] result in
            state.withLock { $0.isAdvancing = false }
            if case .failure(.notFound) = result { abandon(Problem(StoreError.notFound)) }
        }
    }

    // MARK: Limits

    /// Throws if the upload may not have so many bytes of this request. `isWhole`: the request has no others.
    private func needRoom(for byteCount: Int64, isWhole: Bool) throws(Problem) {
        if let most = services.byteCountMax, byteCount > most - body.offset {
            throw call.tooLarge(most)
        }
        let size = state.withLock { $0.upload?.size }
        if let size, byteCount > size - body.offset {
            throw call.lengthProblem("The body ends after the upload, which has \(size) bytes.")
        }
        // Comparing a body stores nothing.
        guard state.withLock({ $0.existing == nil }) else { return }
        let step: Int64 = 1 << 20
        let wanted = isWhole || call.contentLength != nil ? byteCount : (byteCount + step - 1) / step * step
        if let most = services.quotas.reserve(wanted, for: call.account, of: call.tenant) {
            throw Problem(StoreError.storageQuotaExceeded(max: most))
        }
    }

    // MARK: The end

    /// All bytes of the body have arrived.
    private func complete() {
        let work = state.withLock { state -> (any UploadFileWriter, StagedUpload?, StagedUpload?, Int64)? in
            guard case .receiving(let writer) = state.stage else { return nil }
            state.stage = .ending
            return (writer, state.upload, state.existing, body.offset + state.receivedByteCount)
        }
        guard let (writer, upload, existing, end) = work else { return endForwarding() }
        if let existing {
            return writer.end(.complete) { [self] result in
                leave()
                let sha256 = (try? result.get())?.sha256
                respond(
                    sha256 == existing.sha256
                        ? call.created(existing, isNew: false) : call.response(call.nameTaken))
            }
        }
        guard let upload else { return }
        let completes =
            switch body.completion {
            case .atEnd: true
            case .atSize: upload.size == end
            case .never: false
            }
        if completes, let size = upload.size, size != end {
            return writer.end(.keep) { [self] _ in
                respond(call.response(call.lengthProblem("The upload has \(end) of \(size) bytes.")))
                keep(writer)
            }
        }
        writer.end(completes ? .complete : .keep) { [self] result in
            switch result {
            case .success(let written): store(written, upload)
            case .failure(let error): settle(writer, upload, error, isProven: writer.durableByteCount < end)
            }
        }
    }

    private func endForwarding() {
        if case .forwarding(let forwarded?) = state.withLock({ $0.stage }) { forwarded.end() }
    }

    private func store(_ written: WrittenUpload, _ upload: StagedUpload) {
        guard let sha256 = written.sha256 else {
            let expiry = services.incompleteExpiry
            return services.store.advanceUpload(
                upload.id, to: written.byteCount, size: upload.size, expiresAt: expiry
            ) { [self] result in
                leave(at: written.byteCount)
                var upload = upload
                (upload.offset, upload.expiresAt) = (written.byteCount, expiry)
                respond(to: result.map { upload })
            }
        }
        services.store.completeUpload(
            upload.id, byteCount: written.byteCount, sha256: sha256, expiresAt: services.completeExpiry
        ) { [self] result in
            leave(at: written.byteCount)
            respond(to: result)
        }
    }

    private func respond(to result: Result<StagedUpload, StoreError>) {
        switch result {
        case .success(let upload):
            respond(fields == nil ? call.appended(upload) : call.created(upload, isNew: true))
        case .failure(let error): respond(call.response(Problem(error)))
        }
    }

    /// The bytes could not be written, or are not those that the client has announced.
    private func fail(_ error: TransferError) {
        let (upload, writer, isAbandoned) = state.withLock {
            state -> (StagedUpload?, (any UploadFileWriter)?, Bool) in
            switch state.stage {
            case .preparing:
                state.stage = .ending
                return (state.upload, nil, false)
            case .receiving(let writer):
                state.stage = .ending
                return (state.upload, writer, false)
            case .abandoned: return (nil, nil, true)
            case .forwarding, .ending: return (nil, nil, false)
            }
        }
        // No file was opened.
        if isAbandoned { return leave() }
        guard let upload else { return }
        guard let writer else { return settle(nil, upload, error, isProven: true) }
        writer.end(.keep) { [self] _ in settle(writer, upload, error, isProven: true) }
    }

    /// `isProven`: `false` if the whole upload is not what the client has announced, and so is removed.
    private func settle(
        _ writer: (any UploadFileWriter)?, _ upload: StagedUpload, _ error: TransferError, isProven: Bool
    ) {
        respond(call.response(call.problem(error)))
        // No client knows the identifier of an upload that a plain POST has not completed.
        let isKnown = call.style != .plain || call.reference != nil
        let isDigestWrong = error.code == .digestMismatch
        guard isKnown && (isProven || !isDigestWrong) else {
            return services.store.deleteUpload(upload.id, tenant: upload.tenant, isForced: true) { [self] _ in
                services.files?.remove(UploadBytes(upload: upload.id, object: nil))
                leave()
            }
        }
        if let writer { keep(writer) } else { leave() }
    }

    /// Keeps what has arrived, for a later request.
    private func keep(_ writer: any UploadFileWriter) {
        guard let upload = state.withLock({ $0.upload }) else { return leave() }
        let offset = writer.durableByteCount
        services.store.advanceUpload(
            upload.id, to: offset, size: upload.size, expiresAt: services.incompleteExpiry
        ) { [self] _ in leave(at: offset) }
    }

    /// Ends the request before its body is complete. `problem`: the response; `nil` if the client has left.
    private func abandon(_ problem: Problem?) {
        if let problem { respond(call.response(problem)) }
        let (writer, isWaiting) = state.withLock { state -> ((any UploadFileWriter)?, Bool) in
            switch state.stage {
            case .receiving(let writer):
                state.stage = .ending
                return (writer, false)
            case .preparing:
                state.stage = .abandoned
                // A request that has the turn opens the file, and ends then.
                return (nil, !state.hasTurn)
            case .forwarding(let forwarded):
                state.stage = .ending
                state.forwarded = forwarded
                return (nil, false)
            case .abandoned, .ending: return (nil, false)
            }
        }
        state.withLock { $0.forwarded.take() }?.cancel()
        if let writer {
            writer.end(.keep) { [self] _ in keep(writer) }
        } else if isWaiting {
            leave()
        }
    }

    /// Gives back what the request has, once. `offset`: durable bytes of the upload.
    private func leave(at offset: Int64? = nil) {
        state.withLock { $0.stage = .ending }
        release(at: offset)
    }

    private func release(at offset: Int64? = nil) {
        let (entered, upload, isCounted) = state.withLock { state -> (UploadID?, StagedUpload?, Bool) in
            defer { (state.entered, state.isCounted) = (nil, false) }
            return (state.entered, state.upload, state.isCounted)
        }
        if isCounted {
            services.load.release(of: call.tenant)
            services.quotas.note(
                added: (offset ?? upload?.offset ?? 0) - (upload?.offset ?? 0), to: call.account,
                of: call.tenant)
        }
        if let entered { services.queue.leave(entered, self) }
    }

    private func respond(_ response: Response) {
        let (responder, waker) = state.withLock { state -> (Responder?, StreamWaker?) in
            guard state.response == nil else { return (nil, nil) }
            state.response = response
            return (state.responder, state.waker)
        }
        if let responder { responder.send(response) } else { waker?.wake() }
    }

    private func onSuccess<Value>(_ step: @escaping @Sendable (Value) -> Void) -> Reply<Value> {
        { [self] result in
            switch result {
            case .success(let value) where !isAbandoned: step(value)
            case .success: leave()
            case .failure(let error):
                respond(call.response(Problem(error)))
                leave()
            }
        }
    }

    private var isAbandoned: Bool {
        state.withLock { if case .preparing = $0.stage { false } else { true } }
    }
}
