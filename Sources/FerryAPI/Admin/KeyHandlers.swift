public import FerryCore
internal import HTTPServer

/// Creates, shows and revokes API keys.
final class KeyHandlers: Sendable {
    private let store: any KeyStore
    private let table: KeyTable
    private let secrets: SecretSeal
    private let identifiers: IdentifierGenerator
    private let clock: any WallClock

    init(_ ports: APIPorts, _ identifiers: IdentifierGenerator, _ table: KeyTable) {
        store = ports.store.keys
        secrets = ports.secrets
        clock = ports.clock
        self.identifiers = identifiers
        self.table = table
    }

    /// `POST /v1/admin/keys`: only the responses to this request and its repetitions show the key.
    func create(_ request: RequestContext) throws(Problem) {
        let text = makeKey()
        let json = try request.json()
        let body = try valid(try KeyRequest(body: json))
        let key = APIKey(
            id: identifiers.make(), tenant: body.tenant, role: body.role, name: body.name,
            hash: digest(ofKey: text), createdAt: clock.now())
        let idempotency = try request.idempotency([json])
        // Without an idempotency key the request cannot be repeated, so the key itself is not stored.
        let sealed = idempotency == nil ? nil : secrets.seal(Array(text.utf8))
        store.createKey(
            NewKey(key, idempotency: idempotency, sealedText: sealed),
            reply: request.onSuccess { [self] creation in
                switch creation {
                // Sent when the key is valid on this node.
                case .made: table.refresh { _ in sendKey(key, 201, request, text: text) }
                case .known(let known, let sealed):
                    guard let plain = secrets.open(sealed) else { return request.fail(StoreError.failed) }
                    let text = String(decoding: plain, as: UTF8.self)
                    table.refresh { _ in sendKey(known, 201, request, text: text, replayed) }
                }
            })
    }

    /// `GET /v1/admin/keys`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: KeyID.self)
        store.keys(
            before: before, limit: limit + 1,
            reply: request.onSuccess { keys in
                Page(keys, limit: limit) { $0.id }
                    .send(request, reservingCapacity: 4_096)
            })
    }

    /// `GET /v1/admin/keys/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        store.key(
            try request.identifier(KeyID.self), reply: request.onSuccess { sendKey($0, 200, request) })
    }

    /// `DELETE /v1/admin/keys/{id}`
    func revoke(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(KeyID.self)
        guard request.fields.contains("If-Match") else { return revoke(id, request) }
        let isAllowed = request.changeCondition
        store.key(
            id,
            reply: request.onSuccess { [self] key throws(Problem) in
                guard isAllowed(key.shown()) else { throw Problem(StoreError.stale(revision: nil)) }
                // No change can come in between: a key changes once, by its revocation.
                revoke(id, request)
            })
    }

    private func revoke(_ id: KeyID, _ request: RequestContext) {
        store.revokeKey(
            id,
            reply: request.onSuccess { [table] in
                table.refresh { result in
                    if case .failure = result { table.remove(id) }
                    request.send(Response(status: 204))
                }
            })
    }
}

/// The body of `POST /v1/admin/keys`.
struct KeyRequest: FieldObject {
    static let summary = "A new key."
    static let schemaName = "KeyRequest"
    fileprivate var name = ""
    fileprivate var role = Role.viewer
    fileprivate var tenant = APIKey.defaultTenant

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "name", &name, TextRule(1...Limits.nameByteCountMax), .of(required: true), "Name for people.")
        visitor.field(
            "role", &role, .of(required: true), "What the key may do; each role includes the ones before it.")
        visitor.field(
            "tenant", &tenant, .tenant, .plain,
            "Tenant whose jobs, sessions, schedules, webhooks, events and files the key is for. Operations "
                + "below /v1/admin concern the whole service: a key with the role admin may use them for all "
                + "tenants, whichever tenant it has.")
    }
}

extension TextRule {
    /// A tenant's name.
    fileprivate static let tenant = TextRule(1...Limits.nameByteCountMax, pattern: "^[a-z0-9_-]*$") {
        APIKey.isTenant($0) ? nil : "A tenant may contain lower-case letters, digits, - and _ only."
    }
}

/// Sends a key. `text`: the key itself, for the response that shows it.
private func sendKey(
    _ key: APIKey, _ status: Int, _ request: RequestContext, text: String? = nil,
    _ extra: [(name: String, value: String)] = []
) {
    let json = key.shown()
    let location = status == 201 ? [(name: "Location", value: "/v1/admin/keys/\(key.id)")] : []
    request.send(status, tag: entityTag(changeable: json, shown: json), location + extra) {
        text.map { ShownNewKey(key: key, text: $0).shown() } ?? json
    }
}

extension APIKey: ShownObject {
    public static let summary = "An API key, without its secret text."
    public static let schemaName = "Key"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the key.")
        list.member("name", \.name, "Name of the key for people.")
        list.member("role", \.role, "Rights of the key. Each role includes those of the ones before it.")
        list.member("tenant", \.tenant, "Tenant whose objects the key can use.")
        list.member("created_at", \.createdAt, "Time of the creation.")
        list.member("revoked_at", \.revokedAt, "Time of the revocation, or null if the key is valid.")
    }
}

/// A new key with its text.
struct ShownNewKey: ShownObject {
    static let summary = "A new API key with its secret text."
    static let schemaName = "NewKey"

    fileprivate let key: APIKey
    fileprivate let text: String

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.include(\.key)
        list.member(
            "key", \.text,
            "The key itself. Only this response shows it, and its repetition with the same Idempotency-Key.")
    }
}
