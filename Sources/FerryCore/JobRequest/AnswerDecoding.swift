/// Consequence of an answer.
public enum AnswerResolution: Sendable {
    case goOn(JobRequest)
    /// Asks about the next way to authenticate.
    case ask(JobQuestion, JobRequest)
    case cancel(JobRequest)
    case fail(TransferError, JobRequest)
}

extension JobAnswer {
    /// Reads an answer to a question of this kind. Throws all errors at once.
    public init(_ json: JSONView, to kind: JobQuestion.Kind) throws(InvalidFields) {
        let body = try AnswerBody(to: kind).reading(json, .new, FieldContext())
        self.init(
            body.disposition, credential: body.credential.value, request: body.request.json,
            askedAt: body.askedAt)
    }
}

/// The body of an answer to a question.
public struct AnswerBody: FieldObject {
    public static let summary =
        "An answer to a question about a job. use_credential comes with credential, use_new_request with "
        + "request."
    public static let schemaName = "Answer"

    private let kind: JobQuestion.Kind
    fileprivate var disposition = JobAnswer.Disposition.cancel
    fileprivate var credential = CredentialBody()
    fileprivate var request = NewRequest()
    fileprivate var askedAt: Timestamp?

    public init() { self.init(to: .begin) }

    /// Creates an answer to a question of this kind.
    fileprivate init(to kind: JobQuestion.Kind) { self.kind = kind }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "disposition", &disposition, kind.dispositions, .of(required: true),
            "The decision. reject: the response of the redirect is the result. reject_protection_space: asks "
                + "about the next way to authenticate that the server offers.")
        visitor.field(
            "credential", &credential, .of(isWriteOnly: true), "The credential of use_credential.")
        visitor.field(
            "request", &request, .of(isWriteOnly: true),
            "Merge patch (RFC 7396) of the job's request, with use_new_request.")
        visitor.field(
            "asked_at", &askedAt, .plain,
            "asked_at of the question that is answered, with all its digits. If another question is open, "
                + "the answer is refused with 409. Without asked_at and If-Match the open question is "
                + "answered.")
    }

    public mutating func check(_ body: FieldDecoder) {
        let errors = body.context.errors
        if (disposition == .useCredential) != body.has("credential"), errors.isEmpty {
            body.fail("credential", "invalid_combination", "use_credential comes with a credential.")
        }
        if (disposition == .useNewRequest) != body.has("request"), errors.isEmpty {
            body.fail("request", "invalid_combination", "use_new_request comes with a request.")
        }
    }

    /// A merge patch of a request, which is validated when it is applied; `nil` if there is none.
    fileprivate struct NewRequest: FieldValue {
        var json: JSON?

        static var isNullable: Bool { true }
        static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
            Self(json: json.json)
        }
        static func restore(_ json: JSON) -> Self? { Self(json: json) }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.null() }
        static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/NewRequest")]
        }
    }
}

/// The credential of an answer.
private struct CredentialBody: FieldObject, FieldValue {
    static let summary =
        "A user and a password for basic, digest and ntlm, or a token for bearer. Encrypted and never shown."
    static let schemaName = "Credential"

    private var user = ""
    private var password = ""
    private var token = ""
    /// The credential, once it is read.
    private(set) var value: JobAnswer.Credential?

    init() {}

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("user", &user, .user, .plain, "Name of the user, with password.")
        visitor.field("password", &password, .password, .plain, "Password of the user.")
        visitor.field("token", &token, .token, .plain, "Token of bearer (RFC 6750).")
    }

    mutating func check(_ body: FieldDecoder) {
        switch (body.has("user"), body.has("password"), body.has("token")) {
        case (false, false, true): value = JobAnswer.Credential(user: nil, secret: token)
        case (true, true, false): value = JobAnswer.Credential(user: user, secret: password)
        default:
            guard body.context.errors.isEmpty, !body.hasUnknownFields else { return }
            body.context.errors.add(
                body.path, "invalid_combination", "Give either user and password, or a token.")
        }
    }
}

extension JobAnswer.Disposition: FieldValue {
    public static func decode(_ json: JSONView, _ rule: [Self], _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        let values = rule.map(\.rawValue).joined(separator: ", ")
        return rule.first { $0.rawValue == text }
            ?? place.fail("invalid_value", "This must be one of: \(values).")
    }
    public static func restore(_ json: JSON) -> Self? { json.string.flatMap(Self.init) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(rawValue) }
    public static func schema(_ rule: [Self]) -> [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("enum", .array(rule.map { .string($0.rawValue) }))]
    }
}

extension JobAnswer.Disposition: ShownValue {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { schema(allCases) }
}

extension JobRequest {
    /// Returns the consequence of an answer. `attempt`: number of the job's last attempt. `refusal`: the
    /// egress policy's.
    public func answered(
        _ question: JobQuestion, _ answer: JobAnswer, from source: AnswerSource, at now: Timestamp,
        attempt: Int32, node: NodeAbilities = NodeAbilities(), refusal: (EndpointAddress) -> String?
    ) throws(InvalidFields) -> AnswerResolution {
        var draft = self
        var answers = spec.answers ?? JobAnswers()
        answers.last = .init(kind: question.kind, disposition: answer.disposition, source: source, at: now)
        answers.start = nil
        switch (answer.disposition, question.subject) {
        case (.cancel, _):
            draft.spec.answers = answers
            return .cancel(draft)
        case (.useNewRequest, _):
            let patch = try JSONView(.object([.init("request", answer.request ?? .null)]), at: "#")
            draft = try merging(patch, isAnswer: true, node: node, refusal: refusal)
            answers.isConfirmed = true
        case (.follow, .redirect(_, let hop)):
            answers.approve(hop.url)
            (answers.start, answers.startAttempt) = (hop, attempt + 1)
        case (.reject, _): answers.rejectsRedirects = true
        case (.performDefaultHandling, .urlExpired):
            draft.spec.answers = answers
            return .fail(.refused(status: question.response?.status ?? 0), draft)
        case (.performDefaultHandling, _): answers.usesDefaultHandling = true
        case (.useCredential, .challenge(let spaces, let count)):
            if spaces.first?.isProxy ?? false {
                answers.proxyFailureCount = count
            } else {
                answers.failureCount = count
            }
            try draft.use(answer.credential, for: spaces)
        case (.rejectProtectionSpace, .challenge(let spaces, let count)):
            draft.spec.answers = answers
            guard spaces.count > 1 else { return .fail(.allSpacesRejected, draft) }
            return .ask(
                JobQuestion(
                    .challenge(Array(spaces.dropFirst()), previousFailureCount: count), askedAt: now,
                    timeout: spec.questions.timeout), draft)
        default: answers.isConfirmed = true
        }
        draft.spec.answers = answers
        return .goOn(draft)
    }

    private mutating func use(
        _ credential: JobAnswer.Credential?, for spaces: [JobQuestion.ProtectionSpace]
    ) throws(InvalidFields) {
        guard let credential, let space = spaces.first else { return }
        let scheme = space.method
        guard (scheme == .bearer) == (credential.user == nil) else {
            throw InvalidFields(
                "#/credential", "invalid_combination",
                scheme == .bearer
                    ? "The server asks for a token." : "A user and a password are asked for.")
        }
        // A credential that was refused must not be sent beside the new one.
        let header = space.isProxy ? "proxy-authorization" : "authorization"
        spec.request.headers.removeAll { $0.name.lowercased() == header }
        secrets.headers.removeAll { $0.name.lowercased() == header }
        var rules = spec.request.connection ?? .standard
        var connection = secrets.connection ?? ConnectionSecrets()
        if space.isProxy {
            rules.proxy?.use(scheme, user: credential.user)
            connection.proxyPassword = credential.secret
        } else {
            rules.authentication = .init(scheme, user: credential.user)
            connection.password = scheme == .bearer ? nil : credential.secret
            connection.token = scheme == .bearer ? credential.secret : nil
        }
        spec.request.connection = rules
        secrets.connection = connection
    }
}

extension TransferError {
    /// The error of a response whose status the job does not accept, and which is not retried.
    public static func refused(status: Int) -> TransferError {
        switch status {
        case 401, 407:
            let who = status == 407 ? "proxy" : "server"
            return TransferError(
                .authenticationRequired, "The \(who) asks for other credentials (status \(status)).",
                phase: status == 407 ? .connecting : .waiting, isRetryable: false)
        default:
            return TransferError(
                .unacceptableStatus, "The server answered with status \(status).", phase: .waiting,
                isRetryable: false)
        }
    }

    fileprivate static let allSpacesRejected = TransferError(
        .authenticationRequired, "Every way to authenticate that the server offers was rejected.",
        phase: .waiting, isRetryable: false)
}
