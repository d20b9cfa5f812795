extension JobSpec {
    /// Returns the stored form: like `encode`, without members that have their default value, because a row
    /// is written twice and most jobs name few members. `init(storedJSON:)` reads both forms.
    ///
    /// A change of a default value needs a version here, so that accepted jobs keep their values.
    package func encodeStored() -> [UInt8] { storedForm(isRedacted: false) }

    /// Returns the stored form with encrypted secret values (`SealedDocument`).
    package func encodeStored(_ seal: SecretSeal) -> [UInt8] {
        guard let secrets = secretValues else { return storedForm(isRedacted: false) }
        return SealedDocument.make(storedForm(isRedacted: true), secrets: secrets, seal)
    }

    /// The secret values of URLs and fields as a merge patch of the stored form; `nil` in most jobs. Without
    /// the webhook's URL, since deliveries are found by it.
    private var secretValues: JSON? {
        var request: [JSON.Member] = []
        if !RedactedURL.hasNoSecrets(self.request.url) {
            request.append(JSON.Member("url", .string(self.request.url)))
        }
        request.append(fields: self.request.headers)
        if let original = self.request.original {
            var members: [JSON.Member] = []
            if !RedactedURL.hasNoSecrets(original.url) {
                members.append(JSON.Member("url", .string(original.url)))
            }
            members.append(fields: original.headers)
            if !members.isEmpty { request.append(JSON.Member("original", .object(members))) }
        }
        var all: [JSON.Member] = request.isEmpty ? [] : [JSON.Member("request", .object(request))]
        if mirrors.contains(where: { !RedactedURL.hasNoSecrets($0) }) {
            all.append(JSON.Member("mirrors", .array(mirrors.map { .string($0) })))
        }
        if let members = answers?.secretValues { all.append(JSON.Member("answers", members)) }
        return all.isEmpty ? nil : .object(all)
    }

    private func storedForm(isRedacted: Bool) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.beginObject()
        writer.member("kind", kind.rawValue)
        writer.member("session", session)
        if let description { writer.member("description", description) }
        if !metadata.isEmpty { writer.object("metadata", metadata) }
        storeRequest(into: &writer, isRedacted: isRedacted)
        writeEnds(into: &writer)
        storeRules(into: &writer)
        if schedule != .standard { writeSchedule(into: &writer) }
        if let bytesPerSecondMax {
            writer.name("network")
            writer.beginObject()
            writer.member("max_bytes_per_second", bytesPerSecondMax)
            writer.endObject()
        }
        if retry != .standard { writeRetry(into: &writer) }
        if !mirrors.isEmpty { writeMirrors(into: &writer, isRedacted: isRedacted) }
        if segmentCountMax != 1 { writer.member("segments", segmentCountMax) }
        if webhook != nil { writeWebhook(into: &writer, isRedacted: false) }
        if asksOnChallenge { writer.member("on_challenge", "ask") }
        if questions != .standard { questions.write(into: &writer) }
        if let acknowledgement {
            acknowledgement.write(into: &writer)
        } else if declinesAcknowledgement {
            writer.member("acknowledgement", false)
        }
        answers?.store(into: &writer, isRedacted: isRedacted)
        occurrence?.store(into: &writer)
        writer.endObject()
        return writer.bytes
    }

    private func storeRequest(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("request")
        writer.beginObject()
        writer.member("url", isRedacted ? RedactedURL.text(of: request.url) : request.url)
        writer.member("method", request.method)
        if !request.headers.isEmpty { writer.write("headers", request.headers, isRedacted: isRedacted) }
        if let body = request.body {
            writer.name("body")
            body.write(into: &writer)
        }
        if request.timeoutForRequest != 60 { writer.member("timeout_for_request", request.timeoutForRequest) }
        if request.acceptEncoding != .identity {
            writer.member("accept_encoding", request.acceptEncoding.rawValue)
        }
        request.connection?.store(into: &writer)
        request.original?.store(into: &writer, isRedacted: isRedacted)
        request.additionalHeaders?.store(into: &writer)
        writer.endObject()
    }

    private func writeEnds(into writer: inout JSONWriter) {
        if destination != nil { writeDestination(into: &writer) }
        if source != nil { writeSource(into: &writer) }
        if !integrity.isEmpty { writeIntegrity(into: &writer) }
    }

    private func storeRules(into writer: inout JSONWriter) {
        if redirects != .standard { writeRedirects(into: &writer) }
        if accept != Acceptance() { writeAcceptance(status: accept.status, into: &writer) }
    }
}

extension [JSON.Member] {
    /// Adds `headers` with the fields that may be secret, except for credentials, which are stored elsewhere.
    mutating func append(fields: [JobSpec.Pair], as name: String = "headers") {
        let secret = fields.filter { !HeaderRules.isSecret($0.name) && !NonSecretFields.contains($0.name) }
        guard !secret.isEmpty else { return }
        append(JSON.Member(name, .object(secret.map { JSON.Member($0.name, .string($0.value)) })))
    }
}

extension JSONWriter {
    fileprivate mutating func object(_ name: String, _ pairs: [JobSpec.Pair]) {
        self.name(name)
        beginObject()
        for pair in pairs { member(pair.name, pair.value) }
        endObject()
    }
}
