internal import FerryCore
internal import HTTPServer

/// Metadata of content: of a terminal job, or of an upload.
struct ContentDescription {
    let sha256: String
    let mediaType: String
    let fileName: String

    init(_ content: JobContent) {
        self.init(sha256: content.sha256, mediaType: content.mediaType, fileName: content.fileName)
    }

    init(sha256: String, mediaType: String?, fileName: String) {
        self.sha256 = sha256
        self.mediaType = mediaType ?? "application/octet-stream"
        self.fileName = fileName
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
        // `Digest` covers the bytes of the response (RFC 3230 §4.1), so only a 200 has it.
        if !isPart { fields.append("Digest", "SHA-256=\(digest)") }
        return fields
    }

    /// `Content-Disposition` (RFC 6266); a name beyond ASCII is encoded by RFC 8187.
    var disposition: String {
        let plain = fileName.unicodeScalars.map { scalar -> Character in
            scalar.isASCII && scalar.value >= 0x20 && scalar.value != 0x7F && scalar != "\"" && scalar != "\\"
                ? Character(scalar) : "_"
        }
        return "attachment; filename=\"\(String(plain))\"; filename*=UTF-8''\(percentEncoded(fileName))"
    }
}

/// Sends what a succeeded job has received, or the response that has rejected an upload.
final class ContentHandlers: Sendable {
    private let reader: any JobReader
    private let content: any ContentStore
    private let others: any OtherNodes
    private let followers: ContentFollowers

    init(_ ports: APIPorts, _ followers: ContentFollowers) {
        reader = ports.store.jobs
        content = ports.content
        others = ports.others
        self.followers = followers
    }

    /// `GET /v1/jobs/{id}/content`
    func read(_ request: RequestContext) throws(Problem) {
        if try request.follows { return try follow(request) }
        reader.job(
            try request.identifier(JobID.self), tenant: request.tenant,
            reply: request.onSuccess { [self] job throws(Problem) in try send(job, request) })
    }

    private func send(_ job: JobRecord, _ request: RequestContext) throws(Problem) {
        guard let content = JobContent(job) else {
            guard job.state == .succeeded else { throw Problem(StoreError.invalidState(of: job)) }
            throw Problem(.noContent, "The job has no content.")
        }
        let description = ContentDescription(content)
        if let tags = EntityTags(request.fields, "If-Match"), !tags.matches(description.tag) {
            throw Problem(.stale, "The content has another entity tag.")
        }
        if EntityTags(request.fields, "If-None-Match")?.matchesWeakly(description.tag) == true {
            return request.send(Response(status: 304, fields: HTTPFields([("ETag", description.tag)])))
        }
        if case .body(let body) = content.place {
            return sendPart(description, Int64(body.count), request) { offset, length in
                .bytes(Array(body[Int(offset)..<Int(offset + length)]))
            }
        }
        open(job, request) { FerryAPI.send($0, description, request) }
    }

    /// Opens the file of a succeeded job, or responds with an error.
    private func open(
        _ job: JobRecord, _ request: RequestContext, then: @escaping @Sendable (any OpenContent) -> Void
    ) {
        content.open(job) { [others] result in
            // The disk of the node that has fetched the file may be its own.
            switch result {
            case .failure(.notFound), .failure(.unavailable):
                if let owner = request.belongs(to: job.node, among: others) {
                    return request.forward(to: owner, by: others)
                }
            case .failure, .success: break
            }
            switch result {
            case .failure(.notFound):
                request.fail(Problem(.noContent, "The file of the content does not exist any more."))
            case .failure(.overloaded):
                let text =
                    "Too many files are being compared with their digests; try again later."
                var problem = Problem(.overloaded, text)
                problem.fields = quotaFields("contents", quota: Int64(contentWaiterCountMax), seconds: 1)
                request.fail(problem)
            case .failure(.unavailable):
                request.fail(
                    Problem(.storeUnavailable, "The content cannot be read at the moment; try again later."))
            case .failure(let error): request.fail(error)
            case .success(let content): then(content)
            }
        }
    }

    // MARK: Following

    /// Sends the content from byte 0 on while it arrives.
    private func follow(_ request: RequestContext) throws(Problem) {
        if request.head.httpVersion == "HTTP/1.0" {
            throw Problem(
                .invalidParameter, "follow needs HTTP/1.1: HTTP/1.0 cannot show whether a body is complete.")
        }
        for name in ["Range", "If-Range", "If-Match"] where request.fields[name] != nil {
            throw Problem(.invalidParameter, "follow sends the content from byte 0 on and excludes \(name).")
        }
        reader.job(
            try request.identifier(JobID.self), tenant: request.tenant,
            reply: request.onSuccess { [self] job throws(Problem) in try follow(job, request) })
    }

    private func follow(_ job: JobRecord, _ request: RequestContext) throws(Problem) {
        guard job.state == .succeeded || !job.state.isTerminal else {
            throw Problem(StoreError.invalidState(of: job))
        }
        guard job.state == .succeeded else {
            if job.state == .running, let owner = request.belongs(to: job.node, among: others) {
                return request.forward(to: owner, by: others)
            }
            return request.send(followResponse(try followers.open(job), nil))
        }
        guard let content = JobContent(job) else {
            throw Problem(.noContent, "The job has no content.")
        }
        let description = ContentDescription(content)
        if case .body(let body) = content.place {
            let stream = ContentStream(ContentInMemory(body), 0..<Int64(body.count))
            return request.send(followResponse(stream, description))
        }
        open(job, request) { content in
            request.send(followResponse(ContentStream(content, 0..<content.byteCount), description))
        }
    }
}

extension RequestContext {
    /// Value of the parameter `follow`.
    fileprivate var follows: Bool {
        get throws(Problem) {
            switch query.first(where: { $0.name == "follow" })?.value {
            case nil, "false"?: return false
            case "true"?: return true
            default: throw Problem(.invalidParameter, "follow must be true or false.")
            }
        }
    }
}

/// The response that follows content; its trailer tells that the content is complete. `description`: of
/// complete content, else `nil`.
private func followResponse(_ stream: any ResponseStream, _ description: ContentDescription?) -> Response {
    let fields = HTTPFields([
        ("Cache-Control", "no-store"),
        ("Content-Type", description?.mediaType ?? "application/octet-stream"),
        ("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "default-src 'none'; sandbox"),
        // Proxies pass on each piece at once.
        ("X-Accel-Buffering", "no"),
    ])
    var response = Response(status: 200, fields: fields, body: .stream(stream))
    response.trailers = HTTPFields([("X-Ferry-State", JobState.succeeded.rawValue)])
    return response
}

/// Sends open content, or its address if the client prefers that and there is one.
func send(_ content: any OpenContent, _ description: ContentDescription, _ request: RequestContext) {
    // The signature in the address is one of GET.
    if request.head.method == "GET", prefersRedirect(request.fields),
        let url = content.presignedURL(
            mediaType: description.mediaType, disposition: description.disposition)
    {
        let fields = HTTPFields([
            ("Location", url), ("Cache-Control", "no-store"), ("Preference-Applied", "redirect"),
        ])
        return request.send(Response(status: 307, fields: fields))
    }
    sendPart(description, content.byteCount, request) { offset, length in
        guard length > 0 else { return .bytes([]) }
        if let file = content.file() {
            return .file(FileBody(descriptor: file, offset: offset, length: length))
        }
        return .stream(ContentStream(content, offset..<offset + length), length: length)
    }
}

/// Sends the whole content or the requested range (RFC 9110 §14). Calls `body` at most once, with offset and
/// length in bytes.
func sendPart(
    _ description: ContentDescription, _ byteCount: Int64, _ request: RequestContext,
    _ body: (Int64, Int64) -> Response.Body
) {
    // A range is only for GET, and only of unchanged content: If-Range compares strong tags.
    let isUnchanged = request.fields["If-Range"].map { $0 == description.tag } ?? true
    let range = isUnchanged && request.head.method == "GET" ? request.fields["Range"] : nil
    switch ByteRange(range, byteCount: byteCount) {
    case .whole:
        request.send(
            Response(status: 200, fields: description.fields(isPart: false), body: body(0, byteCount)))
    case .part(let offset, let length):
        var fields = description.fields(isPart: true)
        fields.append("Content-Range", "bytes \(offset)-\(offset + length - 1)/\(byteCount)")
        request.send(Response(status: 206, fields: fields, body: body(offset, length)))
    case .unsatisfiable:
        var problem = Problem(.rangeNotSatisfiable, "The content has \(byteCount) bytes.")
        problem.fields.append(("Content-Range", "bytes */\(byteCount)"))
        request.fail(problem)
    }
}
