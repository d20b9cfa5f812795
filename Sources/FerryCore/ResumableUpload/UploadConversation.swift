/// The next request after each response of a resumable upload, and its fields: the rules of both protocols. A
/// pure value.
public struct UploadConversation: Sendable {
    /// Consequence of a response.
    public enum Step: Sendable, Equatable {
        /// Send this request.
        case next(ResumableRequest)
        /// The server no longer has the upload: create it again.
        case beginAgain
        /// The server has the whole body, and the response says nothing else about it.
        case done
        /// The response is that of the target, or no concern of the protocol.
        case ordinary
        case refuse(Fault)
    }

    /// Reason for which the upload ends.
    public enum Fault: Sendable, Equatable {
        /// The server does not speak the protocol that the job demands.
        case notSpoken
        /// The server accepts so many bytes at most.
        case tooLarge(Int64)
        /// The server no longer has the upload, which may not be sent again.
        case lost
        /// Several requests in a row have brought nothing.
        case stuck
    }

    /// The protocol.
    public let dialect: UploadDialect
    /// Bytes of the body.
    public let byteCount: Int64
    /// Version of the draft to announce.
    private let version: Int
    private let metadata: UploadMetadata
    /// The first byte of the next append.
    public private(set) var offset: Int64 = 0
    /// `true` if the server has got many bytes since the last interruption.
    private var hasAdvanced = true
    private var offsetAtInterruption: Int64 = 0
    private var appendByteCountMax: Int64?
    private var fruitlessCount = 0
    private var restartCount = 0

    /// Requests in a row without a new byte at the server, after which the upload ends.
    public static let fruitlessCountMax = 3
    /// Times that one attempt creates a lost upload again.
    public static let restartCountMax = 1

    /// Creates a conversation. `version`: of the draft; not used for tus.
    public init(
        _ dialect: UploadDialect, byteCount: Int64, version: Int = UploadDialect.versionOfOddAttempts,
        metadata: UploadMetadata = UploadMetadata()
    ) {
        self.dialect = dialect
        self.byteCount = byteCount
        self.version = version
        self.metadata = metadata
    }

    // MARK: Requests

    /// Returns the bytes of the body that a request has.
    public func range(of request: ResumableRequest) -> Range<Int64> {
        switch request {
        case .creation: 0..<byteCount
        case .append: offset..<min(byteCount, offset + (appendByteCountMax ?? byteCount))
        case .discovery, .emptyCreation, .offset, .termination: 0..<0
        }
    }

    /// Returns the fields of a request that the protocol adds.
    public func fields(of request: ResumableRequest) -> [NameValuePair] {
        switch dialect {
        case .ietf:
            [NameValuePair("Upload-Draft-Interop-Version", String(version))] + draftFields(of: request)
        case .tus: [NameValuePair("Tus-Resumable", "1.0.0")] + tusFields(of: request)
        // Multipart uploads have a conversation of their own.
        case .s3: []
        }
    }

    private func draftFields(of request: ResumableRequest) -> [NameValuePair] {
        switch request {
        case .creation, .emptyCreation:
            [
                NameValuePair("Upload-Complete", request == .creation ? "?1" : "?0"),
                NameValuePair("Upload-Length", String(byteCount)),
            ]
        case .append:
            [
                NameValuePair("Content-Type", "application/partial-upload"),
                NameValuePair("Upload-Offset", String(offset)),
                NameValuePair("Upload-Complete", range(of: .append).upperBound == byteCount ? "?1" : "?0"),
            ]
        case .discovery, .offset, .termination: []
        }
    }

    private func tusFields(of request: ResumableRequest) -> [NameValuePair] {
        switch request {
        case .creation, .emptyCreation:
            [NameValuePair("Upload-Length", String(byteCount))]
                + (metadata.pairs.isEmpty ? [] : [NameValuePair("Upload-Metadata", metadata.text)])
        case .append:
            [
                NameValuePair("Content-Type", "application/offset+octet-stream"),
                NameValuePair("Upload-Offset", String(offset)),
            ]
        case .discovery, .offset, .termination: []
        }
    }

    // MARK: Responses

    /// Takes the limits that an interim response (104) names.
    public mutating func learn(_ limit: UploadLimit?) {
        if let most = limit?.appendByteCountMax, most > 0 { appendByteCountMax = most }
    }

    /// The connection has ended before the response. Returns `true` if the same attempt asks for the offset:
    /// the server has got new bytes since the last interruption.
    public mutating func interrupted() -> Bool {
        defer { (hasAdvanced, offsetAtInterruption) = (false, offset) }
        return hasAdvanced
    }

    /// Takes a response. `hasResource`: `true` if the server has named the address of the upload. `sent`:
    /// bytes that the server can have at most. `mayBeginAgain`: `true` if the body may be sent again from
    /// byte 0.
    public mutating func step(
        after request: ResumableRequest, _ answer: UploadAnswer, hasResource: Bool, sent: Int64,
        mayBeginAgain: Bool
    ) -> Step {
        switch request {
        case .discovery: return afterDiscovery(answer)
        case .creation: return afterCreation(answer, hasResource: hasResource, sent: sent)
        case .emptyCreation: return afterEmptyCreation(answer, hasResource: hasResource)
        case .termination: return beginAgain(mayBeginAgain)
        case .offset: return afterOffset(answer, sent: sent, mayBeginAgain: mayBeginAgain)
        case .append: return afterAppend(answer, sent: sent, mayBeginAgain: mayBeginAgain)
        }
    }

    private mutating func afterDiscovery(_ answer: UploadAnswer) -> Step {
        if answer.isOrdinary, answer.status != 501 { return .ordinary }
        guard answer.isSuccess, let limit = answer.limit else { return .refuse(.notSpoken) }
        if let most = limit.byteCountMax, most < byteCount { return .refuse(.tooLarge(most)) }
        learn(limit)
        return .next(.emptyCreation)
    }

    private mutating func afterCreation(_ answer: UploadAnswer, hasResource: Bool, sent: Int64) -> Step {
        if answer.isSuccess, answer.isComplete == false, hasResource {
            return answer.offset.map { proceed(to: $0, sent: sent) } ?? .next(.offset)
        }
        if answer.status == 413, let limit = answer.limit, limit.byteCountMax ?? .max >= byteCount,
            let most = limit.appendByteCountMax, most > 0, most < byteCount
        {
            learn(limit)
            return .next(.emptyCreation)
        }
        return .ordinary
    }

    private mutating func afterEmptyCreation(_ answer: UploadAnswer, hasResource: Bool) -> Step {
        if answer.isOrdinary { return .ordinary }
        let isSpoken = dialect == .ietf || answer.speaksTus
        guard answer.isSuccess else { return isSpoken ? .ordinary : .refuse(.notSpoken) }
        guard isSpoken, hasResource else { return .refuse(.notSpoken) }
        if let most = answer.limit?.byteCountMax, most < byteCount { return .refuse(.tooLarge(most)) }
        learn(answer.limit)
        if dialect == .tus, byteCount == 0 { return .done }
        return proceed(to: answer.offset ?? 0, sent: 0)
    }

    private mutating func afterOffset(_ answer: UploadAnswer, sent: Int64, mayBeginAgain: Bool) -> Step {
        if answer.isOrdinary { return .ordinary }
        guard answer.isSuccess, dialect == .ietf || answer.speaksTus else { return beginAgain(mayBeginAgain) }
        learn(answer.limit)
        if isComplete(answer) { return .done }
        guard let offset = answer.offset else { return beginAgain(mayBeginAgain) }
        return proceed(to: offset, sent: sent)
    }

    private mutating func afterAppend(_ answer: UploadAnswer, sent: Int64, mayBeginAgain: Bool) -> Step {
        if answer.isOrdinary { return .ordinary }
        if answer.isSuccess {
            guard dialect == .ietf || answer.speaksTus else { return beginAgain(mayBeginAgain) }
            // The response to the last append of the draft is that of the target.
            if isComplete(answer) { return dialect == .ietf ? .ordinary : .done }
            return answer.offset.map { proceed(to: $0, sent: sent) } ?? .next(.offset)
        }
        switch answer.status {
        case 409:
            guard dialect == .ietf, answer.isComplete != true, let offset = answer.offset else {
                return fruitless(.next(.offset))
            }
            return proceed(to: offset, sent: sent)
        case 413:
            let range = range(of: .append)
            guard let most = answer.limit?.appendByteCountMax, most > 0,
                most < range.upperBound - range.lowerBound
            else { return .ordinary }
            learn(answer.limit)
            return fruitless(.next(.append))
        default:
            // The target has rejected the whole body.
            if dialect == .ietf, answer.isComplete == true { return .ordinary }
            return beginAgain(mayBeginAgain)
        }
    }

    private func isComplete(_ answer: UploadAnswer) -> Bool {
        switch dialect {
        case .ietf: answer.isComplete == true
        case .tus: answer.offset == byteCount
        case .s3: false
        }
    }

    /// Continues at an offset that the server has told. One that it cannot have belongs to another upload.
    private mutating func proceed(to new: Int64, sent: Int64) -> Step {
        guard new <= min(byteCount, sent) else { return .next(.termination) }
        if new - offsetAtInterruption >= Self.advanceMin { hasAdvanced = true }
        let isNew = new > offset
        offset = new
        if isNew { fruitlessCount = 0 }
        return isNew ? .next(.append) : fruitless(.next(.append))
    }

    /// New bytes at the server after which another interruption does not end the attempt.
    private static let advanceMin: Int64 = 64 << 10

    private mutating func fruitless(_ step: Step) -> Step {
        fruitlessCount += 1
        return fruitlessCount <= Self.fruitlessCountMax ? step : .refuse(.stuck)
    }

    private mutating func beginAgain(_ isAllowed: Bool) -> Step {
        guard isAllowed, restartCount < Self.restartCountMax else { return .refuse(.lost) }
        restartCount += 1
        (offset, offsetAtInterruption) = (0, 0)
        return .beginAgain
    }
}

extension UploadAnswer {
    fileprivate var isSuccess: Bool { (200..<300).contains(status) }

    /// `true` if the response says nothing about the upload: a redirect, a challenge, one that refuses
    /// `Expect`, or one that may pass.
    fileprivate var isOrdinary: Bool {
        (300..<400).contains(status) || status >= 500 || [401, 407, 408, 417, 425, 429].contains(status)
    }
}
