internal import FerryCore
internal import HTTPServer
internal import OpenSSL

/// Creates, shows, changes and deletes webhook endpoints.
final class WebhookHandlers: Sendable {
    private let store: any WebhookStore
    private let node: NodeAbilities
    private let egress: EgressPolicy
    private let identifiers: IdentifierGenerator
    private let clock: any WallClock
    private let seal: @Sendable ([UInt8]) -> [UInt8]
    private let openKeys: @Sendable ([UInt8]) -> WebhookKeys?
    private let secrets: SecretSeal

    init(_ ports: APIPorts, _ node: NodeAbilities, _ identifiers: IdentifierGenerator) {
        store = ports.store.webhooks
        self.node = node
        egress = ports.egress
        clock = ports.clock
        seal = ports.seal
        openKeys = ports.openWebhookKeys
        secrets = ports.secrets
        self.identifiers = identifiers
    }

    /// `POST /v1/webhooks`: only the responses to this request and its repetitions show the secret.
    func create(_ request: RequestContext) throws(Problem) {
        let json = try request.json()
        let idempotency = try request.idempotency([json])
        var endpoint: WebhookEndpoint
        do throws(InvalidFields) {
            endpoint = try WebhookEndpoint(body: json, FieldContext(node: node, refusal: egress.refusal(of:)))
        } catch {
            return refuse(json, request, idempotency, Problem(error))
        }
        let key = makeWebhookKey()
        let made = CreatedWebhook(
            id: identifiers.make(), createdAt: clock.now(), sealedKeys: seal(WebhookKeys(key).encode()))
        let headers = WebhookHeaders.stored(endpoint.takeHeaders(), secrets)
        let tls = endpoint.takeTLS()?.stored(secrets)
        let shown = endpoint
        var record = WebhookRecord(made, of: shown, key, tenant: request.tenant)
        record.sealedHeaders = headers
        record.sealedTLS = tls
        let new = NewWebhook(
            record: record, idempotency: idempotency, isOfOperator: request.principal.role == .admin)
        store.createWebhook(
            new,
            reply: request.onSuccess { [self] creation throws(Problem) in
                switch creation {
                case .limitReached:
                    throw Problem(
                        .limitReached,
                        "A tenant may have \(Limits.webhookCountMax) webhook endpoints; delete some.")
                case .made(let made): send(made, 201, request, secret: key.secret)
                case .known(let first): replay(first, of: shown, request)
                }
            })
    }

    /// Refuses a request, unless its key was accepted before: the egress policy may have become stricter
    /// since.
    private func refuse(
        _ json: JSONView, _ request: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem
    ) {
        // If the body is invalid whatever the policy, it was never accepted, and `problem` says why.
        guard let key, let endpoint = try? WebhookEndpoint(body: json, FieldContext(node: node)) else {
            return request.fail(problem)
        }
        store.webhook(createdWith: key) { [self] result in
            if case .failure(.notFound) = result { return request.fail(problem) }
            request.onSuccess { [self] first in replay(first, of: endpoint, request) }(result)
        }
    }

    /// Repeats the first response.
    private func replay(_ first: CreatedWebhook, of endpoint: WebhookEndpoint, _ request: RequestContext) {
        guard let key = openKeys(first.sealedKeys)?.newest else { return request.fail(StoreError.failed) }
        let record = WebhookRecord(first, of: endpoint, key, tenant: request.tenant)
        send(record, 201, request, secret: key.secret, replayed)
    }

    /// `GET /v1/webhooks`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: WebhookID.self)
        store.webhooks(
            tenant: request.tenant, before: before, limit: limit + 1,
            reply: request.onSuccess { records in
                Page(records, limit: limit) { $0.id }.send(request, reservingCapacity: 4_096)
            })
    }

    /// `GET /v1/webhooks/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        store.webhook(
            try request.identifier(WebhookID.self), tenant: request.tenant,
            reply: request.onSuccess { send($0, 200, request) })
    }

    /// `PATCH /v1/webhooks/{id}`: a merge patch.
    func edit(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        let patch = try request.mergePatch()
        change(id, request) { [egress, node, secrets] record throws(InvalidFields) in
            try record.merge(patch, secrets, node: node, refusal: egress.refusal(of:))
        }
    }

    /// `POST /v1/webhooks/{id}/rotate_secret`: only this response shows the new secret.
    func rotateSecret(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        let overlap = try request.decoded(RotateRequest.self, isOptional: true).overlap
        let (key, now) = (makeWebhookKey(), clock.now())
        change(id, request, secret: key.secret) { [openKeys, seal] record throws(InvalidFields) in
            // Old keys that cannot be decrypted cannot sign; then only the new key is left.
            var keys = openKeys(record.sealedKeys) ?? WebhookKeys(key)
            if keys.newest != key { keys.rotate(to: key, overlap: overlap, now: now) }
            record.sealedKeys = seal(keys.encode())
            record.publicKey = publicKeyText(key)
        }
    }

    /// `DELETE /v1/webhooks/{id}`
    func delete(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        request.changing(
            { [store] revision, reply in
                store.deleteWebhook(id, tenant: request.tenant, revision: revision, reply: reply)
            }, then: request.onSuccess { request.send(Response(status: 204)) })
    }

    private func change(
        _ id: WebhookID, _ request: RequestContext, secret: WebhookSecret? = nil,
        _ change: @escaping @Sendable (inout WebhookRecord) throws(InvalidFields) -> Void
    ) {
        request.changing(
            { [store] revision, reply in
                store.editWebhook(
                    id, tenant: request.tenant, revision: revision,
                    { record throws(InvalidFields) in
                        var record = record
                        try change(&record)
                        return record
                    }, reply: reply)
            }, then: request.onValid { send($0, 200, request, secret: secret) })
    }
}

private func send(
    _ record: WebhookRecord, _ status: Int, _ request: RequestContext, secret: WebhookSecret? = nil,
    _ extra: [(name: String, value: String)] = []
) {
    let location = status == 201 ? [(name: "Location", value: "/v1/webhooks/\(record.id)")] : []
    request.send(status, tag: entityTag(revision: record.revision), location + extra) {
        record.shown(secret: secret, isRedacted: request.disclosure.isRedacted)
    }
}

extension WebhookRecord {
    /// The endpoint as its creation made it.
    fileprivate init(
        _ made: CreatedWebhook, of endpoint: WebhookEndpoint, _ key: WebhookKeys.Key, tenant: String
    ) {
        self.init(
            id: made.id, tenant: tenant, createdAt: made.createdAt, updatedAt: made.createdAt,
            endpoint: endpoint, disabledAt: endpoint.isEnabled ? nil : made.createdAt,
            disabledReason: endpoint.isEnabled ? nil : .requested, publicKey: publicKeyText(key),
            sealedKeys: made.sealedKeys)
    }
}

/// Returns random keys for both kinds of signatures: HMAC and Ed25519.
private func makeWebhookKey() -> WebhookKeys.Key {
    // No input reaches this: the length is a constant.
    guard let secret = WebhookSecret(key: randomBytes(32)) else {
        preconditionFailure("32 bytes are a webhook secret")
    }
    return WebhookKeys.Key(secret: secret, seed: randomBytes(Ed25519PrivateKey.seedByteCount))
}

/// Returns the public key as `whpk_…`.
private func publicKeyText(_ key: WebhookKeys.Key) -> String {
    // No input reaches this: the seed is that of `makeWebhookKey`.
    guard let privateKey = Ed25519PrivateKey(seed: key.seed) else {
        preconditionFailure("32 bytes are a private key of Ed25519")
    }
    return webhookPublicKeyText(privateKey.publicKey)
}

/// The body of `POST /v1/webhooks/{id}/rotate_secret`.
struct RotateRequest: FieldObject {
    static let summary = "How a secret is replaced."
    static let schemaName = "RotateRequest"
    fileprivate var overlap = 86_400.0

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "overlap_seconds", &overlap, 0...Limits.webhookOverlapMax, .of(unit: .seconds),
            "Longest time for which earlier secrets sign as well; 0: only the new secret signs.")
    }
}
