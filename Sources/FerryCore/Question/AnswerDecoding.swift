/// A job as a client changes it: its fields, and its secrets, which are stored apart.
package struct JobDraft: Sendable, Equatable {
    package var spec: JobSpec
    package var secrets: JobSecrets
    package init(_ spec: JobSpec, _ secrets: JobSecrets) {
        self.spec = spec
        self.secrets = secrets
    }
}

/// Consequence of an answer.
package enum AnswerResolution: Sendable {
    case goOn(JobDraft)
    /// Asks about the next way to authenticate.
    case ask(JobQuestion, JobDraft)
    case cancel(JobDraft)
    case fail(TransferError, JobDraft)
}

extension JobAnswer {
    /// Reads `{"disposition", "credential", "request", "asked_at"}`. Throws all errors at once.
    package init(_ json: JSON, to kind: JobQuestion.Kind) throws(InvalidFields) {
        let errors = ValidationErrors()
        guard var fields = FieldReader(json, at: "#", errors) else {
            throw InvalidFields(errors.all)
        }
        let disposition = Self.disposition(&fields, kind)
        let credential = Self.credential(&fields, errors)
        let request = fields.value("request")
        let askedAt = fields.timestamp("asked_at")
        if !fields.has("disposition") {
            fields.addError("disposition", "required", "An answer needs a disposition.")
        }
        if (disposition == .useCredential) != (credential != nil), errors.isEmpty {
            fields.addError("credential", "invalid_combination", "use_credential comes with a credential.")
        }
        if (disposition == .useNewRequest) != (request != nil), errors.isEmpty {
            fields.addError("request", "invalid_combination", "use_new_request comes with a request.")
        }
        fields.finish()
        guard errors.isEmpty, let disposition else { throw InvalidFields(errors.all) }
        self.init(disposition, credential: credential, request: request, askedAt: askedAt)
    }

    private static func disposition(
        _ fields: inout FieldReader, _ kind: JobQuestion.Kind
    ) -> Disposition? {
        guard let text = fields.string("disposition") else { return nil }
        guard let disposition = kind.dispositions.first(where: { $0.rawValue == text }) else {
            let possible = kind.dispositions.map(\.rawValue).joined(separator: ", ")
            fields.addError("disposition", "invalid_value", "This must be one of: \(possible).")
            return nil
        }
        return disposition
    }

    /// Reads a credential as in `request.auth`.
    private static func credential(_ fields: inout FieldReader, _ errors: ValidationErrors) -> Credential? {
        guard var object = fields.object("credential") else { return nil }
        let user = object.string("user", byteCounts: 1...Limits.userByteCountMax)
        let password = object.string("password", byteCounts: 0...Limits.passwordByteCountMax)
        let token = object.string("token", byteCounts: 1...Limits.tokenByteCountMax)
        object.finish()
        // RFC 7617 §2: no colon, no control characters.
        if let user, user.utf8.contains(UInt8(ascii: ":")) || hasControls(user) {
            object.addError("user", "invalid_value", "A user's name has no colon and no control characters.")
        }
        if let password, hasControls(password) {
            object.addError("password", "invalid_value", "A password has no control characters.")
        }
        if let token, !token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) {
            object.addError("token", "invalid_value", "A token is visible ASCII without spaces.")
        }
        if let token, user == nil, password == nil { return Credential(user: nil, secret: token) }
        if let user, let password, token == nil { return Credential(user: user, secret: password) }
        if errors.isEmpty {
            errors.add(object.path, "invalid_combination", "Give either user and password, or a token.")
        }
        return nil
    }

    private static func hasControls(_ text: String) -> Bool {
        text.utf8.contains { $0 < 0x20 || $0 == 0x7F }
    }
}

extension JobDraft {
    /// Returns the consequence of an answer. `attempt`: number of the job's last attempt. `refusal`: the
    /// egress policy's.
    package func answered(
        _ question: JobQuestion, _ answer: JobAnswer, from source: AnswerSource, at now: Timestamp,
        attempt: Int32, node: NodeAbilities = NodeAbilities(), refusal: (WebURL) -> String?
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
            let patch = JSON.object([.init("request", answer.request ?? .null)])
            draft = try merging(patch, node: node, refusal: refusal)
            answers.isConfirmed = true
        case (.follow, .redirect(_, let hop)):
            answers.approve(hop.url)
            (answers.start, answers.startAttempt) = (hop, attempt + 1)
        case (.reject, _): answers.rejectsRedirects = true
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
    fileprivate static let allSpacesRejected = TransferError(
        .authenticationRequired, "Every way to authenticate that the server offers was rejected.",
        phase: .waiting, isRetryable: false)
}
