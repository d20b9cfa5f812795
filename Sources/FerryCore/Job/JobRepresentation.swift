extension JobRecord {
    /// Writes the job as all endpoints and webhooks show it: its state and its accepted fields. All members
    /// are present, with null for no value. `progress`: of the running attempt, or `nil` if not known.
    /// `unavailable`: why the node that runs the job did not tell its progress. `queue`: evaluated only for a
    /// job that waits for Ferry or its host. `disclosure`: what the reader may see.
    public func write(
        into writer: inout JSONWriter, progress: TransferProgress?, unavailable: NodeUnavailable? = nil,
        queue: @autoclosure () -> QueueConditions = QueueConditions(), for disclosure: Disclosure = .redacted
    ) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("tenant", tenant)
        writer.member("state", state.rawValue)
        writer.memberOrNull("waiting_for", waitingFor?.rawValue)
        writer.member("revision", revision)
        writer.name("waiting_reason")
        WaitingReason(self, queue: queue()).show(into: &writer, isRedacted: true)
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
        // With a wrong key the question is shown without secrets.
        (disclosure.seal.flatMap { question(opening: $0) } ?? question(opening: nil)).map {
            ShownQuestion($0)
        }
        .show(into: &writer, isRedacted: disclosure.isRedacted)
        let spec = storedSpec.shown(for: disclosure)
        if let spec {
            writer.member("expires_at", spec.schedule.resourceExpiry(createdAt: createdAt))
            writer.name("answered_by")
            (spec.answers?.last).show(into: &writer, isRedacted: true)
            writer.memberOrNull("schedule_id", spec.occurrence?.schedule.description)
            writer.memberOrNull("scheduled_at", spec.occurrence?.scheduledAt)
            spec.write(into: &writer, isRedacted: disclosure.isRedacted)
        } else if !disclosure.isRedacted {
            // The stored fields are damaged: show what is there.
            writer.rawMembers(of: storedSpec.json)
        }
        writer.name("progress")
        let final = finalProgress(isUpload: spec?.kind == .upload)
        (final ?? progress ?? partialDownload?.progress ?? TransferProgress()).write(
            into: &writer, isSucceeded: state == .succeeded, unavailable: unavailable)
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
        body.map(InlineBody.init).show(into: &writer, isRedacted: true)
        writer.endObject()
    }
}

/// Body of a result: a text if it is UTF-8, else `{"base64": "…"}`.
private struct InlineBody: ShownValue {
    let bytes: [UInt8]

    func show(into writer: inout JSONWriter, isRedacted: Bool) {
        if let text = String(validating: bytes, as: UTF8.self) { return writer.value(text) }
        writer.beginObject()
        writer.member("base64", Base64.encode(bytes))
        writer.endObject()
    }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        JSON.rules(##"{"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/ShownBytes"}]}"##)
    }
}

extension TransferProgress {
    /// Writes the `progress` object of the API. `unavailable`: why the progress is not known.
    public func write(
        into writer: inout JSONWriter, isSucceeded: Bool, unavailable: NodeUnavailable? = nil
    ) {
        if !isSucceeded, unavailable == nil, self == TransferProgress() {
            writer.raw(noProgress)
        } else {
            ShownProgress(progress: self, isSucceeded: isSucceeded, unavailable: unavailable)
                .show(into: &writer, isRedacted: true)
        }
    }

    /// Bytes done and expected of the direction that carries the file: sending if there is something to send.
    /// An estimate counts while no length is known, until more bytes than estimated have moved.
    private var leading: (done: Int64, expected: Int64)? {
        if let expected = bytesExpectedToSend, expected > 0 { return (bytesSent, expected) }
        if let expected = bytesExpectedToReceive, expected > 0 { return (bytesReceived, expected) }
        switch estimate {
        case .toSend(let expected)? where bytesExpectedToSend == nil && bytesSent < expected:
            return (bytesSent, expected)
        case .toReceive(let expected)? where bytesExpectedToReceive == nil && bytesReceived < expected:
            return (bytesReceived, expected)
        default: return nil
        }
    }

    fileprivate var fractionCompleted: Double? {
        leading.map { min(1, max(0, Double($0.done) / Double($0.expected))) }
    }

    fileprivate var secondsRemaining: Double? {
        guard bytesPerSecond > 0, let leading else { return nil }
        return max(0, Double(leading.expected - leading.done)) / bytesPerSecond
    }
}

/// Progress of a job that has not begun, encoded once.
private let noProgress = ShownProgress(
    progress: TransferProgress(), isSucceeded: false, unavailable: nil
).shown()

/// The `progress` object of the API.
public struct ShownProgress: ShownObject {
    public static let summary =
        "Progress of the running attempt. Without a running attempt: of the result, or of the bytes that are "
        + "kept for a later attempt."
    public static let schemaName = "Progress"

    let progress: TransferProgress
    let isSucceeded: Bool
    let unavailable: NodeUnavailable?

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("bytes_received", \.progress.bytesReceived, "Bytes of the response body received so far.")
        list.member(
            "bytes_expected_to_receive", \.progress.bytesExpectedToReceive,
            "Bytes of the whole response body, or null if not known.")
        list.member("bytes_sent", \.progress.bytesSent, "Bytes of the request body sent so far.")
        list.member(
            "bytes_expected_to_send", \.progress.bytesExpectedToSend,
            "Bytes of the whole request body, or null if not known.")
        list.member(
            "fraction_completed", { $0.isSucceeded ? 1 : $0.progress.fractionCompleted },
            "Completed part of the transfer, from 0 to 1. If the total is not known, of the job's expected "
                + "bytes; null if it has none, or more bytes have moved.")
        list.member(
            "bytes_per_second", \.progress.bytesPerSecond,
            "Transfer rate of the last seconds, in bytes per second.")
        list.member(
            "seconds_remaining", { $0.isSucceeded ? 0 : $0.progress.secondsRemaining },
            "Estimated seconds until the end, from the same total, or null if not known.")
        list.member(
            "resumed_at_offset", \.progress.resumedAtOffset,
            "Byte at which the download resumed; 0 if it restarted because the kept bytes could not be used; "
                + "null if no bytes were kept.")
        list.optional(
            "unavailable", \.unavailable,
            "Why the progress is not known: the job runs on another node, which does not answer. Absent "
                + "otherwise.")
    }
}

extension TransferResponse {
    /// Returns the `response` object of the API as it is stored (`SealedDocument`). `header_fields` is left
    /// out if it has nothing that `headers` has not.
    public func stored(_ seal: SecretSeal) -> [UInt8] {
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
        if let content {
            writer.name("content")
            writer.beginObject()
            writer.member("size", content.size)
            writer.member("sha256", content.sha256)
            writer.endObject()
        }
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
    public func json(job: JobID, bytesSent: Int64 = 0) -> [UInt8] {
        ShownResult(result: self, job: job, bytesSent: bytesSent).shown(reservingCapacity: 256)
    }
}

/// The `result` object of the API.
public struct ShownResult: ShownObject {
    public static let summary = "Received or sent bytes of a succeeded job."
    public static let schemaName = "TransferResult"

    let result: TransferResult
    let job: JobID
    let bytesSent: Int64

    /// Path of the content, or `nil` for an upload whose response had no body.
    private var contentURL: String? {
        result.location != nil || result.body != nil ? "/v1/jobs/\(job)/content" : nil
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.stored("file", \.result.file?.text)
        list.stored(TransferResult.sentName) { $0.bytesSent > 0 ? $0.bytesSent : nil }
        list.member(
            "path", \.result.location?.path,
            "Path of the file below the tenant's storage root, or null if the job has no destination.")
        list.member("size", \.result.size, "Bytes of the received file or body, or of the sent file.")
        list.member("sha256", \.result.sha256, "SHA-256 of these bytes, in lower-case hexadecimal.")
        list.member(
            "verified", \.result.verified,
            "Check of the received bytes: digest, length, or none if the body ended with its connection.")
        // Left out if there is none, since few of the stored jobs have it.
        list.optional(
            "resumed_at_offset", \.result.resumedAtOffset,
            "Byte at which the download resumed; 0 if it restarted. Absent if no bytes were kept.")
        list.optional("parts", \.result.parts, "Only of a multipart/x-mixed-replace response.")
        list.optional("content", \.result.content, "Only of an upload whose response had a body.")
        list.member(
            "content_url", \.contentURL,
            "Path of the received bytes; null for an upload whose response had no body.")
        list.described(
            "body", InlineBody?.self,
            "Short body of the response to a data job or an upload: a string if it is UTF-8, else an object "
                + "with its base64. Null in lists, and without a short body.")
    }
}

extension TransferResult.Content: ShownObject {
    public static let summary = "The kept body of the response to an upload."
    public static let schemaName = "ResponseContent"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("size", \.size, "Bytes of the body.")
        list.member("sha256", \.sha256, "SHA-256 of these bytes, in lower-case hexadecimal.")
    }
}

extension TransferResult.Parts: ShownObject {
    public static let summary =
        "Parts of a multipart/x-mixed-replace response. Each part replaces the one before; the last complete "
        + "part is the result."
    public static let schemaName = "ResultParts"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("count", \.count, "Number of complete parts.")
        list.member("mime_type", \.mimeType, "Media type of the last part, or null if it has none.")
    }
}
