internal import FerryCore
internal import HTTPServer
internal import OpenSSL

extension API {
    /// `POST /v1/webhooks`: this answer, and those to the same request again, show the secret.
    func createWebhook(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let json = try call.json()
            let idempotency = try idempotency(call)
            let endpoint: WebhookEndpoint
            do throws(InvalidFields) {
                endpoint = try WebhookEndpoint(json) { ports.egress.refusal(of: $0) }
            } catch {
                return refuse(json, call, idempotency, Problem(error))
            }
            let key = makeWebhookKey()
            let made = MadeWebhook(
                id: identifiers.make(), createdAt: ports.clock.now(),
                sealedKeys: ports.seal(WebhookKeys(key).encode()))
            let new = NewWebhook(
                record: WebhookRecord(made, of: endpoint, key, tenant: call.principal.tenant),
                idempotency: idempotency)
            ports.webhooks.createWebhook(new) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(.limitReached):
                    call.fail(
                        Problem(
                            .limitReached,
                            "A tenant has at most \(Limits.webhookCountMax) endpoints; delete some."))
                case .success(.made(let made)): sendWebhook(made, 201, call, secret: key.secret)
                case .success(.known(let first)): replay(first, of: endpoint, call)
                }
            }
        }
    }

    /// What cannot be accepted, unless it was accepted before: the egress policy may have become stricter
    /// since.
    private func refuse(
        _ json: JSON, _ call: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem
    ) {
        guard let key, let endpoint = try? WebhookEndpoint(json, refusal: { _ in nil }) else {
            return call.fail(problem)
        }
        ports.webhooks.webhook(createdWith: key) { [self] result in
            switch result {
            case .failure(.notFound): call.fail(problem)
            case .failure(let error): call.fail(error)
            case .success(let first): replay(first, of: endpoint, call)
            }
        }
    }

    /// The first answer again.
    private func replay(_ first: MadeWebhook, of endpoint: WebhookEndpoint, _ call: RequestContext) {
        guard let key = ports.openWebhookKeys(first.sealedKeys)?.newest else {
            return call.fail(StoreError.failed)
        }
        let record = WebhookRecord(first, of: endpoint, key, tenant: call.principal.tenant)
        sendWebhook(record, 201, call, secret: key.secret, replayed)
    }

    /// `GET /v1/webhooks`
    func listWebhooks(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, before) = try call.page { cursor throws(Problem) -> WebhookID in try position(cursor)
            }
            ports.webhooks.webhooks(
                tenant: call.principal.tenant, before: before, limit: limit + 1
            ) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let records):
                    Page(records, limit: limit) { $0.id }.send(call, reservingCapacity: 4_096) {
                        $0.write(into: &$1, isRedacted: call.disclosure.isRedacted)
                    }
                }
            }
        }
    }

    /// `GET /v1/webhooks/{id}`
    func readWebhook(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            ports.webhooks.webhook(id, tenant: call.principal.tenant) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record): sendWebhook(record, 200, call)
                }
            }
        }
    }

    /// `PATCH /v1/webhooks/{id}`: a merge patch.
    func editWebhook(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            let patch = try call.mergePatch()
            let egress = ports.egress
            changeWebhook(id, call) { record throws(InvalidFields) in
                var record = record
                record.endpoint = try record.endpoint.merging(patch) { egress.refusal(of: $0) }
                return record
            } done: { [self] record in
                sendWebhook(record, 200, call)
            }
        }
    }

    /// `DELETE /v1/webhooks/{id}`
    func deleteWebhook(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(WebhookID.self)
            call.changing { [self] revision, reply in
                ports.webhooks.deleteWebhook(
                    id, tenant: call.principal.tenant, revision: revision, reply: reply)
            } then: { (result: Result<Void, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: call.send(Response(status: 204))
                }
            }
        }
    }

    func changeWebhook(
        _ id: WebhookID, _ call: RequestContext,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        done: @escaping @Sendable (WebhookRecord) -> Void
    ) {
        call.changing { [self] revision, reply in
            ports.webhooks.editWebhook(
                id, tenant: call.principal.tenant, revision: revision, change, reply: reply)
        } then: { (result: Result<Result<WebhookRecord, InvalidFields>, StoreError>) in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(.failure(let invalid)): call.fail(Problem(invalid))
            case .success(.success(let record)): done(record)
            }
        }
    }

    func sendWebhook(
        _ record: WebhookRecord, _ status: Int, _ call: RequestContext, secret: WebhookSecret? = nil,
        _ extra: [(name: String, value: String)] = []
    ) {
        let location = status == 201 ? [(name: "Location", value: "/v1/webhooks/\(record.id)")] : []
        call.send(status, tag: entityTag(revision: record.revision), location + extra) {
            var writer = JSONWriter(reservingCapacity: 1_024)
            record.write(
                into: &writer, secret: secret, isRedacted: call.disclosure.isRedacted)
            return writer.bytes
        }
    }
}

extension WebhookRecord {
    /// As the request makes it.
    fileprivate init(
        _ made: MadeWebhook, of endpoint: WebhookEndpoint, _ key: WebhookKeys.Key, tenant: String
    ) {
        self.init(
            id: made.id, tenant: tenant, createdAt: made.createdAt, updatedAt: made.createdAt,
            endpoint: endpoint, disabledAt: endpoint.isEnabled ? nil : made.createdAt,
            disabledReason: endpoint.isEnabled ? nil : .requested, publicKey: publicKeyText(key),
            sealedKeys: made.sealedKeys)
    }
}

/// Random keys of both kinds.
func makeWebhookKey() -> WebhookKeys.Key {
    guard let secret = WebhookSecret(key: randomBytes(32)) else {
        preconditionFailure("32 bytes are a webhook secret")
    }
    return WebhookKeys.Key(secret: secret, seed: randomBytes(Ed25519PrivateKey.seedByteCount))
}

/// `whpk_…` of a key.
func publicKeyText(_ key: WebhookKeys.Key) -> String {
    guard let privateKey = Ed25519PrivateKey(seed: key.seed) else {
        preconditionFailure("32 bytes are a private key of Ed25519")
    }
    return webhookPublicKeyText(privateKey.publicKey)
}
