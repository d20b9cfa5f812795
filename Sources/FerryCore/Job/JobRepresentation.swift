extension JobRecord {
    /// Writes the job as all endpoints and webhooks show it: its state and its accepted fields. All members
    /// are present, with null for no value. `progress`: of the running attempt, or `nil` if not known on this
    /// node. `queue`: evaluated only for a job that waits for Ferry or its host. `disclosure`: what the
    /// reader may see.
    package func write(
        into writer: inout JSONWriter, progress: TransferProgress?,
        queue: @autoclosure () -> QueueConditions = QueueConditions(), for disclosure: Disclosure = .redacted
    ) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("tenant", tenant)
        writer.member("state", state.rawValue)
        writer.memberOrNull("waiting_for", waitingFor?.rawValue)
        writer.member("revision", revision)
        writer.name("waiting_reason")
        if let reason = WaitingReason(self, queue: queue()) {
            reason.write(into: &writer)
        } else {
            writer.null()
        }
        writer.member("created_at", createdAt)
        writer.memberOrNull("started_at", startedAt)
        writer.memberOrNull("finished_at", finishedAt)
        writer.memberOrNull("acknowledged_at", acknowledgedAt)
        writer.memberOrNull("next_attempt_at", nextAttemptAt)
        writer.member("attempt", attempt)
        writer.memberOrNull("node", node?.description)
        writer.member("link", "default")
        writer.memberOrNull("retry_of", retryOf?.description)
        writer.name("question")
        if let question = question(for: disclosure) {
            question.write(into: &writer, for: disclosure)
        } else {
            writer.null()
        }
        let spec = spec(for: disclosure)
        if let spec {
            writer.name("answered_by")
            if let last = spec.answers?.last { last.write(into: &writer) } else { writer.null() }
            writer.memberOrNull("schedule_id", spec.occurrence?.schedule.description)
            writer.memberOrNull("scheduled_at", spec.occurrence?.scheduledAt)
            spec.write(into: &writer, isRedacted: disclosure.isRedacted)
        } else if !disclosure.isRedacted {
            // The stored fields are damaged: show what is there.
            writer.rawMembers(of: specJSON)
        }
        writer.name("progress")
        let final = finalProgress(isUpload: spec?.kind == .upload)
        (final ?? progress ?? partialDownload?.progress ?? TransferProgress()).write(
            into: &writer, isSucceeded: state == .succeeded)
        writer.name("response")
        if let responseJSON {
            writer.raw(TransferResponse.shown(responseJSON, for: disclosure))
        } else {
            writer.null()
        }
        writer.name("result")
        writeResult(into: &writer)
        writer.name("error")
        if let errorJSON { writer.raw(errorJSON) } else { writer.null() }
        writer.memberOrNull("resume_data", resumeData)
        writer.endObject()
    }

    /// Returns the accepted fields, without secrets if they cannot be decrypted, or `nil` if they cannot be
    /// read.
    private func spec(for disclosure: Disclosure) -> JobSpec? {
        if let spec { return spec }
        // With a wrong key the fields are shown without secrets.
        if let seal = disclosure.seal, let whole = try? JobSpec(storedJSON: specJSON, opening: seal) {
            return whole
        }
        // An unreadable spec is shown without fields.
        return try? JobSpec(storedJSON: specJSON)
    }

    private func question(for disclosure: Disclosure) -> JobQuestion? {
        guard let questionJSON else { return nil }
        // With a wrong key the question is shown without secrets.
        if let seal = disclosure.seal, let whole = try? JobQuestion(storedJSON: questionJSON, opening: seal) {
            return whole
        }
        // An unreadable question is not shown.
        return try? JobQuestion(storedJSON: questionJSON)
    }

    /// Progress of a finished job from its result, or from the bytes that it has left.
    private func finalProgress(isUpload: Bool) -> TransferProgress? {
        guard state.isTerminal else { return nil }
        // A result that cannot be read has no sizes, like a missing one.
        guard let resultJSON, let result = try? JSON.parse(resultJSON), let size = result["size"]?.integer
        else {
            return partialDownload?.progress ?? TransferProgress()
        }
        // Missing if nothing was sent or if an older version stored the result.
        let sent = result[TransferResult.sentName]?.integer
        if isUpload {
            return TransferProgress(bytesSent: sent ?? size, bytesExpectedToSend: sent ?? size)
        }
        return TransferProgress(
            bytesReceived: size, bytesExpectedToReceive: size, bytesSent: sent ?? 0,
            bytesExpectedToSend: sent, resumedAtOffset: result["resumed_at_offset"]?.integer)
    }

    private func writeResult(into writer: inout JSONWriter) {
        guard let resultJSON else { return writer.null() }
        writer.beginObject()
        writer.rawMembers(of: TransferResult.shown(resultJSON))
        // The body is stored beside the result, so that lists need not read it.
        writer.name("body")
        if let body { writer.value(bodyJSON(body)) } else { writer.null() }
        writer.endObject()
    }
}

/// Returns a body as JSON: a text if it is UTF-8, else `{"base64": "…"}`.
private func bodyJSON(_ body: [UInt8]) -> JSON {
    if let text = String(validating: body, as: UTF8.self) { return .string(text) }
    return .object([JSON.Member("base64", .string(Base64.encode(body)))])
}

extension TransferProgress {
    /// Writes the `progress` object of the API.
    package func write(into writer: inout JSONWriter, isSucceeded: Bool) {
        if !isSucceeded, self == TransferProgress() {
            writer.raw(noProgress)
        } else {
            writeMembers(into: &writer, isSucceeded: isSucceeded)
        }
    }

    fileprivate func writeMembers(into writer: inout JSONWriter, isSucceeded: Bool) {
        writer.beginObject()
        writer.member("bytes_received", bytesReceived)
        writer.memberOrNull("bytes_expected_to_receive", bytesExpectedToReceive)
        writer.member("bytes_sent", bytesSent)
        writer.memberOrNull("bytes_expected_to_send", bytesExpectedToSend)
        writer.memberOrNull("fraction_completed", isSucceeded ? 1 : fractionCompleted)
        writer.member("bytes_per_second", bytesPerSecond)
        writer.memberOrNull("seconds_remaining", isSucceeded ? 0 : secondsRemaining)
        writer.memberOrNull("resumed_at_offset", resumedAtOffset)
        writer.endObject()
    }

    /// Bytes done and expected of the direction that carries the file: sending if there is something to send.
    private var leading: (done: Int64, expected: Int64)? {
        if let expected = bytesExpectedToSend, expected > 0 { return (bytesSent, expected) }
        if let expected = bytesExpectedToReceive, expected > 0 { return (bytesReceived, expected) }
        return nil
    }

    private var fractionCompleted: Double? {
        leading.map { min(1, max(0, Double($0.done) / Double($0.expected))) }
    }

    private var secondsRemaining: Double? {
        guard bytesPerSecond > 0, let leading else { return nil }
        return max(0, Double(leading.expected - leading.done)) / bytesPerSecond
    }
}

/// Progress of a job that has not begun, encoded once.
private let noProgress: [UInt8] = {
    var writer = JSONWriter()
    TransferProgress().writeMembers(into: &writer, isSucceeded: false)
    return writer.bytes
}()

extension TransferResponse {
    /// Returns the `response` object of the API as it is stored (`SealedDocument`). `header_fields` is left
    /// out if it has nothing that `headers` has not.
    package func stored(_ seal: SecretSeal) -> [UInt8] {
        let fields = headers.combined
        let lines = fields.count == headers.count ? nil : headers
        let isURLPublic = RedactedURL.hasNoSecrets(url)
        var secrets: [JSON.Member] = []
        if !isURLPublic { secrets.append(JSON.Member("url", .string(url))) }
        let secretFields = fields.filter { !NonSecretFields.contains($0.name) }
        if !secretFields.isEmpty {
            let members = secretFields.map { JSON.Member($0.name, .string($0.value)) }
            secrets.append(JSON.Member("headers", .object(members)))
        }
        if let lines, lines.contains(where: { !NonSecretFields.contains($0.name) }) {
            secrets.append(JSON.Member("header_fields", JSON(headerLines: lines)))
        }
        var writer = JSONWriter(reservingCapacity: 512)
        writer.beginObject()
        SealedDocument.write(secrets.isEmpty ? nil : .object(secrets), seal, into: &writer)
        writer.member("status", status)
        writer.member("url", isURLPublic ? url : RedactedURL.text(of: url))
        writer.name("headers")
        writer.headerMap(fields, isRedacted: true)
        if let lines {
            writer.name("header_fields")
            writer.headerLines(lines, isRedacted: true)
        }
        writer.memberOrNull("mime_type", mimeType)
        writer.memberOrNull("suggested_filename", suggestedFilename)
        writer.memberOrNull("expected_content_length", expectedContentLength)
        if let bodyExcerpt { writer.member("body_excerpt", bodyExcerpt) }
        writer.endObject()
        return writer.bytes
    }

    /// Returns a stored `response` as the reader may see it.
    static func shown(_ stored: [UInt8], for disclosure: Disclosure) -> [UInt8] {
        switch disclosure {
        case .full(let seal): addingHeaderFields(SealedDocument.whole(stored, seal))
        case .redacted: addingHeaderFields(SealedDocument.shown(stored) ?? redacted(stored))
        }
    }

    /// Adds `header_fields`, made of `headers`, if the stored response has left it out. Works on the text,
    /// because every event of a finished job shows a response.
    private static func addingHeaderFields(_ shown: [UInt8]) -> [UInt8] {
        let (map, list) = (Array(#""headers":{"#.utf8), Array(#","header_fields":["#.utf8))
        // Quotes in values are escaped, so this is the member.
        guard let start = shown.indices.first(where: { shown[$0...].starts(with: map) }) else { return shown }
        var index = start + map.count
        var lines = list
        while index < shown.count, shown[index] != UInt8(ascii: "}") {
            if shown[index] == UInt8(ascii: ",") {
                lines.append(UInt8(ascii: ","))
                index += 1
            }
            let colon = endOfString(shown, index)
            let isText = colon + 1 < shown.count && shown[colon + 1] == UInt8(ascii: "\"")
            let end = isText ? endOfString(shown, colon + 1) : colon + 1 + setMark.count
            guard end < shown.count else { return shown }
            lines += #"{"name":"#.utf8
            lines += shown[index..<colon]
            lines += #","value":"#.utf8
            lines += shown[(colon + 1)..<end]
            lines.append(UInt8(ascii: "}"))
            index = end
        }
        index += 1
        guard index <= shown.count, !shown[index...].starts(with: list) else { return shown }
        return shown[..<index] + lines + [UInt8(ascii: "]")] + shown[index...]
    }

    /// Returns the index after the JSON string that begins at `start`.
    private static func endOfString(_ text: [UInt8], _ start: Int) -> Int {
        var index = start + 1
        while index < text.count, text[index] != UInt8(ascii: "\"") {
            index += text[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return index + 1
    }

    /// Redacts a `response` that an older version stored without encryption.
    private static func redacted(_ stored: [UInt8]) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: stored.count)
        writer.beginObject()
        // Written by Ferry; what cannot be read is not shown.
        for member in (try? JSON.parse(stored))?.members ?? [] {
            writer.name(member.name)
            switch (member.name, member.value) {
            case ("url", .string(let url)): writer.value(RedactedURL.text(of: url))
            case ("headers", .object(let fields)):
                writer.beginObject()
                for field in fields {
                    writer.name(field.name)
                    if NonSecretFields.contains(field.name) {
                        writer.value(field.value)
                    } else {
                        writer.raw(setMark)
                    }
                }
                writer.endObject()
            default: writer.value(member.value)
            }
        }
        writer.endObject()
        return writer.bytes
    }
}

extension TransferResult {
    fileprivate static let sentName = "bytes_sent"
    /// Members for internal use. They come first in the stored JSON and their values have no comma, so that
    /// they can be cut off without parsing the rest.
    private static let hiddenMembers = ["file", sentName].map { Array("\"\($0)\":".utf8) }

    /// Returns a stored result as clients see it.
    fileprivate static func shown(_ stored: [UInt8]) -> [UInt8] {
        var rest = stored.dropFirst()
        for member in hiddenMembers where rest.starts(with: member) {
            guard let comma = rest.firstIndex(of: UInt8(ascii: ",")) else { return stored }
            rest = rest[(comma + 1)...]
        }
        return rest.startIndex == 1 ? stored : [UInt8(ascii: "{")] + rest
    }

    /// Returns the `result` object of the API with internal members and without `body`, which is stored
    /// beside it and added by `JobRecord.write`. `bytesSent`: as in `TransferProgress`.
    package func json(job: JobID, bytesSent: Int64 = 0) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        if let file { writer.member("file", file.text) }
        if bytesSent > 0 { writer.member(Self.sentName, bytesSent) }
        writer.memberOrNull("path", path)
        writer.member("size", size)
        writer.member("sha256", sha256)
        writer.member("verified", verified.rawValue)
        // Left out if there is none, since few of the stored jobs have it.
        if let resumedAtOffset { writer.member("resumed_at_offset", resumedAtOffset) }
        if let parts {
            writer.name("parts")
            writer.beginObject()
            writer.member("count", parts.count)
            writer.memberOrNull("mime_type", parts.mimeType)
            writer.endObject()
        }
        writer.name("content_url")
        // Nothing of an upload is stored here.
        if path != nil || isManaged || body != nil {
            writer.value("/v1/jobs/\(job)/content")
        } else {
            writer.null()
        }
        writer.endObject()
        return writer.bytes
    }
}
