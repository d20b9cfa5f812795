/// Request of a client: a spec, and beside it the data that is stored apart. A submission, each job of a
/// batch, the job of a schedule, and a job before and after a patch or an answer.
public struct JobRequest: Sendable, Equatable {
    /// The fields, without secrets.
    public var spec: JobSpec
    /// The texts of the secrets.
    public var secrets: JobSecrets
    /// Bytes of an inline source or body as they will be sent, or `nil`. A job that is read for a patch or an
    /// answer comes without them, since a patch does not change them.
    public var payload: [UInt8]?
    /// `true` if an answer has replaced the body, and `payload` is the new one.
    public private(set) var replacesPayload = false

    /// Creates a request of valid parts.
    public init(_ spec: JobSpec, _ secrets: JobSecrets = JobSecrets(), payload: [UInt8]? = nil) {
        self.spec = spec
        self.secrets = secrets
        self.payload = payload
    }

    /// Reads and validates a job. Throws all errors at once.
    ///
    /// `prefix`: place of the job in the document, `#` or `#/jobs/17` in a batch. `mayNameHost`: as in
    /// `FieldContext`. `refusal`: the egress
    /// policy; returns why a URL is not accepted, or `nil`. `sessions`: those of the tenant. `resumePoint`:
    /// decrypts resume data; returns `nil` if it is none of this tenant's. `earlierJob`: returns the job with
    /// this number in the batch if it precedes this one.
    public init(
        _ json: JSONView, at prefix: String = "#", node: NodeAbilities = NodeAbilities(),
        sessions: SessionScope? = nil, mayNameHost: Bool = false,
        refusal: (EndpointAddress) -> String?, resumePoint: (String) -> ResumePoint? = { _ in nil },
        earlierJob: @escaping (Int) -> JobID? = { _ in nil }
    ) throws(InvalidFields) {
        let read = withoutActuallyEscaping(refusal) { refusal in
            withoutActuallyEscaping(resumePoint) { resumePoint in
                let context = FieldContext(
                    node: node, defaults: sessions?.record(json["session"]?.string ?? SessionName.standard),
                    refusal: refusal)
                context.kind = json["kind"]?.string.flatMap(JobKind.init)
                context.mayNameHost = mayNameHost
                if json["resume_data"] != nil { context.resumption = OpenedResumeData(resumePoint) }
                context.earlierJob = earlierJob
                var spec = FieldDecoder.standard(JobSpec.self, context)
                return Result { () throws(InvalidFields) in
                    context.namesObject = json.namesObject
                    let job = context.namesObject ? try json.withURLOfObject(at: prefix) : json
                    let json = try job.withURLOfResumeData(resumePoint, at: prefix)
                    FieldDecoder.decode(json, into: &spec, at: prefix, .new, context)
                    return try JobRequest(spec, context)
                }
            }
        }
        self = try read.get()
    }

    private init(_ spec: JobSpec, _ context: FieldContext) throws(InvalidFields) {
        guard context.errors.isEmpty else { throw InvalidFields(context.errors.all) }
        var spec = spec
        secrets = spec.takeSecrets(resumePoint: context.resumePoint)
        spec.request.original = context.resumePoint?.original(of: spec.request)
        self.spec = spec
        payload = context.payload
    }
}

extension JobRequest {
    /// Takes the body of an answer. `nil`: the request has none from now on.
    mutating func replacePayload(_ bytes: [UInt8]?) { (payload, replacesPayload) = (bytes, true) }
}

extension JSONView {
    /// Returns a job with the URL that its resume data names, if it has resume data and no URL.
    /// `pointer`: place of the job.
    fileprivate func withURLOfResumeData(
        _ resumePoint: (String) -> ResumePoint?, at pointer: String
    ) throws(InvalidFields) -> JSONView {
        guard let text = self["resume_data"]?.string, self["request"]?["url"] == nil,
            self["request"]?.isObject ?? true, let point = resumePoint(text)
        else { return self }
        let url = JSON.object([JSON.Member("url", .string(point.url))])
        return try JSONView(json.merged(with: .object([JSON.Member("request", url)])), at: pointer)
    }
}

extension JobSpec {
    /// Moves the texts of secrets out of the spec.
    fileprivate mutating func takeSecrets(resumePoint: ResumePoint?) -> JobSecrets {
        var secrets = JobSecrets(headers: request.headers.takeSecrets())
        if var webhook {
            webhook.takeSecrets(into: &secrets)
            self.webhook = webhook
        }
        if var connection = request.connection {
            secrets.connection = connection.takeSecrets()
            request.connection = connection
        }
        if let credential = takeStoreCredential(ofOther: false) {
            var connection = secrets.connection ?? ConnectionSecrets()
            connection.secretAccessKey = credential.secretAccessKey
            connection.sessionToken = credential.sessionToken
            secrets.connection = connection
        }
        secrets.otherServer = takeOtherServerSecrets()
        secrets.resumePoint = resumePoint
        return secrets
    }
}

// MARK: Rules of several fields

extension JobSpec {
    public mutating func check(_ fields: FieldDecoder) {
        if kind == .upload, fields.mode == .new, !fields.hasValue("source") {
            fields.fail("source", "required", "An upload needs a source.")
        }
        inheritWebhook(fields)
        if var webhook, webhook.events.isEmpty {
            webhook.setStandardEvents(acknowledgement)
            self.webhook = webhook
        }
        checkParts(fields)
        checkObject(fields)
        checkCopy(fields)
        checkQuestions(fields)
        checkContentType(fields)
        if let point = fields.context.resumePoint { check(point, fields) }
        guard fields.context.errors.isEmpty else { return }
        addDependenciesOfSources(fields)
        checkBackground(fields)
        if let size = integrity.size, let given = inlineFileByteCount, size != given {
            fields.fail("integrity/size", "invalid_combination", "The source has \(given) bytes.")
        }
    }

    /// `true` if the file may be fetched in parts, or from several servers.
    var isInParts: Bool { segmentCountMax > 1 || !mirrors.isEmpty }

    /// Reports segments and mirrors unless the job is a download by GET that does not set ranges itself.
    private func checkParts(_ fields: FieldDecoder) {
        guard isInParts, fields.mode == .new || fields.context.isAnswer, kind == .download else { return }
        for (name, isUsed) in [("segments", segmentCountMax > 1), ("mirrors", !mirrors.isEmpty)] where isUsed
        {
            if request.method != "GET" {
                fields.fail(name, "invalid_combination", "Only a GET request can have \(name).")
            } else if request.hasHeader("range") || request.hasHeader("if-range") {
                fields.fail(
                    name, "invalid_combination", "With \(name), the service itself decides about ranges.")
            } else if request.acceptEncoding != .identity {
                fields.fail(
                    name, "invalid_combination", "A file with \(name) is fetched without content codings.")
            }
        }
        for (index, mirror) in mirrors.enumerated() {
            if mirror == request.url {
                fields.fail("mirrors/\(index)", "duplicate", "This URL occurs twice.")
            } else if request.connection?.tls != nil, mirror.hasPrefix("http:") {
                fields.fail(
                    "mirrors/\(index)", "invalid_combination", "With request.tls, mirrors are https URLs too."
                )
            }
        }
    }

    /// The boundary differs for each attempt, so a job cannot set the type itself.
    private func checkContentType(_ fields: FieldDecoder) {
        guard parts != nil,
            let header = request.headers.first(where: { $0.name.lowercased() == "content-type" })
        else { return }
        fields.fail(
            "request/headers/\(pointerStep(header.name))", "invalid_combination",
            "The service sets the type of a multipart body itself, with its boundary.")
    }

    private func check(_ point: ResumePoint, _ fields: FieldDecoder) {
        if !point.allows(request.url) {
            fields.fail("resume_data", "invalid_combination", "This resume data is of another URL.")
        } else if (point.upload != nil) != (kind == .upload) {
            let owner = point.upload == nil ? "a download" : "an upload"
            fields.fail("resume_data", "invalid_combination", "This resume data is of \(owner).")
        }
    }

    /// Reports violations of the rules of background sessions.
    private func checkBackground(_ fields: FieldDecoder) {
        guard fields.mode == .new, fields.context.isBackground else { return }
        if inlineFileByteCount != nil {
            fields.fail(
                "source", "invalid_combination",
                "An upload of a background session needs a source with path or job.")
        }
        checkBackgroundRedirects(fields.context, at: fields.path)
    }

    /// Reports redirects that a background session does not follow.
    func checkBackgroundRedirects(_ context: FieldContext, at path: String) {
        guard context.isBackground, redirects.policy != .follow else { return }
        context.errors.add(
            "\(path)/redirects/policy", "invalid_combination",
            "In a background session redirects are followed.")
    }
}
