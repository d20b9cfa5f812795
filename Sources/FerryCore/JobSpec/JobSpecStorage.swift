// The stored form of a spec, and the form that the API shows.

extension JobSpec {
    /// Returns the job's accepted fields with their effective values as JSON, as responses and webhooks show
    /// them. Secrets are replaced by `{"set": true}`, bodies by their sizes.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1_536)
        writer.beginObject()
        write(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the members of `encode` into an open object. `isRedacted`: `true` to hide values that may be
    /// secret.
    func write(into writer: inout JSONWriter, isRedacted: Bool) {
        withStandardStatus.writeFields(into: &writer, isRedacted: isRedacted)
    }

    /// The fields as they are shown: with the accepted statuses, also if they are those of the kind.
    var withStandardStatus: JobSpec {
        guard accept.status.isEmpty else { return self }
        var spec = self
        spec.accept.status = Acceptance.standardStatus(kind)
        return spec
    }

    /// Returns the stored form: like `encode`, without null and without objects whose fields all have their
    /// default value, because a row is written twice and most jobs name few members. `init(storedJSON:)`
    /// reads both forms.
    public func encodeStored() -> [UInt8] { storedForm(isRedacted: false) }

    /// Returns the stored form with encrypted secret values (`SealedDocument`).
    public func encodeStored(_ seal: SecretSeal) -> [UInt8] {
        guard let secrets = secretValues else { return storedForm(isRedacted: false) }
        return SealedDocument.make(storedForm(isRedacted: true), secrets: secrets, seal)
    }

    private func storedForm(isRedacted: Bool) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.beginObject()
        storeFields(into: &writer, isRedacted: isRedacted)
        if request.original != nil || request.additionalHeaders != nil || answers != nil || occurrence != nil
        {
            writer.name("internal")
            writer.beginObject()
            request.original?.store(into: &writer, isRedacted: isRedacted)
            request.additionalHeaders?.store(into: &writer)
            answers?.store(into: &writer, isRedacted: isRedacted)
            occurrence?.store(into: &writer)
            writer.endObject()
        }
        writer.endObject()
        return writer.bytes
    }

    /// The secret values of URLs and fields as a merge patch of the stored form; `nil` in most jobs. Without
    /// the webhook's URL, since deliveries are found by it.
    private var secretValues: JSON? {
        var all: [JSON.Member] = []
        let request = self.request.secretMembers
        if !request.isEmpty { all.append(JSON.Member("request", .object(request))) }
        if mirrors.contains(where: { !RedactedURL.hasNoSecrets($0) }) {
            all.append(JSON.Member("mirrors", .array(mirrors.map { .string($0) })))
        }
        if let server = otherServer {
            var members: [JSON.Member] = []
            members.append(url: server.url)
            members.append(fields: server.headers)
            let name = kind == .upload ? "source" : "destination"
            if !members.isEmpty { all.append(JSON.Member(name, .object(members))) }
        }
        var rest: [JSON.Member] = []
        if let original = self.request.original {
            var members: [JSON.Member] = []
            members.append(url: original.url)
            members.append(fields: original.headers)
            if !members.isEmpty { rest.append(JSON.Member("original", .object(members))) }
        }
        if let members = answers?.secretValues { rest.append(JSON.Member("answers", members)) }
        if !rest.isEmpty { all.append(JSON.Member("internal", .object(rest))) }
        return all.isEmpty ? nil : .object(all)
    }

    /// Reads what `encode` or `encodeStored` returned. Throws if it is damaged; the row must then be left
    /// alone and reported. Secret values are redacted: enough to show the job and to read its rules, but a
    /// request needs `init(storedJSON:opening:)`.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// Reads what `encodeStored` returned with its secret values. Throws if they cannot be decrypted.
    public init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON, opening: seal))
    }

    private init(_ stored: StoredObject) throws(StoredJSONError) {
        try self.init(restoring: stored)
        accept.leaveOutStandard(kind)
        let rest = stored.object("internal")
        request.original = try OriginalRequest(rest?.object("original"))
        request.additionalHeaders = try AdditionalHeaders(rest?.object("additional_headers"))
        answers = try JobAnswers(rest?.object("answers"))
        occurrence = try rest?.object("occurrence").map(ScheduleOccurrence.init(stored:))
    }
}

extension JobSpec.RequestSpec {
    fileprivate var secretMembers: [JSON.Member] {
        var members: [JSON.Member] = []
        members.append(url: url)
        members.append(fields: headers)
        return members
    }
}

extension [JSON.Member] {
    /// Adds `url` if the URL has parts that may be secret.
    mutating func append(url: String) {
        if !RedactedURL.hasNoSecrets(url) { append(JSON.Member("url", .string(url))) }
    }

    /// Adds the header fields that may be secret, except for credentials, which are stored elsewhere, as a
    /// member of this name. If names are repeated, adds `header_fields` with all lines, because a merge patch
    /// replaces arrays as a whole.
    mutating func append(fields: [JobSpec.Pair], as name: String = "headers") {
        let secret = fields.filter { !HeaderRules.isSecret($0.name) && !NonSecretFields.contains($0.name) }
        guard !secret.isEmpty else { return }
        if fields.hasRepeatedNames {
            append(JSON.Member("header_fields", JSON(headerLines: fields)))
        } else {
            append(JSON.Member(name, .object(secret.map { JSON.Member($0.name, .string($0.value)) })))
        }
    }
}

extension JobSecrets {
    /// Returns the form that is encrypted and stored.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 128)
        writer.beginObject()
        writer.secretFields("headers", headers)
        writer.memberOrNull("webhook_secret", webhookSecret)
        if !webhookHeaders.isEmpty { writer.secretFields("webhook_headers", webhookHeaders) }
        if let webhookTLS {
            writer.name("webhook_tls")
            webhookTLS.write(into: &writer)
        }
        connection?.write(into: &writer)
        if let otherServer {
            writer.name("other_server")
            otherServer.write(into: &writer)
        }
        if let resumePoint {
            writer.name("resume_point")
            resumePoint.write(into: &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` returned.
    public init(json: [UInt8]) throws(StoredJSONError) {
        let stored = try StoredObject(json)
        headers = try stored.secretFields("headers")
        webhookSecret = stored.string("webhook_secret")
        webhookHeaders = try stored.secretFields("webhook_headers")
        webhookTLS = stored.object("webhook_tls").map { WebhookTLS($0) }
        connection = ConnectionSecrets(stored)
        otherServer = try stored.object("other_server").map { (object) throws(StoredJSONError) in
            try OtherServerSecrets(object)
        }
        resumePoint = stored.json["resume_point"].flatMap(ResumePoint.init)
    }
}

extension JSONWriter {
    /// Writes header fields as pairs of name and value.
    mutating func secretFields(_ name: String, _ fields: [JobSpec.Pair]) {
        self.name(name)
        beginArray()
        for field in fields {
            beginArray()
            value(field.name)
            value(field.value)
            endArray()
        }
        endArray()
    }
}

extension StoredObject {
    /// Reads what `JSONWriter.secretFields` wrote; empty if the member is missing.
    func secretFields(_ name: String) throws(StoredJSONError) -> [JobSpec.Pair] {
        try array(name).map { (pair) throws(StoredJSONError) in
            guard let pair = pair.array, pair.count == 2, let field = pair[0].string,
                let value = pair[1].string
            else { throw StoredJSONError(name) }
            return JobSpec.Pair(field, value)
        }
    }
}
