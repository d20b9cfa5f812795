/// A stored document is damaged or of an unknown version.
package struct StoredJSONError: Error, Sendable, Equatable {
    /// The missing or invalid member, or `syntax`.
    package let member: String
    init(_ member: String) { self.member = member }
}

/// The members of a stored object. A missing member reads as `nil`, because an older version may have written
/// the object.
struct StoredObject {
    let json: JSON

    init(_ text: [UInt8]) throws(StoredJSONError) {
        do throws(JSON.SyntaxError) {
            json = try JSON.parse(text)
        } catch {
            throw StoredJSONError("syntax")
        }
        guard json.members != nil else { throw StoredJSONError("syntax") }
    }

    /// Reads a document with encrypted values; throws if they cannot be decrypted.
    init(_ text: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        json = try SealedDocument.opened(text, seal)
        guard json.members != nil else { throw StoredJSONError("syntax") }
    }

    init(_ json: JSON) { self.json = json }

    func string(_ name: String) -> String? { json[name]?.string }
    func integer(_ name: String) -> Int64? { json[name]?.integer }
    func double(_ name: String) -> Double? { json[name]?.double }
    func bool(_ name: String, standard: Bool = false) -> Bool { json[name]?.bool ?? standard }
    func array(_ name: String) -> [JSON] { json[name]?.array ?? [] }
    func strings(_ name: String) -> [String] { array(name).compactMap(\.string) }
    func object(_ name: String) -> StoredObject? {
        guard let value = json[name], value.members != nil else { return nil }
        return StoredObject(value)
    }
    func need<T>(_ value: T?, _ name: String) throws(StoredJSONError) -> T {
        guard let value else { throw StoredJSONError(name) }
        return value
    }
    func timestamp(_ name: String) throws(StoredJSONError) -> Timestamp? {
        guard let text = string(name) else { return nil }
        return try need(Timestamp(rfc3339: text), name)
    }
    /// Returns members whose values are strings; others (`{"set": true}`) read as empty.
    func pairs(_ name: String) -> [JobSpec.Pair] {
        (json[name]?.members ?? []).map { JobSpec.Pair($0.name, $0.value.string ?? "") }
    }
}

extension JobSpec {
    /// Reads what `encode` or `encodeStored` returned. Throws if it is damaged; the row must then be left
    /// alone and reported. Secret values are redacted: enough to show the job and to read its rules, but a
    /// request needs `init(storedJSON:opening:)`.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// Reads what `encodeStored` returned with its secret values. Throws if they cannot be decrypted.
    package init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON, opening: seal))
    }

    private init(_ stored: StoredObject) throws(StoredJSONError) {
        let request = try stored.need(stored.object("request"), "request")
        let webhook = stored.object("webhook")
        self.init(
            kind: try stored.need(stored.string("kind").flatMap(JobKind.init), "kind"),
            session: try stored.need(stored.string("session"), "session"),
            description: stored.string("description"), metadata: stored.pairs("metadata"),
            request: try RequestSpec(request), destination: try Destination(stored.object("destination")),
            source: try stored.object("source").map(Source.init(stored:)),
            integrity: Integrity(stored.object("integrity")),
            redirects: try Redirects(stored.object("redirects")), accept: Acceptance(stored.object("accept")),
            schedule: try Schedule(stored.object("schedule")),
            bytesPerSecondMax: stored.object("network")?.integer("max_bytes_per_second"),
            retry: RetryRules(stored.object("retry")), webhook: try webhook.map(WebhookSpec.init(stored:)))
        accept.leaveOutStandard(kind)
        mirrors = stored.strings("mirrors")
        segmentCountMax = stored.integer("segments").map { Int(clamping: $0) } ?? 1
        asksOnChallenge = stored.string("on_challenge") == "ask"
        questions = QuestionRules(stored.object("questions"))
        acknowledgement = AcknowledgementRules(stored.object("acknowledgement"))
        declinesAcknowledgement = stored.json["acknowledgement"] == .bool(false)
        answers = try JobAnswers(stored.object("answers"))
        occurrence = try stored.object("occurrence").map(ScheduleOccurrence.init(stored:))
    }
}

extension JobSpec.RequestSpec {
    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"),
            method: try stored.need(stored.string("method"), "method"), headers: stored.pairs("headers"),
            body: try stored.object("body").map(JobSpec.Body.init(stored:)),
            timeoutForRequest: stored.double("timeout_for_request") ?? 60,
            acceptEncoding: try stored.string("accept_encoding").map { text throws(StoredJSONError) in
                try stored.need(JobSpec.AcceptEncoding(rawValue: text), "accept_encoding")
            } ?? .identity)
        connection = try ConnectionRules(stored)
        original = try OriginalRequest(stored.object("original"))
        additionalHeaders = try AdditionalHeaders(stored.object("additional_headers"))
    }
}

extension JobSpec.Body {
    init(stored: StoredObject) throws(StoredJSONError) {
        guard let member = stored.json.members?.first, let form = Form(rawValue: member.name) else {
            throw StoredJSONError("body")
        }
        if form == .multipart {
            try self.init(storedParts: stored)
            return
        }
        let size = try stored.need(member.value["size"]?.integer, "size")
        self.init(form: form, byteCount: Int(clamping: size))
    }
}

extension JobSpec.Destination {
    fileprivate init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        self.init(
            path: try stored.need(stored.string("path"), "path"),
            ifExists: try stored.need(stored.string("if_exists").flatMap(IfExists.init), "if_exists"))
    }
}

extension JobSpec.Integrity {
    fileprivate init(_ stored: StoredObject?) {
        self.init(
            size: stored?.integer("size"), md5: stored?.string("md5"), sha1: stored?.string("sha1"),
            sha256: stored?.string("sha256"), sha512: stored?.string("sha512"),
            crc32c: stored?.string("crc32c"), adler32: stored?.string("adler32"))
    }
}

extension JobSpec.Redirects {
    fileprivate init(_ stored: StoredObject?) throws(StoredJSONError) {
        self = .standard
        guard let stored else { return }
        policy = try stored.need(stored.string("policy").flatMap(Policy.init), "policy")
        countMax = stored.integer("max").map { Int(clamping: $0) } ?? countMax
        sendsCredentialsAcrossOrigins = stored.bool("send_credentials_across_origins")
    }
}

extension JobSpec.Acceptance {
    fileprivate init(_ stored: StoredObject?) {
        self.init(
            status: stored?.strings("status") ?? [], contentTypes: stored?.strings("content_type") ?? [],
            byteCountMax: stored?.integer("max_bytes"))
    }
}

extension JobSpec.Schedule {
    fileprivate init(_ stored: StoredObject?) throws(StoredJSONError) {
        self = .standard
        guard let stored else { return }
        priority = stored.double("priority") ?? priority
        earliestBeginAt = try stored.timestamp("earliest_begin_at")
        expectedBytesToSend = stored.integer("expected_bytes_to_send")
        expectedBytesToReceive = stored.integer("expected_bytes_to_receive")
        timeoutForResource = stored.double("timeout_for_resource") ?? timeoutForResource
        isDiscretionary = stored.bool("discretionary")
        networkServiceType =
            try stored.string("network_service_type").map { text throws(StoredJSONError) in
                try stored.need(JobSpec.NetworkServiceType(rawValue: text), "network_service_type")
            } ?? .standard
        deadlineAt = try stored.timestamp("deadline_at")
        for text in stored.strings("depends_on") {
            dependsOn.append(try stored.need(JobID(text), "depends_on"))
        }
        onDependencyFailure =
            stored.string("on_dependency_failure").flatMap(JobSpec.DependencyFailure.init) ?? .fail
        waitsForConnectivity = stored.bool("waits_for_connectivity", standard: true)
        confirmsBeforeBegin = stored.bool("confirm_before_begin")
    }
}

extension JobSpec.RetryRules {
    fileprivate init(_ stored: StoredObject?) {
        self = .standard
        guard let stored else { return }
        attemptCountMax = stored.integer("max_attempts").map { Int(clamping: $0) } ?? attemptCountMax
        delayInitial = stored.double("initial_delay") ?? delayInitial
        multiplier = stored.double("multiplier") ?? multiplier
        delayMax = stored.double("max_delay") ?? delayMax
        repeatsNonIdempotent = stored.bool("non_idempotent")
        resumesWithoutValidator = stored.bool("resume_without_validator")
    }
}

extension JobSpec.WebhookSpec {
    fileprivate init(stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"),
            events: stored.strings("events").compactMap(EventType.init),
            hasSecret: stored.object("secret") != nil)
    }
}
