internal import FerryCore
internal import HTTPServer

extension UploadHandlers {
    /// Creates an upload from the bytes of others (tus 1.0) if the request asks for that. Returns `false` if
    /// it does not.
    func concatenates(_ request: RequestContext) throws(Problem) -> Bool {
        let head = request.head
        let reader = UploadRequestReader(contentLength: 0, hasBody: false) { head.fields.all($0) }
        let call = try call(request)
        let creation: UploadRequest
        do throws(UploadRefusal) {
            creation = try reader.creation(call.style)
        } catch {
            throw Problem(error)
        }
        guard case .concatenate(let fields, let references) = creation else { return false }
        guard let files = services.files else { throw UploadCall.noFiles }
        collect(references[...], [], request) { [self] parts in
            let size = parts.reduce(0) { $0 + $1.byteCount }
            request.run { () throws(Problem) in
                if let most = services.byteCountMax, size > most { throw call.tooLarge(most) }
                if let most = services.quotas.reserve(size, for: call.account, of: call.tenant) {
                    throw Problem(StoreError.storageQuotaExceeded(max: most))
                }
                let upload = StagedUpload(
                    id: call.newID, tenant: call.tenant, node: services.node, name: nil, fields: fields,
                    size: size, createdAt: services.clock.now(), expiresAt: services.incompleteExpiry)
                services.store.createUpload(upload) { [self] result in
                    switch result {
                    case .failure(let error): end(call, 0, request, call.response(Problem(error)))
                    case .success:
                        files.concatenate(parts, into: upload.id) { [self] in
                            store($0, upload, call, request)
                        }
                    }
                }
            }
        }
        return true
    }

    /// Finds the uploads, one after another, since there are few. All of them must be complete.
    private func collect(
        _ references: ArraySlice<UploadReference>, _ parts: [UploadPart], _ request: RequestContext,
        then: @escaping @Sendable ([UploadPart]) -> Void
    ) {
        guard let reference = references.first else { return then(parts) }
        services.store.upload(
            reference, tenant: request.tenant,
            reply: request.onSuccess { [self] upload throws(Problem) in
                guard upload.isComplete, let size = upload.size else {
                    throw Problem(.uploadIncomplete, "The upload \(upload.id) is not complete.")
                }
                guard upload.home == services.node else {
                    throw Problem(.nodeUnavailable, "The upload \(upload.id) is on the node \(upload.node).")
                }
                let part = UploadPart(id: upload.id, byteCount: size)
                collect(references.dropFirst(), parts + [part], request, then: then)
            })
    }

    private func store(
        _ result: Result<WrittenUpload, TransferError>, _ upload: StagedUpload, _ call: UploadCall,
        _ request: RequestContext
    ) {
        switch result {
        case .success(let written):
            services.store.completeUpload(
                upload.id, byteCount: written.byteCount, sha256: written.sha256 ?? [],
                expiresAt: services.completeExpiry
            ) { [self] result in
                switch result {
                case .success(let upload):
                    end(call, written.byteCount, request, call.created(upload, isNew: true))
                case .failure(let error): end(call, 0, request, call.response(Problem(error)))
                }
            }
        case .failure(let error):
            services.store.deleteUpload(upload.id, tenant: upload.tenant, isForced: true) { [self] _ in
                services.files?.remove(UploadBytes(upload: upload.id, object: nil))
                end(call, 0, request, call.response(call.problem(error)))
            }
        }
    }

    private func end(_ call: UploadCall, _ added: Int64, _ request: RequestContext, _ response: Response) {
        services.quotas.note(added: added, to: call.account, of: call.tenant)
        request.send(response)
    }
}
