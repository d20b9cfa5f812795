internal import FerryCore
internal import HTTPServer

extension API {
    /// `POST /v1/admin/keys`: the only answer that holds the key.
    func createKey(_ call: Call) {
        call.answering { () throws(Problem) in
            if try idempotencyKey(call.fields) != nil {
                // The first answer could not be given again: the key in it is kept nowhere.
                throw Problem(.invalidHeader, "A key is shown once; Idempotency-Key is not possible here.")
            }
            let text = makeKey()
            let key = try newKey(try call.json(), hash: digest(ofKey: text))
            ports.keys.create(key) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success:
                    var writer = JSONWriter()
                    key.write(into: &writer, key: text)
                    let json = writer.bytes
                    // Answered once the key works here.
                    refreshKeys { _ in call.send(201, json: json) }
                }
            }
        }
    }

    private func newKey(_ json: JSON, hash: [UInt8]) throws(Problem) -> APIKey {
        let complaints = Complaints()
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
    func listKeys(_ call: Call) {
        ports.keys.keys { result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let keys):
                sendList(call) { writer in for key in keys { key.write(into: &writer, key: nil) } }
            }
        }
    }

    /// `DELETE /v1/admin/keys/{id}`
    func revokeKey(_ call: Call) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(KeyID.self)
            ports.keys.revoke(id) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: refreshKeys { _ in call.send(Response(status: 204)) }
                }
            }
        }
    }
}

extension APIKey {
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
