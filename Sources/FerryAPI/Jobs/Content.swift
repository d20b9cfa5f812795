internal import FerryCore
internal import HTTPServer

/// What a succeeded job's bytes are, apart from the bytes.
private struct ContentDescription {
    let sha256: String
    let mediaType: String
    let fileName: String

    init(_ content: JobContent) {
        sha256 = content.sha256
        mediaType = content.mediaType ?? "application/octet-stream"
        fileName = content.fileName
    }

    var tag: String { "\"\(sha256)\"" }

    func fields(isPart: Bool) -> HTTPFields {
        let digest = Base64.encode(hexDecoded(sha256) ?? [])
        var fields = HTTPFields([
            ("ETag", tag), ("Accept-Ranges", "bytes"), ("Cache-Control", "private, no-cache"),
            ("Content-Type", mediaType), ("Content-Disposition", disposition),
            ("Repr-Digest", "sha-256=:\(digest):"), ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", "default-src 'none'; sandbox"),
        ])
        // The old field is about what is sent (RFC 3230 §4.1), so only a whole answer has it.
        if !isPart { fields.append("Digest", "SHA-256=\(digest)") }
        return fields
    }

    /// RFC 6266 with RFC 8187 for what is not ASCII.
    private var disposition: String {
        let plain = fileName.unicodeScalars.map { scalar -> Character in
            scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F && scalar != "\"" && scalar != "\\"
                ? Character(scalar) : "_"
        }
        return "attachment; filename=\"\(String(plain))\"; filename*=UTF-8''\(percentEncoded(fileName))"
    }
}

extension API {
    /// `GET /v1/jobs/{id}/content`
    func readContent(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            ports.reader.job(id, tenant: call.principal.tenant) { [self] result in
                call.answering { () throws(Problem) in
                    try sendContent(of: try result.mapError { Problem($0) }.get(), call)
                }
            }
        }
    }

    private func sendContent(of job: JobRecord, _ call: RequestContext) throws(Problem) {
        guard job.state == .succeeded else { throw Problem(StoreError.invalidState(of: job)) }
        guard let content = JobContent(job) else {
            throw Problem(.noContent, "This job left nothing that could be fetched.")
        }
        let description = ContentDescription(content)
        if let tags = EntityTags(call.fields, "If-Match"), !tags.matches(description.tag) {
            throw Problem(.stale, "The content has another entity tag.")
        }
        if EntityTags(call.fields, "If-None-Match")?.matchesWeakly(description.tag) == true {
            return call.send(Response(status: 304, fields: HTTPFields([("ETag", description.tag)])))
        }
        if case .body(let body) = content.place {
            return sendPart(description, Int64(body.count), call) { offset, length in
                .bytes(Array(body[Int(offset)..<Int(offset + length)]))
            }
        }
        ports.content.open(job) { result in
            switch result {
            case .failure(.notFound): call.fail(Problem(.noContent, "The file is not there any more."))
            case .failure(.overloaded):
                let text = "Too many files are being compared with their digests; ask again."
                var problem = Problem(.overloaded, text)
                problem.fields = quotaFields("contents", quota: Int64(contentWaiterCountMax), seconds: 1)
                call.fail(problem)
            case .failure(let error): call.fail(error)
            case .success(let content):
                sendPart(description, content.byteCount, call) { offset, length in
                    // Owns the descriptor, and closes it also when it is not sent.
                    let file = FileBody(descriptor: content.descriptor, offset: offset, length: length)
                    return length > 0 ? .file(file) : .bytes([])
                }
            }
        }
    }
}

/// Sends everything or the range that is asked for (RFC 9110 §14). Calls `body` exactly once, with offset and
/// length.
private func sendPart(
    _ description: ContentDescription, _ byteCount: Int64, _ call: RequestContext,
    _ body: (Int64, Int64) -> Response.Body
) {
    // A range is only for GET, and only of the same bytes: If-Range wants the strong tag.
    let isSame = call.fields["If-Range"].map { $0 == description.tag } ?? true
    let wanted = isSame && call.request.head.method == "GET" ? call.fields["Range"] : nil
    switch ByteRange(wanted, byteCount: byteCount) {
    case .whole:
        call.send(Response(status: 200, fields: description.fields(isPart: false), body: body(0, byteCount)))
    case .part(let offset, let length):
        var fields = description.fields(isPart: true)
        fields.append("Content-Range", "bytes \(offset)-\(offset + length - 1)/\(byteCount)")
        call.send(Response(status: 206, fields: fields, body: body(offset, length)))
    case .unsatisfiable:
        _ = body(0, 0)
        var problem = Problem(.rangeNotSatisfiable, "The content has \(byteCount) bytes.")
        problem.fields.append(("Content-Range", "bytes */\(byteCount)"))
        call.fail(problem)
    }
}
