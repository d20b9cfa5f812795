package import FerryCore
internal import OpenSSL

/// The signed part of a request between nodes: who asks whom, when, and for which client.
///
/// It is the value of `Authorization`: `Ferry-Node time=…, nonce=…, from=…, to=…, role=…, tenant=…,
/// signature=…`. The signature is the HMAC-SHA256 of the method, the request target and all members before
/// it, in hexadecimal. The key of the client is not part of it.
package struct NodeSignature: Sendable, Equatable {
    /// Time of the request in microseconds, by the database's clock.
    package var time: Timestamp
    /// 128 random bits in hexadecimal, which no other request has.
    package var nonce: String
    /// The node that asks.
    package var from: NodeID
    /// The only node that may answer.
    package var to: NodeID
    /// Role and tenant of the client on whose behalf the node asks.
    package var role: Role
    package var tenant: String

    /// Name of the authentication scheme.
    static let scheme = "Ferry-Node"
    /// Purpose from which the key of requests between nodes is derived (`SecretBox.key(for:)`).
    package static let purpose = "ferry requests between nodes 1"

    /// Creates a signature with a new nonce.
    package init(time: Timestamp, from: NodeID, to: NodeID, role: Role, tenant: String) {
        self.time = time
        nonce = hexEncoded(randomBytes(16))
        self.from = from
        self.to = to
        self.role = role
        self.tenant = tenant
    }

    private var members: String {
        "time=\(time.microseconds), nonce=\(nonce), from=\(from), to=\(to), role=\(role.rawValue), "
            + "tenant=\(tenant)"
    }

    /// Returns the value of `Authorization`. `target`: the request target as sent.
    package func authorization(method: String, target: String, key: [UInt8]) -> String {
        "\(Self.scheme) \(members), signature=\(hexEncoded(code(method: method, target: target, key: key)))"
    }

    /// The HMAC of the request.
    private func code(method: String, target: String, key: [UInt8]) -> [UInt8] {
        hmacSHA256(key: key, message: Array("\(method) \(target)\n\(members)".utf8))
    }

    /// Reads a value of `Authorization` and checks its code. `nil`: it is malformed, or was made for another
    /// request or with another key.
    init?(authorization: String, method: String, target: String, key: [UInt8]) {
        guard authorization.hasPrefix(Self.scheme + " "), authorization.utf8.count <= 1_024 else {
            return nil
        }
        let names = ["time", "nonce", "from", "to", "role", "tenant", "signature"]
        let parts = authorization.dropFirst(Self.scheme.count + 1).split(
            separator: ", ", omittingEmptySubsequences: false)
        guard parts.count == names.count else { return nil }
        var values: [String] = []
        for (name, part) in zip(names, parts) {
            guard part.hasPrefix(name + "=") else { return nil }
            values.append(String(part.dropFirst(name.count + 1)))
        }
        guard let time = Int64(values[0]), values[1].utf8.count == 32, let from = NodeID(values[2]),
            let to = NodeID(values[3]), let role = Role(rawValue: values[4]), APIKey.isTenant(values[5]),
            let code = hexDecoded(values[6])
        else { return nil }
        self.time = Timestamp(microseconds: time)
        (nonce, self.from, self.to, self.role, tenant) = (values[1], from, to, role, values[5])
        guard isEqualCode(code, self.code(method: method, target: target, key: key)) else { return nil }
    }
}
