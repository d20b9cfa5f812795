internal import FerryCore
internal import HTTPServer

extension API {
    /// `POST /v1/admin/keys`: this answer, and those to the same request again, hold the key.
    func createKey(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let text = makeKey()
            let key = try newKey(try call.json(), hash: digest(ofKey: text))
            let idempotency = try idempotency(call)
            // Nobody could ask for it again without an idempotency key: then it is kept nowhere.
            let sealed = idempotency == nil ? nil : ports.seal(Array(text.utf8))
            ports.keys.create(NewKey(key, idempotency: idempotency, sealedText: sealed)) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                // Answered once the key works here.
                case .success(.made): refreshKeys { _ in sendKey(key, 201, call, text: text) }
                case .success(.known(let known, let sealed)):
                    guard let plain = ports.open(sealed) else { return call.fail(StoreError.failed) }
                    let text = String(decoding: plain, as: UTF8.self)
                    refreshKeys { _ in sendKey(known, 201, call, text: text, replayed) }
                }
            }
        }
    }

    private func newKey(_ json: JSON, hash: [UInt8]) throws(Problem) -> APIKey {
        let complaints = ValidationErrors()
        var key: APIKey?
        if var fields = FieldReader(json, at: "#", complaints) {
            for name in ["name", "role"] where !fields.has(name) {
                fields.complain(name, "required", "A key needs a \(name).")
            }
            let name = fields.string("name", byteCounts: 1...Limits.nameByteCountMax)
            let role = fields.choice("role", Role.self)
            let tenant = fields.string("tenant", byteCounts: 1...Limits.nameByteCountMax)
            if let name, name.utf8.contains(0) {
                fields.complain("name", "invalid_value", "No U+0000, please.")
            }
            if let tenant, !APIKey.isTenant(tenant) {
                fields.complain(
                    "tenant", "invalid_value", "A tenant is made of lower-case letters, digits, - and _.")
            }
            fields.finish()
            key = APIKey(
                id: identifiers.make(), tenant: tenant ?? APIKey.defaultTenant, role: role ?? .viewer,
                name: name ?? "",
                hash: hash, createdAt: ports.clock.now(), revokedAt: nil)
        }
        guard complaints.isEmpty, let key else { throw Problem(InvalidFields(complaints.errors)) }
        return key
    }

    /// `GET /v1/admin/keys`
    func listKeys(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, before) = try call.page { cursor throws(Problem) -> KeyID in try position(cursor) }
            ports.keys.keys(before: before, limit: limit + 1) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let keys):
                    Page(keys, limit: limit) { $0.id }.send(call, reservingCapacity: 4_096) {
                        $0.write(into: &$1, key: nil)
                    }
                }
            }
        }
    }

    /// `GET /v1/admin/keys/{id}`
    func readKey(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            ports.keys.key(try call.identifier(KeyID.self)) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let key): sendKey(key, 200, call)
                }
            }
        }
    }

    /// `DELETE /v1/admin/keys/{id}`
    func revokeKey(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(KeyID.self)
            guard call.fields.contains("If-Match") else { return revoke(id, call) }
            let isAllowed = call.changeCondition
            ports.keys.key(id) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let key) where !isAllowed(key.json()): call.fail(.stale(revision: nil))
                // Only its revocation changes a key, and that happens once.
                case .success: revoke(id, call)
                }
            }
        }
    }

    private func revoke(_ id: KeyID, _ call: RequestContext) {
        ports.keys.revoke(id) { [self] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success: refreshKeys { _ in call.send(Response(status: 204)) }
            }
        }
    }
}

/// `text`: the key itself.
private func sendKey(
    _ key: APIKey, _ status: Int, _ call: RequestContext, text: String? = nil,
    _ extra: [(name: String, value: String)] = []
) {
    let json = key.json()
    let location = status == 201 ? [(name: "Location", value: "/v1/admin/keys/\(key.id)")] : []
    call.send(status, tag: entityTag(changeable: json, shown: json), location + extra) {
        text.map { key.json($0) } ?? json
    }
}

extension APIKey {
    fileprivate func json(_ key: String? = nil) -> [UInt8] {
        var writer = JSONWriter()
        write(into: &writer, key: key)
        return writer.bytes
    }

    fileprivate func write(into writer: inout JSONWriter, key: String?) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("name", name)
        writer.member("role", role.rawValue)
        writer.member("tenant", tenant)
        writer.member("created_at", createdAt)
        writer.memberOrNull("revoked_at", revokedAt)
        if let key { writer.member("key", key) }
        writer.endObject()
    }
}
