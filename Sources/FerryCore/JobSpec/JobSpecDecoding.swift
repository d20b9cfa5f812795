/// A valid job from untrusted JSON, with the data that is stored apart from its spec.
package struct ValidatedJob: Sendable {
    package let spec: JobSpec
    /// Bytes of an inline source or body as they will be sent, or `nil`.
    package let payload: [UInt8]?
    package let secrets: JobSecrets
    /// `scheme://host:port` of the request.
    package let origin: String

    /// Reads and validates a job. Throws all errors at once.
    ///
    /// `prefix`: place of the job in the document, `#` or `#/jobs/17` in a batch. `refusal`: the egress
    /// policy; returns why a URL is not accepted, or `nil`. `sessions`: those of the tenant. `resumePoint`:
    /// decrypts resume data; returns `nil` if it is none of this tenant's. `earlierJob`: returns the job with
    /// this number in the batch if it precedes this one.
    package init(
        _ json: JSON, at prefix: String = "#", node: NodeAbilities = NodeAbilities(),
        sessions: SessionScope? = nil,
        refusal: (WebURL) -> String?, resumePoint: (String) -> ResumePoint? = { _ in nil },
        earlierJob: @escaping (Int) -> JobID? = { _ in nil }
    ) throws(InvalidFields) {
        let errors = ValidationErrors()
        let job = withoutActuallyEscaping(refusal) { refusal in
            withoutActuallyEscaping(resumePoint) { resumePoint in
                var decoding = JobDecoding(
                    errors: errors, node: node, refusal: refusal, openResumeData: resumePoint,
                    earlierJob: earlierJob)
                decoding.sessions = sessions
                return decoding.job(json, at: prefix)
            }
        }
        guard errors.isEmpty, let job else { throw InvalidFields(errors.all) }
        self = job
    }

    /// Creates a job that was validated before and is submitted again.
    package init(spec: JobSpec, payload: [UInt8]?, secrets: JobSecrets, origin: String) {
        self.spec = spec
        self.payload = payload
        self.secrets = secrets
        self.origin = origin
    }
}

/// Reader of a job's body. An invalid member is reported and replaced by its default, so that one pass finds
/// all errors.
struct JobDecoding {
    let errors: ValidationErrors
    let node: NodeAbilities
    let refusal: (WebURL) -> String?
    let openResumeData: (String) -> ResumePoint?
    var earlierJob: (Int) -> JobID? = { _ in nil }
    /// Configured sessions of the tenant, or `nil` if there are none.
    var sessions: SessionScope?
    /// The job's session, which has its default values, or `nil` for the general ones.
    var session: SessionRecord?
    /// Largest integer that JSON numbers carry safely (RFC 8259 §6).
    static let byteCountMax: Int64 = 1 << 53 - 1

    mutating func job(_ json: JSON, at prefix: String) -> ValidatedJob? {
        guard var fields = FieldReader(json, at: prefix, errors) else { return nil }
        if !fields.has("kind") { fields.addError("kind", "required", "A job needs a kind.") }
        let kind = fields.choice("kind", JobKind.self, later: ["stream"])
        let session = session(&fields)
        self.session = sessions?.record(session)
        let description = text(&fields, "description", byteCountMax: Limits.descriptionByteCountMax)
        let metadata = metadata(&fields)
        if !fields.has("request") { fields.addError("request", "required", "A job needs a request.") }
        let request = request(&fields, kind)
        let destination = destination(&fields, kind)
        let source = source(&fields, kind)
        let integrity = integrity(&fields)
        let redirects = redirects(&fields)
        let accept = acceptance(&fields, kind)
        let schedule = schedule(&fields)
        let rate = network(&fields)
        let retry = retry(&fields, kind)
        let declinesAcknowledgement = fields.value("acknowledgement") == .bool(false)
        let acknowledgement =
            declinesAcknowledgement
            ? nil : acknowledgement(&fields, standard: self.session?.configuration.acknowledgement)
        let webhook = webhook(
            &fields,
            standard: EventType.standard + (acknowledgement == nil ? [] : AcknowledgementRules.events))
        let sources = sources(&fields, kind, request)
        let resumePoint = resumePoint(&fields, kind, request?.spec)
        let asksOnChallenge = asksOnChallenge(&fields)
        let questions = questions(&fields)
        checkQuestions(&fields, asksOnChallenge, redirects, retry, request?.spec)
        fields.finish()
        checkContentType(request, source?.source, at: prefix)
        guard errors.isEmpty, let kind, let request else { return nil }
        var spec = JobSpec(
            kind: kind, session: session, description: description, metadata: metadata, request: request.spec,
            destination: destination, source: source?.source, integrity: integrity, redirects: redirects,
            accept: accept, schedule: schedule, bytesPerSecondMax: rate, retry: retry, webhook: webhook?.spec)
        spec.request.original = resumePoint?.original(of: spec.request)
        spec.mirrors = sources.mirrors
        spec.segmentCountMax = sources.segmentCountMax
        spec.asksOnChallenge = asksOnChallenge
        spec.questions = questions
        spec.acknowledgement = acknowledgement
        spec.declinesAcknowledgement = declinesAcknowledgement
        checkBackground(spec, at: prefix)
        checkSize(spec, at: prefix)
        guard errors.isEmpty else { return nil }
        var secrets = request.secrets
        secrets.webhookSecret = webhook?.secret
        secrets.resumePoint = resumePoint
        return ValidatedJob(
            spec: spec, payload: request.payload ?? source?.payload, secrets: secrets,
            origin: request.origin)
    }

    private func session(_ fields: inout FieldReader) -> String {
        guard let name = fields.string("session", byteCounts: 1...Limits.nameByteCountMax) else {
            return SessionName.standard
        }
        if !SessionName.isValid(name) {
            fields.addError(
                "session", "invalid_value", "A session's name is made of letters, digits and -._~:@.")
        }
        return name
    }

    /// Reads a text that PostgreSQL can store: without NUL.
    func text(_ fields: inout FieldReader, _ name: String, byteCountMax: Int) -> String? {
        Self.text(&fields, name, byteCountMax: byteCountMax)
    }

    static func text(_ fields: inout FieldReader, _ name: String, byteCountMax: Int) -> String? {
        guard let text = fields.string(name, byteCounts: 0...byteCountMax, isNullable: true) else {
            return nil
        }
        if text.utf8.contains(0) { fields.addError(name, "invalid_value", "This must not contain U+0000.") }
        return text
    }

    func metadata(_ fields: inout FieldReader) -> [JobSpec.Pair] {
        guard var object = fields.object("metadata") else { return [] }
        var pairs: [JobSpec.Pair] = []
        for member in object.all(countMax: Limits.metadataCountMax) {
            if !(1...Limits.metadataNameByteCountMax).contains(member.name.utf8.count)
                || member.name.utf8.contains(0)
            {
                object.addError(
                    member.name, "invalid_value",
                    "A name has 1 to \(Limits.metadataNameByteCountMax) bytes and no U+0000.")
            }
            let value = text(&object, member.name, byteCountMax: Limits.metadataValueByteCountMax)
            if member.value.isNull {
                object.addError(member.name, "wrong_type", "This must be a string, not null.")
            }
            pairs.append(JobSpec.Pair(member.name, value ?? ""))
        }
        return pairs
    }

    func integrity(_ fields: inout FieldReader) -> JobSpec.Integrity {
        guard var object = fields.object("integrity") else { return JobSpec.Integrity() }
        var integrity = JobSpec.Integrity()
        integrity.size = object.integer("size", in: 0...Self.byteCountMax, isNullable: true)
        integrity.md5 = digest(&object, "md5", byteCount: 16)
        integrity.sha1 = digest(&object, "sha1", byteCount: 20)
        integrity.sha256 = digest(&object, "sha256", byteCount: 32)
        integrity.sha512 = digest(&object, "sha512", byteCount: 64)
        integrity.crc32c = digest(&object, "crc32c", byteCount: 4)
        integrity.adler32 = digest(&object, "adler32", byteCount: 4)
        object.finish()
        return integrity
    }

    private func digest(_ fields: inout FieldReader, _ name: String, byteCount: Int) -> String? {
        guard let text = fields.string(name, isNullable: true) else { return nil }
        if node.missingDigests.contains(name) {
            fields.addError(
                name, "not_supported", "This node's libcrypto does not support this digest (FIPS mode?).")
        }
        guard let bytes = hexDecoded(text), bytes.count == byteCount else {
            fields.addError(name, "invalid_value", "This must be \(byteCount * 2) hexadecimal digits.")
            return nil
        }
        return hexEncoded(bytes)
    }

    func redirects(_ fields: inout FieldReader) -> JobSpec.Redirects {
        var redirects = JobSpec.Redirects.standard
        guard var object = fields.object("redirects") else { return redirects }
        redirects.policy = object.choice("policy", JobSpec.Redirects.Policy.self) ?? .follow
        redirects.countMax = object.integer("max", in: 0...Int64(Limits.redirectCountMax)).map(Int.init) ?? 20
        redirects.sendsCredentialsAcrossOrigins = object.bool("send_credentials_across_origins") ?? false
        object.finish()
        return redirects
    }

    func acceptance(_ fields: inout FieldReader, _ kind: JobKind?) -> JobSpec.Acceptance {
        guard var object = fields.object("accept") else { return JobSpec.Acceptance() }
        var accept = JobSpec.Acceptance()
        accept.status = object.strings("status", countMax: 50, byteCountMax: 3) ?? []
        for (index, status) in accept.status.enumerated() where !isStatusPattern(status) {
            errors.add(
                "\(object.pointer("status"))/\(index)", "invalid_value",
                "This must be three digits such as \"404\", or a class such as \"2xx\".")
        }
        if let kind { accept.leaveOutStandard(kind) }
        accept.contentTypes = object.strings("content_type", countMax: 50, byteCountMax: 255) ?? []
        for (index, type) in accept.contentTypes.enumerated() where !isMediaRange(type) {
            errors.add(
                "\(object.pointer("content_type"))/\(index)", "invalid_value",
                "This must be a media type such as \"image/png\" or \"image/*\".")
        }
        accept.byteCountMax = object.integer("max_bytes", in: 0...Self.byteCountMax, isNullable: true)
        object.finish()
        return accept
    }

    func schedule(_ fields: inout FieldReader) -> JobSpec.Schedule {
        var schedule = standardSchedule
        guard var object = fields.object("schedule") else { return schedule }
        schedule.priority = object.number("priority", in: 0...1) ?? schedule.priority
        schedule.earliestBeginAt = object.timestamp("earliest_begin_at")
        schedule.expectedBytesToSend = object.integer(
            "expected_bytes_to_send", in: 0...Self.byteCountMax, isNullable: true)
        schedule.expectedBytesToReceive = object.integer(
            "expected_bytes_to_receive", in: 0...Self.byteCountMax, isNullable: true)
        schedule.timeoutForResource =
            object.number("timeout_for_resource", in: 1...31_536_000) ?? schedule.timeoutForResource
        schedule.networkServiceType =
            object.choice(
                "network_service_type", JobSpec.NetworkServiceType.self,
                later: laterNetworkServiceTypes) ?? schedule.networkServiceType
        schedule.deadlineAt = object.timestamp("deadline_at")
        if let deadline = schedule.deadlineAt, let begin = schedule.earliestBeginAt, deadline <= begin {
            object.addError("deadline_at", "invalid_combination", "This must be after earliest_begin_at.")
        }
        schedule.waitsForConnectivity =
            object.bool("waits_for_connectivity") ?? schedule.waitsForConnectivity
        let isDiscretionary = object.bool("discretionary")
        schedule.confirmsBeforeBegin = object.bool("confirm_before_begin") ?? false
        schedule.dependsOn = dependencies(&object)
        schedule.onDependencyFailure =
            object.choice("on_dependency_failure", JobSpec.DependencyFailure.self) ?? .fail
        decideDiscretion(&schedule, isDiscretionary, &object)
        object.finish()
        return schedule
    }

    /// A session's `discretionary` is ignored where a job's other fields exclude it; a job's own is an error
    /// there.
    private func decideDiscretion(
        _ schedule: inout JobSpec.Schedule, _ isAsked: Bool?, _ fields: inout FieldReader
    ) {
        let isAwaited = schedule.networkServiceType == .responsiveData
        let canBe = !isAwaited && schedule.dependsOn.isEmpty && !schedule.confirmsBeforeBegin
        schedule.isDiscretionary = isAsked ?? (schedule.isDiscretionary && canBe)
        guard isAsked == true else { return }
        if isAwaited {
            fields.addError(
                "discretionary", "invalid_combination",
                "A responsive_data job starts at once and cannot be discretionary.")
        }
        if schedule.confirmsBeforeBegin {
            fields.addError(
                "discretionary", "invalid_combination",
                "A job with confirm_before_begin cannot be discretionary; leave one of them out.")
        }
        if !schedule.dependsOn.isEmpty {
            fields.addError(
                "depends_on", "not_supported",
                "Dependencies of a discretionary job are not supported yet by this version of Ferry.")
        }
    }

    func network(_ fields: inout FieldReader) -> Int64? {
        guard var object = fields.object("network") else { return nil }
        let rate = object.integer("max_bytes_per_second", in: 1...Self.byteCountMax, isNullable: true)
        object.off("allow_expensive", .bool(true), "Avoiding expensive networks is")
        object.off("allow_constrained", .bool(true), "Avoiding constrained networks is")
        object.finish()
        return rate
    }

    func retry(_ fields: inout FieldReader, _ kind: JobKind?) -> JobSpec.RetryRules {
        var rules = standardRetry
        guard var object = fields.object("retry") else { return rules }
        rules.attemptCountMax =
            object.integer("max_attempts", in: 1...Int64(Limits.jobAttemptCountMax)).map(Int.init)
            ?? rules.attemptCountMax
        rules.delayInitial = object.number("initial_delay", in: 0...86_400) ?? rules.delayInitial
        rules.multiplier = object.number("multiplier", in: 1...10) ?? rules.multiplier
        let delayMax = object.number("max_delay", in: 0...86_400)
        if let delayMax, delayMax < rules.delayInitial, object.has("initial_delay") {
            object.addError("max_delay", "invalid_combination", "This must not be below initial_delay.")
        }
        // An initial delay above the default maximum raises the maximum.
        rules.delayMax = delayMax ?? max(rules.delayMax, rules.delayInitial)
        rules.repeatsNonIdempotent = object.bool("non_idempotent") ?? false
        rules.resumesWithoutValidator = object.bool("resume_without_validator") ?? false
        if rules.resumesWithoutValidator, let kind, kind != .download {
            object.addError("resume_without_validator", "invalid_combination", "Only a download resumes.")
        }
        object.finish()
        return rules
    }
}

extension JobSpec.Redirects {
    /// Rules of a job that names none.
    package static let standard = Self(policy: .follow, countMax: 20, sendsCredentialsAcrossOrigins: false)
}

extension JobSpec.Schedule {
    /// Schedule of a job that names none: medium priority, at once, one week in total.
    package static let standard = Self(
        priority: 0.5, earliestBeginAt: nil, expectedBytesToSend: nil, expectedBytesToReceive: nil,
        timeoutForResource: 604_800)
}

extension JobSpec.RetryRules {
    /// Rules of a job that names none.
    package static let standard = Self(
        attemptCountMax: 8, delayInitial: 1, multiplier: 2, delayMax: 300, repeatsNonIdempotent: false)
}

/// Values of the API that this version does not support yet.
let laterNetworkServiceTypes = ["video", "voice", "av_streaming", "responsive_av", "call_signaling"]

private func isStatusPattern(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    guard bytes.count == 3, (49...53).contains(bytes[0]) else { return false }
    return bytes[1...].allSatisfy { $0 == UInt8(ascii: "x") }
        || bytes[1...].allSatisfy { (48...57).contains($0) }
}

private func isMediaRange(_ text: String) -> Bool {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2 else { return false }
    if parts[0] == "*" { return parts[1] == "*" }
    return HeaderRules.isName(String(parts[0])) && (parts[1] == "*" || HeaderRules.isName(String(parts[1])))
}
