import Curl
import FerryCore

/// A resumable upload of an attempt: which request is next, with which bytes, and where. It is to an upload
/// what `BodyContinuation` is to a download; the rules of the protocols are in `UploadConversation`. Loop
/// thread only.
struct ResumableTransfer {
    private let attempt: Attempt
    private let contents: BodyContents
    private var conversation: UploadConversation
    /// The request to the address of the upload; `nil` until the server has named it, and after it has lost
    /// the upload.
    private var resource: Hop?
    /// Bytes of the body that the server can have at most.
    private var sentByteCount: Int64 = 0
    /// Whether earlier attempts may have sent the last byte.
    private var mayBeWhole: Bool
    /// Whether the attempt was to continue an upload, and cannot.
    let hasDroppedUpload: Bool
    /// The upload as later attempts need it; `nil` if there is none, or they could not know that the body is
    /// the same.
    private(set) var stored: ResumableUpload?

    /// `nil` if the attempt's body is sent without such a protocol. Throws `request_not_repeatable` if the
    /// job demands one and the body cannot be read again.
    init?(
        _ attempt: Attempt, _ contents: BodyContents, _ body: BodyReader?, _ judge: ResponseJudge
    ) throws(TransferError) {
        let mode = attempt.spec.request.resumableUploads
        guard attempt.spec.kind == .upload, let dialect = mode.dialect,
            let body
        else { return nil }
        guard body.isResumable, let byteCount = body.byteCount else {
            guard mode.isDemanded else { return nil }
            throw TransferError(
                .requestNotRepeatable,
                "The job demands a resumable upload, and its source cannot be read again.", phase: .sending,
                isRetryable: false)
        }
        guard mode.isDemanded || attempt.isWorthResuming(byteCount) else { return nil }
        self.attempt = attempt
        self.contents = contents
        let isOdd = attempt.number % 2 == 1
        conversation = UploadConversation(
            dialect, byteCount: byteCount,
            version: isOdd ? UploadDialect.versionOfOddAttempts : UploadDialect.versionOfEvenAttempts,
            metadata: attempt.uploadMetadata)
        mayBeWhole = false
        guard let earlier = attempt.upload else {
            hasDroppedUpload = false
            return
        }
        guard earlier.dialect == dialect, earlier.byteCount == byteCount,
            isSameLink(earlier.target, attempt.spec.request.url), earlier.body == contents.identity,
            let hop = Hop(earlier), (try? judge.check(hop.url)) != nil
        else {
            hasDroppedUpload = true
            return
        }
        hasDroppedUpload = false
        (resource, stored, sentByteCount, mayBeWhole) = (hop, earlier, byteCount, true)
    }

    // MARK: Requests

    /// Returns the attempt's first request. `own`: the job's own, or that of a redirect.
    func first(_ own: Hop) -> Hop { hop(resource == nil ? firstRequest : .offset, own) }

    private var firstRequest: ResumableRequest {
        switch attempt.spec.request.resumableUploads {
        case .tus: .emptyCreation
        case .ietf: .discovery
        case .auto, .never: .creation
        }
    }

    private func hop(_ request: ResumableRequest, _ own: Hop) -> Hop {
        var hop = request.isToResource ? resource ?? own : own
        hop.method = conversation.dialect.method(of: request, own: own.method)
        hop.sendsBody = request.sendsBody
        hop.digest = nil
        hop.upload = UploadHop(
            request: request, dialect: conversation.dialect,
            maySendTwice: resource != nil || request != .creation)
        return hop
    }

    /// Returns the bytes of the body that a request has; `nil`: all.
    func range(of hop: Hop) -> Range<Int64>? { hop.upload.map { conversation.range(of: $0.request) } }

    /// Returns the fields of a request.
    func fields(of hop: Hop) -> [TransferRequest.Header] {
        guard let upload = hop.upload else { return [] }
        return conversation.fields(of: upload.request).map { .init($0.name, $0.value) }
    }

    /// The first byte of the next append.
    var offset: Int64 { conversation.offset }

    mutating func sent(_ byteCount: Int64) { sentByteCount = max(sentByteCount, byteCount) }

    // MARK: Responses

    /// Takes an interim response (104). Returns `true` if it has named the address of the upload.
    mutating func take(interim head: ResponseHead, _ hop: Hop, _ judge: ResponseJudge, now: Timestamp) -> Bool
    {
        guard let upload = hop.upload, upload.dialect == .ietf, upload.request == .creation else {
            return false
        }
        let answer = UploadAnswer(head)
        guard let version = answer.version, UploadDialect.versions.contains(version) else { return false }
        conversation.learn(answer.limit)
        let isNew = resource == nil
        // The ordinary upload goes on without an address that may not be used.
        try? learnResource(head, hop, judge, now)
        return isNew && resource != nil
    }

    private mutating func learnResource(
        _ head: ResponseHead, _ hop: Hop, _ judge: ResponseJudge, _ now: Timestamp
    ) throws(TransferError) {
        let locations = Set(head.all("location"))
        guard resource == nil, locations.count == 1, let location = locations.first else { return }
        let found = try judge.resource(named: location, by: head, after: hop, now: now)
        resource = found
        guard let identity = contents.identity else { return }
        stored = ResumableUpload(
            dialect: conversation.dialect, target: attempt.spec.request.url, url: found.target.string,
            keepsCredentials: found.keepsCredentials,
            byteCount: conversation.byteCount, body: identity, boundary: contents.boundary)
    }

    /// Consequence of a response for the attempt.
    enum Step {
        /// Send this request next. `isNew`: the server has just named the address of the upload.
        case next(Hop, isNew: Bool)
        /// The server has lost the upload: send this request.
        case beginAgain(Hop)
        /// The upload is complete, and the response is accepted whatever it says.
        case done
        /// The response is judged like any other one. `isFinal`: the server has the whole body, and no later
        /// request may ask for the upload.
        case ordinary(isFinal: Bool)
    }

    /// Takes a response. `own`: the job's own request. Throws why the upload cannot go on.
    mutating func take(
        _ head: ResponseHead, _ hop: Hop, own: Hop, _ judge: ResponseJudge, now: Timestamp
    ) throws(TransferError) -> Step {
        guard let upload = hop.upload else { return .ordinary(isFinal: false) }
        let answer = UploadAnswer(head)
        let wasNew = resource == nil
        if upload.request == .emptyCreation || upload.request == .creation && answer.isComplete == false,
            (200..<300).contains(head.status)
        {
            try learnResource(head, hop, judge, now)
        }
        let isRepeatable = upload.dialect == .tus || attempt.spec.isRequestRepeatable
        let isWhole = mayBeWhole || sentByteCount == conversation.byteCount
        let step = conversation.step(
            after: upload.request, answer, hasResource: resource != nil, sent: sentByteCount,
            mayBeginAgain: isRepeatable || !isWhole)
        switch step {
        case .next(let request):
            // The server has refused the body as a whole.
            if request == .emptyCreation { (resource, stored) = (nil, nil) }
            return .next(self.hop(request, own), isNew: wasNew && resource != nil)
        case .beginAgain:
            (resource, stored, sentByteCount, mayBeWhole) = (nil, nil, 0, false)
            return .beginAgain(self.hop(upload.dialect == .tus ? .emptyCreation : creation, own))
        case .done: return .done
        case .ordinary: return .ordinary(isFinal: answer.isComplete == true && resource != nil)
        case .refuse(let fault): throw fault.error(head.status, upload.dialect, mayRetry: isRepeatable)
        }
    }

    /// The request that creates a lost upload again: the server has told already that it speaks the protocol.
    private var creation: ResumableRequest {
        attempt.spec.request.resumableUploads == .ietf ? .emptyCreation : .creation
    }

    /// The upload is at its end: no later request asks for it.
    mutating func forget() { (resource, stored) = (nil, nil) }

    /// Returns the request that asks how much has arrived, after the connection of a request has ended.
    /// `nil` if the attempt ends instead: the server has named no address, or has got nothing new.
    mutating func interrupted(_ hop: Hop) -> Hop? {
        guard resource != nil, hop.upload?.request.sendsBody == true, conversation.interrupted() else {
            return nil
        }
        return self.hop(.offset, hop)
    }
}

extension UploadAnswer {
    fileprivate init(_ head: ResponseHead) { self.init(status: head.status) { head.all($0) } }
}

extension Hop {
    /// The address of a stored upload; `nil` if its URL is invalid.
    fileprivate init?(_ upload: ResumableUpload) {
        guard let target = try? WebURL.unknown.resolving(upload.url) else { return nil }
        self.init(
            url: target.url, method: "HEAD", sendsBody: false, keepsCredentials: upload.keepsCredentials,
            userInformation: target.userInformation)
    }
}

extension Attempt {
    /// Whether a body is sent as one that may be resumed although the job does not demand it.
    fileprivate func isWorthResuming(_ byteCount: Int64) -> Bool {
        byteCount >= Limits.resumableUploadByteCountMin
            && ["POST", "PUT", "PATCH"].contains(spec.request.method)
            && !spec.request.speaksUploadProtocol
    }

    /// Name and type of the source for servers that speak tus.
    fileprivate var uploadMetadata: UploadMetadata {
        guard spec.request.resumableUploads == .tus else { return UploadMetadata() }
        var pairs: [NameValuePair] = []
        if case .path(let path)? = spec.source, let name = path.split(separator: "/").last {
            pairs.append(NameValuePair("filename", String(name)))
        }
        let type = spec.request.headers.first { equalIgnoringCase($0.name, "content-type") }
        if let type { pairs.append(NameValuePair("filetype", type.value)) }
        return UploadMetadata(pairs)
    }
}

extension UploadConversation.Fault {
    fileprivate func error(_ status: Int, _ dialect: UploadDialect, mayRetry: Bool) -> TransferError {
        let name = dialect == .tus ? "tus 1.0.0" : "the IETF draft of resumable uploads"
        return switch self {
        case .notSpoken:
            TransferError(
                .responseInvalid,
                "The server does not speak \(name), which the job demands (status \(status)).",
                phase: .waiting, isRetryable: false)
        case .tooLarge(let most):
            TransferError(
                .unacceptableStatus, "The server accepts uploads of \(most) bytes at most.", phase: .waiting,
                isRetryable: false)
        case .lost:
            TransferError(
                .unacceptableStatus, "The server no longer has the upload (status \(status)).",
                phase: .waiting, isRetryable: mayRetry)
        case .stuck:
            TransferError(
                .responseInvalid, "The server takes no more bytes of the upload.", phase: .waiting,
                isRetryable: true)
        }
    }
}
