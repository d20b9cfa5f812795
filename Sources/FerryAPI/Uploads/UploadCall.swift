internal import FerryCore
internal import HTTPServer

/// A request for a staged upload, and the responses to it in the form of its protocol.
struct UploadCall: Sendable {
    let style: UploadProtocol
    let head: RequestHead
    let principal: Principal
    /// `true` if another node has sent the request on behalf of its client: it is not sent on.
    let isFromNode: Bool
    /// The upload in the path; `nil` for one without a name that is created.
    let reference: UploadReference?
    /// Identifier of an upload that the request creates.
    let newID: UploadID
    /// Account of the bytes that the request may add, while they are not stored.
    var account: UploadID { newID }
    /// Bytes of the body; `nil` if they are not known.
    let contentLength: Int64?
    /// Bytes of an upload at most; `nil` for no limit.
    let byteCountMax: Int64?

    var tenant: String { principal.tenant }
    var requestID: String { head.requestID }
    /// Name of an upload that the request creates.
    var name: String? { if case .name(let name) = reference { name } else { nil } }

    // MARK: Responses

    /// The upload was created by this request, or (`isNew` is `false`) has its bytes already.
    func created(_ upload: StagedUpload, isNew: Bool) -> Response {
        let location = [("Location", "/v1/uploads/\(upload.id)")]
        switch style {
        case .tus: return empty(201, upload, location)
        case .resumable where !upload.isComplete: return empty(201, upload, location)
        case .plain, .resumable: return json(isNew ? 201 : 200, upload, location)
        }
    }

    /// The interim response that names an upload before its bytes arrive: only if the client has asked for it
    /// with a version that Ferry speaks.
    func interim(_ upload: StagedUpload) -> InterimResponse? {
        guard case .resumable(let draft) = style, draft.isNamed else { return nil }
        var fields = HTTPFields([
            ("Upload-Draft-Interop-Version", "\(draft.version)"), ("Location", "/v1/uploads/\(upload.id)"),
        ])
        if draft.hasLimits { fields.append("Upload-Limit", limits) }
        return InterimResponse(status: 104, reason: "Upload Resumption Supported", fields: fields)
    }

    /// The body was added to an upload that existed.
    func appended(_ upload: StagedUpload) -> Response {
        if case .tus = style { return empty(204, upload, []) }
        guard upload.isComplete else { return empty(204, upload, []) }
        return json(200, upload, [("Location", "/v1/uploads/\(upload.id)")])
    }

    /// The state of an upload without a body, for HEAD.
    func state(_ upload: StagedUpload) -> Response { empty(style == .plain ? 200 : 204, upload, []) }

    /// The upload was deleted.
    var deleted: Response {
        var fields = HTTPFields([("Cache-Control", "no-store")])
        if case .tus = style { fields.append("Tus-Resumable", "1.0.0") }
        return Response(status: 204, fields: fields)
    }

    func json(_ status: Int, _ upload: StagedUpload, _ extra: [(name: String, value: String)]) -> Response {
        let shown = upload.shown()
        var fields = stateFields(upload)
        fields.append("Content-Type", "application/json")
        fields.append("ETag", entityTag(changeable: [], shown: shown))
        for field in extra { fields.append(field.name, field.value) }
        return Response(status: status, fields: fields, body: .bytes(shown))
    }

    private func empty(
        _ status: Int, _ upload: StagedUpload, _ extra: [(name: String, value: String)]
    ) -> Response {
        var fields = stateFields(upload)
        for field in extra { fields.append(field.name, field.value) }
        return Response(status: status, fields: fields)
    }

    /// The fields that show the state of an upload in the protocol of the request.
    private func stateFields(_ upload: StagedUpload) -> HTTPFields {
        var fields = HTTPFields([("Cache-Control", "no-store"), ("Upload-Offset", "\(upload.offset)")])
        switch style {
        case .tus:
            fields.append("Tus-Resumable", "1.0.0")
            if let size = upload.size {
                fields.append("Upload-Length", "\(size)")
            } else {
                fields.append("Upload-Defer-Length", "1")
            }
            let metadata = upload.fields.metadata.text
            if !metadata.isEmpty { fields.append("Upload-Metadata", metadata) }
            if let text = upload.fields.concatenation { fields.append("Upload-Concat", text) }
            if !upload.isComplete { fields.append("Upload-Expires", upload.expiresAt.httpDate) }
        case .plain, .resumable:
            let draft = draft
            let completion = draft.completion(upload.isComplete)
            fields.append(completion.name, completion.value)
            guard draft.hasLimits else { break }
            if let size = upload.size { fields.append("Upload-Length", "\(size)") }
            fields.append("Upload-Limit", limits)
        }
        return fields
    }

    private var draft: UploadDraft { if case .resumable(let draft) = style { draft } else { .newest } }

    /// Value of `Upload-Limit`.
    var limits: String {
        draft.limits(byteCountMax: byteCountMax, seconds: Int64(Limits.incompleteUploadSeconds))
    }

    // MARK: Problems

    /// A problem document with the fields of the protocol.
    func response(_ problem: Problem) -> Response {
        var response = problem.response(requestID: requestID)
        if case .tus = style { response.fields.append("Tus-Resumable", "1.0.0") }
        return response
    }

    var nameTaken: Problem {
        Problem(
            .uploadExists, "The tenant has another upload with this name. Delete it, or choose another name.")
    }

    /// The node transfers no files.
    static var noFiles: Problem {
        Problem(
            .nodeUnavailable,
            "This node stores no files: FERRY_ROLES does not include worker. Send uploads to one that does.")
    }

    func elsewhere(_ node: NodeID) -> Problem {
        Problem(.nodeUnavailable, "The upload is on the node \(node); send its bytes to that node.")
    }

    func tooLarge(_ byteCountMax: Int64) -> Problem {
        var problem = Problem(.bodyTooLarge, "An upload has at most \(byteCountMax) bytes.")
        if style != .tus { problem.fields.append(("Upload-Limit", limits)) }
        return problem
    }

    /// The request appends at another place than the end.
    func mismatch(_ upload: StagedUpload, at offset: Int64) -> Problem {
        var problem = Problem(
            .offsetMismatch, "The upload has \(upload.offset) bytes; the request begins at \(offset).")
        problem.uploadOffsets = UploadOffsets(expected: upload.offset, provided: offset)
        problem.fields.append(("Upload-Offset", "\(upload.offset)"))
        guard style != .tus else { return problem }
        problem.type = Self.problemTypes + "mismatching-upload-offset"
        problem.fields.append(draft.completion(false))
        return problem
    }

    /// The request appends to a complete upload.
    func completed(_ upload: StagedUpload, at offset: Int64) -> Problem {
        guard style != .tus else { return mismatch(upload, at: offset) }
        var problem = Problem(.uploadComplete, "The upload is complete.")
        problem.type = Self.problemTypes + "completed-upload"
        problem.fields.append(("Upload-Offset", "\(upload.offset)"))
        problem.fields.append(draft.completion(true))
        return problem
    }

    /// The size of the upload and its bytes do not match.
    func lengthProblem(_ detail: String) -> Problem {
        var problem = Problem(.uploadLengthMismatch, detail)
        if style != .tus { problem.type = Self.problemTypes + "inconsistent-upload-length" }
        return problem
    }

    /// The bytes could not be stored, or are not what the client has announced.
    func problem(_ error: TransferError) -> Problem {
        switch error.code {
        case .digestMismatch:
            var problem = Problem(.digestMismatch, error.message)
            // "Checksum Mismatch" of tus.
            if style == .tus { problem.status = 460 }
            return problem
        case .storageFull:
            return Problem(.storageFull, "There is no room for the upload on this node's disk.")
        case .sourceNotFound: return Problem(.notFound, error.message)
        default:
            return Problem(.internalError, "The upload could not be stored: \(error.message)")
        }
    }

    private static let problemTypes = "https://iana.org/assignments/http-problem-types#"
}

extension Problem {
    /// A request whose header fields are wrong.
    init(_ refusal: UploadRefusal) {
        switch refusal {
        case .field(let detail): self.init(.invalidHeader, detail)
        case .mediaType(let type): self.init(.unsupportedMediaType, "Content-Type must be \(type).")
        case .version:
            self.init(.unsupportedVersion, "Tus-Resumable must be 1.0.0.")
            fields.append(("Tus-Version", "1.0.0"))
        }
    }
}
