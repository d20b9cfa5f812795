internal import FerryCore
internal import HTTPServer

/// Creates, continues, shows and deletes staged uploads.
final class UploadHandlers: Sendable {
    let services: UploadServices

    init(_ services: UploadServices) { self.services = services }

    // MARK: Bytes

    /// Returns the receiver of the body of a request for the operation.
    func sink(
        _ operation: Operation, _ head: RequestHead, _ parameters: [String], for principal: Principal,
        isFromNode: Bool
    ) throws(Problem) -> UploadTransfer {
        let reader = UploadRequestReader(contentLength: head.contentLength, hasBody: head.expectsBody) {
            head.fields.all($0)
        }
        do throws(UploadRefusal) {
            let call = call(try reader.style, head, parameters, for: principal, isFromNode: isFromNode)
            let request =
                operation == .continueUpload
                ? try reader.append(call.style) : try reader.creation(call.style)
            switch request {
            case .create(let fields, let body):
                guard parameters.isEmpty || call.name != nil else { throw UploadRefusal.field(Self.nameRule) }
                return UploadTransfer(services, call, creating: fields, body)
            case .append(let body): return UploadTransfer(services, call, creating: nil, body)
            case .concatenate:
                throw UploadRefusal.field("A request that creates a final upload has no body.")
            }
        } catch {
            throw Problem(error)
        }
    }

    private static let nameRule = "The name of an upload must have \(UploadName.rule)."

    private func call(
        _ style: UploadProtocol, _ head: RequestHead, _ parameters: [String], for principal: Principal,
        isFromNode: Bool
    ) -> UploadCall {
        UploadCall(
            style: style, head: head, principal: principal, isFromNode: isFromNode,
            reference: parameters.first.flatMap { UploadReference($0) }, newID: services.identifiers.make(),
            contentLength: head.expectsBody ? head.contentLength : 0, byteCountMax: services.byteCountMax)
    }

    /// `POST /v1/uploads`, `PUT` and `PATCH /v1/uploads/{upload}` without a body.
    func takeEmpty(_ operation: Operation) -> Route.Handler {
        { [self] request throws(Problem) in
            if operation == .createUpload, try concatenates(request) { return }
            let transfer = try sink(
                operation, request.head, request.parameters, for: request.principal,
                isFromNode: request.isFromNode)
            transfer.attach(StreamWaker {})
            transfer.finish(
                Responder { response in
                    request.send(response)
                    return true
                })
        }
    }

    // MARK: Reading

    /// `GET /v1/uploads`
    func list(_ request: RequestContext) throws(Problem) {
        var query = try uploadQuery(request)
        let limit = query.limit
        query.limit += 1
        services.store.uploads(
            query,
            reply: request.onSuccess { uploads in
                let page = Page(uploads, limit: limit) { $0.id }
                page.send(request, reservingCapacity: page.shown.count * 384)
            })
    }

    /// `GET /v1/uploads/{upload}`. HEAD ends a request that is sending bytes, so that the offset is final.
    func read(_ request: RequestContext) throws(Problem) {
        let call = try call(request)
        try find(request) { [self] upload in
            guard request.head.method == "HEAD", !upload.isComplete else {
                return show(upload, call, request)
            }
            if let owner = request.belongs(to: upload.home, among: services.others) {
                return request.forward(to: owner, by: services.others)
            }
            let visit = UploadVisit()
            services.queue.enter(upload.id, visit) { [self] in
                services.store.upload(.id(upload.id), tenant: request.tenant) { [self] result in
                    services.queue.leave(upload.id, visit)
                    switch result {
                    case .success(let upload): show(upload, call, request)
                    case .failure(let error): request.fail(error)
                    }
                }
            }
        }
    }

    private func show(_ upload: StagedUpload, _ call: UploadCall, _ request: RequestContext) {
        if request.head.method == "HEAD" { return request.send(call.state(upload)) }
        var response = call.json(200, upload, [])
        if let tag = response.fields["ETag"],
            EntityTags(request.fields, "If-None-Match")?.matchesWeakly(tag) == true
        {
            response = Response(
                status: 304, fields: HTTPFields([("ETag", tag), ("Cache-Control", "no-store")]))
        }
        request.send(response)
    }

    /// `GET /v1/uploads/{upload}/content`
    func readContent(_ request: RequestContext) throws(Problem) {
        try find(request) { [self] upload in
            request.run { () throws(Problem) in
                guard let sha256 = upload.sha256, let size = upload.size else {
                    throw Problem(.uploadIncomplete, "The upload has \(upload.offset) bytes so far.")
                }
                if let owner = request.belongs(to: upload.home, among: services.others) {
                    return request.forward(to: owner, by: services.others)
                }
                let description = ContentDescription(
                    sha256: hexEncoded(sha256), mediaType: upload.fields.contentType,
                    fileName: upload.fields.fileName ?? upload.name ?? upload.id.description)
                if try isUnchanged(description, request) { return }
                if let key = upload.object { return sendObject(key, size, description, request) }
                guard let files = services.files else { throw Self.gone }
                files.read(upload.id, byteCount: size) { descriptor in
                    guard let descriptor else { return request.fail(Self.gone) }
                    sendPart(description, size, request) { offset, length in
                        let file = FileBody(descriptor: descriptor, offset: offset, length: length)
                        return length > 0 ? .file(file) : .bytes([])
                    }
                }
            }
        }
    }

    private func sendObject(
        _ key: String, _ size: Int64, _ description: ContentDescription, _ request: RequestContext
    ) {
        services.content.openObject(key, byteCount: size) { result in
            switch result {
            case .success(let content): send(content, description, request)
            case .failure(.contentMissing):
                request.fail(
                    Problem(
                        .contentMissing,
                        "The content store has no longer the object with the bytes of the upload."))
            case .failure(let error): request.fail(error)
            }
        }
    }

    private static var gone: Problem {
        Problem(.noContent, "The file of the upload does not exist any more.")
    }

    private func isUnchanged(
        _ description: ContentDescription, _ request: RequestContext
    ) throws(Problem) -> Bool {
        if let tags = EntityTags(request.fields, "If-Match"), !tags.matches(description.tag) {
            throw Problem(.stale, "The content has another entity tag.")
        }
        guard EntityTags(request.fields, "If-None-Match")?.matchesWeakly(description.tag) == true else {
            return false
        }
        request.send(Response(status: 304, fields: HTTPFields([("ETag", description.tag)])))
        return true
    }

    // MARK: Deletion

    /// `DELETE /v1/uploads/{upload}`. Ends a request that is sending bytes.
    func delete(_ request: RequestContext) throws(Problem) {
        let call = try call(request)
        let isForced: Bool
        switch request.query.first(where: { $0.name == "force" })?.value {
        case nil, "false"?: isForced = false
        case "true"?: isForced = true
        default: throw Problem(.invalidParameter, "force must be true or false.")
        }
        try find(request) { [self] upload in
            if let owner = request.belongs(to: upload.home, among: services.others) {
                // A node that is gone removes the file when it comes back.
                return request.forward(to: owner, by: services.others) { [self] in
                    delete(upload, call, request, isForced: isForced)
                }
            }
            delete(upload, call, request, isForced: isForced)
        }
    }

    private func delete(_ upload: StagedUpload, _ call: UploadCall, _ request: RequestContext, isForced: Bool)
    {
        let visit = UploadVisit()
        services.queue.enter(upload.id, visit) { [self] in
            services.store.deleteUpload(upload.id, tenant: request.tenant, isForced: isForced) {
                [self] result in
                if case .success(let bytes) = result { services.files?.remove(bytes) }
                services.queue.leave(upload.id, visit)
                switch result {
                case .success: request.send(call.deleted)
                case .failure(let error): request.fail(error)
                }
            }
        }
    }

    private func find(
        _ request: RequestContext, then: @escaping @Sendable (StagedUpload) -> Void
    ) throws(Problem) {
        guard let text = request.parameters.first, let reference = UploadReference(text) else {
            throw Problem(StoreError.notFound)
        }
        services.store.upload(reference, tenant: request.tenant, reply: request.onSuccess { then($0) })
    }

    func call(_ request: RequestContext) throws(Problem) -> UploadCall {
        let head = request.head
        let reader = UploadRequestReader(contentLength: 0, hasBody: false) { head.fields.all($0) }
        do throws(UploadRefusal) {
            return call(
                try reader.style, head, request.parameters, for: request.principal,
                isFromNode: request.isFromNode)
        } catch {
            throw Problem(error)
        }
    }
}

/// Reads the filters, limit and cursor of a list; a wrong value is a 400.
private func uploadQuery(_ request: RequestContext) throws(Problem) -> UploadQuery {
    var query = UploadQuery(tenant: request.tenant)
    for (name, value) in request.query {
        switch name {
        case "complete":
            guard value == "true" || value == "false" else {
                throw Problem(.invalidParameter, "complete must be true or false.")
            }
            query.isComplete = value == "true"
        case "name":
            guard UploadName.isValid(value) else {
                throw Problem(.invalidParameter, "The name of an upload has \(UploadName.rule).")
            }
            query.name = value
        case "created_after": query.createdAfter = try time(name, value)
        case "created_before": query.createdBefore = try time(name, value)
        case "limit": query.limit = try pageLimit(value)
        default: query.before = try position(value)
        }
    }
    return query
}

/// A request that only waits for the end of another one.
private final class UploadVisit: UploadOccupant {
    func giveWay() {}
}
