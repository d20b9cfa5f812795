extension JobSpec {
    /// Returns the job's accepted fields with their effective values as JSON, as responses and webhooks show
    /// them. Secrets are replaced by `{"set": true}`, bodies by their sizes.
    package func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1_536)
        writer.beginObject()
        write(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the members of `encode` into an open object. `isRedacted`: `true` to hide values that may be
    /// secret.
    func write(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.member("kind", kind.rawValue)
        writer.member("session", session)
        writer.memberOrNull("description", description)
        writer.name("metadata")
        writer.beginObject()
        for pair in metadata { writer.member(pair.name, pair.value) }
        writer.endObject()
        request.write(into: &writer, isRedacted: isRedacted)
        writeMirrors(into: &writer, isRedacted: isRedacted)
        writeDestination(into: &writer)
        writeSource(into: &writer)
        if isPlain {
            writer.rawMembers(of: kind == .data ? plainDataRules : plainFileRules)
        } else {
            writeRuleMembers(into: &writer)
        }
        writeWebhook(into: &writer, isRedacted: isRedacted)
    }

    /// `true` if every rule has its default value, as in most jobs.
    private var isPlain: Bool {
        integrity.isEmpty && redirects == .standard && accept == Acceptance() && schedule == .standard
            && bytesPerSecondMax == nil && retry == .standard && segmentCountMax == 1
            && !asksOnChallenge && questions == .standard && boxedAcknowledgement == nil
            && !declinesAcknowledgement
    }

    /// Writes the members between the source and the webhook.
    fileprivate func writeRuleMembers(into writer: inout JSONWriter) {
        writeIntegrity(into: &writer)
        writeRules(into: &writer)
        writeSchedule(into: &writer)
        writer.name("network")
        writer.beginObject()
        writer.member("allow_expensive", true)
        writer.member("allow_constrained", true)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
        writer.endObject()
        writeRetry(into: &writer)
        writer.member("segments", segmentCountMax)
        if let acknowledgement {
            acknowledgement.write(into: &writer)
        } else if declinesAcknowledgement {
            writer.member("acknowledgement", false)
        } else {
            writer.name("acknowledgement")
            writer.null()
        }
    }

    func writeMirrors(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("mirrors")
        guard !mirrors.isEmpty else { return writer.raw(emptyArray) }
        writer.beginArray()
        for url in mirrors { writer.value(isRedacted ? RedactedURL.text(of: url) : url) }
        writer.endArray()
    }

    func writeDestination(into writer: inout JSONWriter) {
        writer.name("destination")
        guard let destination else { return writer.null() }
        writer.beginObject()
        writer.member("path", destination.path)
        writer.member("if_exists", destination.ifExists.rawValue)
        writer.endObject()
    }

    func writeSource(into writer: inout JSONWriter) {
        writer.name("source")
        guard let source else { return writer.null() }
        writer.beginObject()
        source.writeMembers(into: &writer)
        writer.endObject()
    }

    func writeIntegrity(into writer: inout JSONWriter) {
        writer.name("integrity")
        writer.beginObject()
        writer.memberOrNull("size", integrity.size)
        writer.memberOrNull("md5", integrity.md5)
        writer.memberOrNull("sha1", integrity.sha1)
        writer.memberOrNull("sha256", integrity.sha256)
        writer.memberOrNull("sha512", integrity.sha512)
        writer.memberOrNull("crc32c", integrity.crc32c)
        writer.memberOrNull("adler32", integrity.adler32)
        writer.endObject()
    }

    private func writeRules(into writer: inout JSONWriter) {
        writeRedirects(into: &writer)
        writeAcceptance(
            status: accept.status.isEmpty ? Acceptance.standardStatus(kind) : accept.status, into: &writer)
        writer.member("on_challenge", asksOnChallenge ? "ask" : "fail")
        questions.write(into: &writer)
    }

    func writeRedirects(into writer: inout JSONWriter) {
        writer.name("redirects")
        writer.beginObject()
        writer.member("policy", redirects.policy.rawValue)
        writer.member("max", redirects.countMax)
        writer.member("send_credentials_across_origins", redirects.sendsCredentialsAcrossOrigins)
        writer.endObject()
    }

    func writeAcceptance(status: [String], into writer: inout JSONWriter) {
        writer.name("accept")
        writer.beginObject()
        writer.name("status")
        writer.beginArray()
        for status in status { writer.value(status) }
        writer.endArray()
        writer.name("content_type")
        writer.beginArray()
        for type in accept.contentTypes { writer.value(type) }
        writer.endArray()
        writer.memberOrNull("max_bytes", accept.byteCountMax)
        writer.endObject()
    }

    func writeSchedule(into writer: inout JSONWriter) {
        writer.name("schedule")
        writer.beginObject()
        writer.member("priority", schedule.priority)
        writer.member("network_service_type", schedule.networkServiceType.rawValue)
        writer.memberOrNull("earliest_begin_at", schedule.earliestBeginAt)
        writer.memberOrNull("deadline_at", schedule.deadlineAt)
        writer.member("discretionary", schedule.isDiscretionary)
        writer.member("waits_for_connectivity", schedule.waitsForConnectivity)
        writer.member("confirm_before_begin", schedule.confirmsBeforeBegin)
        writer.memberOrNull("expected_bytes_to_send", schedule.expectedBytesToSend)
        writer.memberOrNull("expected_bytes_to_receive", schedule.expectedBytesToReceive)
        writer.member("timeout_for_resource", schedule.timeoutForResource)
        writer.name("depends_on")
        writer.beginArray()
        for job in schedule.dependsOn { writer.value(job.description) }
        writer.endArray()
        writer.member("on_dependency_failure", schedule.onDependencyFailure.rawValue)
        writer.endObject()
    }

    func writeRetry(into writer: inout JSONWriter) {
        writer.name("retry")
        writer.beginObject()
        writer.member("max_attempts", retry.attemptCountMax)
        writer.member("initial_delay", retry.delayInitial)
        writer.member("multiplier", retry.multiplier)
        writer.member("max_delay", retry.delayMax)
        writer.member("non_idempotent", retry.repeatsNonIdempotent)
        writer.member("resume_without_validator", retry.resumesWithoutValidator)
        writer.endObject()
    }

    func writeWebhook(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("webhook")
        guard let webhook else { return writer.null() }
        writer.beginObject()
        writer.member("url", isRedacted ? RedactedURL.text(of: webhook.url) : webhook.url)
        writer.name("events")
        writer.beginArray()
        for event in webhook.events { writer.value(event.rawValue) }
        writer.endArray()
        writer.name("secret")
        if webhook.hasSecret { writer.raw(setMark) } else { writer.null() }
        writer.endObject()
    }
}

extension JobSpec.RequestSpec {
    fileprivate func write(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("request")
        writer.beginObject()
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        writer.member("method", method)
        writer.write("headers", headers, isRedacted: isRedacted)
        writer.name("body")
        if let body { body.write(into: &writer) } else { writer.null() }
        writer.member("cache_policy", "use_protocol_cache_policy")
        writer.member("timeout_for_request", timeoutForRequest)
        writer.member("accept_encoding", acceptEncoding.rawValue)
        if let connection { connection.write(into: &writer) } else { writer.rawMembers(of: plainConnection) }
        writer.endObject()
    }

}

extension JSONWriter {
    /// Writes header fields. Credentials are never shown; with `isRedacted`, neither are other values that
    /// may be secret.
    mutating func write(_ name: String, _ headers: [JobSpec.Pair], isRedacted: Bool) {
        self.name(name)
        beginObject()
        for header in headers {
            self.name(header.name)
            if HeaderRules.isSecret(header.name) || isRedacted && !NonSecretFields.contains(header.name) {
                raw(setMark)
            } else {
                value(header.value)
            }
        }
        endObject()
    }
}

extension JobSpec.Body {
    /// Writes `{"text": {"size": 5}}`: the form, and the size instead of the bytes.
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writeMember(into: &writer)
        writer.endObject()
    }
}

// The rules of a plain job, encoded once: copying them takes a tenth of the time.
private let plainDataRules = plainRules(.data)
private let plainFileRules = plainRules(.download)

private func plainRules(_ kind: JobKind) -> [UInt8] {
    let plain = JobSpec(
        kind: kind, session: "", description: nil, metadata: [],
        request: .init(url: "", method: "", headers: [], body: nil, timeoutForRequest: 60), destination: nil,
        source: nil, integrity: .init(), redirects: .standard, accept: .init(), schedule: .standard,
        bytesPerSecondMax: nil, retry: .standard, webhook: nil)
    var writer = JSONWriter(reservingCapacity: 1_024)
    writer.beginObject()
    plain.writeRuleMembers(into: &writer)
    writer.endObject()
    return writer.bytes
}

/// Connection members of a request that names none.
private let plainConnection: [UInt8] = {
    var writer = JSONWriter(reservingCapacity: 128)
    writer.beginObject()
    ConnectionRules.standard.write(into: &writer)
    writer.endObject()
    return writer.bytes
}()

let setMark = Array(#"{"set":true}"#.utf8)
private let emptyArray = Array("[]".utf8)

extension JobSecrets {
    /// Returns the form that is encrypted and stored.
    package func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 128)
        writer.beginObject()
        writer.name("headers")
        writer.beginArray()
        for header in headers {
            writer.beginArray()
            writer.value(header.name)
            writer.value(header.value)
            writer.endArray()
        }
        writer.endArray()
        writer.memberOrNull("webhook_secret", webhookSecret)
        connection?.write(into: &writer)
        if let resumePoint {
            writer.name("resume_point")
            resumePoint.write(into: &writer)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` returned.
    package init(json: [UInt8]) throws(StoredJSONError) {
        let stored = try StoredObject(json)
        headers = []
        for pair in stored.array("headers") {
            guard let pair = pair.array, pair.count == 2, let name = pair[0].string,
                let value = pair[1].string
            else {
                throw StoredJSONError("headers")
            }
            headers.append(JobSpec.Pair(name, value))
        }
        webhookSecret = stored.string("webhook_secret")
        connection = ConnectionSecrets(stored)
        resumePoint = stored.json["resume_point"].flatMap(ResumePoint.init)
    }
}
