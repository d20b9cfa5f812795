internal import FerryCore
internal import HTTPServer
internal import OpenSSL
internal import Synchronization

/// Owner of the key that a request carries.
struct Principal: Sendable, Equatable {
    let key: KeyID
    let tenant: String
    let role: Role
}

/// The valid API keys of all tenants, cached from the store. Any thread.
///
/// A key is looked up by the SHA-256 of what the client sent. The duration of a look-up can reveal something
/// about digests only, and a digest cannot be used as a key.
final class KeyTable: Sendable {
    private struct State {
        var principals: [[UInt8]: Principal] = [:]
        /// Number of the last read that has begun, and of the one that `principals` comes from.
        var beginLast = 0
        var current = 0
    }
    private let store: any KeyStore
    private let streams: KeyStreams
    private let state = Mutex(State())
    private let configured: [UInt8]?

    /// `adminKey`: the key of the configuration. It is in the store as well, so that it has an identifier and
    /// can be revoked. `streams`: the responses that end with their key.
    init(_ store: any KeyStore, _ streams: KeyStreams, adminKey: String?) {
        self.store = store
        self.streams = streams
        configured = adminKey.map { digest(ofKey: $0) }
    }

    /// Reloads the keys from the store.
    func refresh(done: @escaping Reply<Void>) {
        let number = state.withLock { state in
            state.beginLast += 1
            return state.beginLast
        }
        store.keys { [self] result in done(result.map { replace($0, number) }) }
    }

    /// `number`: of the read. An earlier read that is answered later changes nothing.
    private func replace(_ keys: [APIKey], _ number: Int) {
        var table: [[UInt8]: Principal] = [:]
        for key in keys where key.revokedAt == nil {
            // The key of the configuration is always an admin's, whatever role is stored with its digest.
            table[key.hash] =
                key.hash == configured
                ? Principal(key: key.id, tenant: APIKey.defaultTenant, role: .admin)
                : Principal(key: key.id, tenant: key.tenant, role: key.role)
        }
        use(table) { state in
            guard number > state.current else { return false }
            state.current = number
            return true
        }
    }

    /// Removes a key that was revoked, if the keys cannot be read again.
    func remove(_ id: KeyID) {
        let table = state.withLock { $0.principals }.filter { $0.value.key != id }
        use(table) { _ in true }
    }

    /// Sets the valid keys if `isCurrent` says so, and ends the streams of all others.
    private func use(_ table: [[UInt8]: Principal], _ isCurrent: (inout State) -> Bool) {
        let owners = Dictionary(table.values.map { ($0.key, $0) }) { $1 }
        let ended = state.withLock { state in
            guard isCurrent(&state) else { return [] as [KeyedStream] }
            state.principals = table
            return streams.replace(owners)
        }
        for stream in ended { stream.end() }
    }

    /// Returns the owner of a key, or `nil` if the key is unknown or revoked.
    func principal(_ key: String) -> Principal? {
        let digest = digest(ofKey: key)
        return state.withLock { $0.principals[digest] }
    }
}

/// Returns the SHA-256 of a key: the store has only this digest.
package func digest(ofKey key: String) -> [UInt8] { Digest.of(Array(key.utf8)) }

/// Returns a new key: `fk_` and 160 random bits in base32 (RFC 4648 §6, lower case).
package func makeKey() -> String {
    let digits = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
    var text = Array("fk_".utf8)
    var bits: UInt64 = 0
    var bitCount: UInt64 = 0
    for byte in randomBytes(20) {
        bits = bits << 8 | UInt64(byte)
        bitCount += 8
        while bitCount >= 5 {
            bitCount -= 5
            text.append(digits[Int(bits >> bitCount & 31)])
        }
    }
    return String(decoding: text, as: UTF8.self)
}

/// Returns the token of `Authorization: Bearer …` (RFC 6750 §2.1), or `nil` for any other value and for
/// several fields.
func bearerKey(_ fields: HTTPFields) -> String? {
    guard let value = fields.only("Authorization"), value.utf8.count <= 512 else { return nil }
    let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") }
    let scheme = value.utf8.drop(while: isSpace).prefix { !isSpace($0) }
    let rest = value.utf8[scheme.endIndex...].drop(while: isSpace)
    let key = rest.prefix { !isSpace($0) }
    // A letter differs from its lower case in this bit.
    guard scheme.elementsEqual("bearer".utf8, by: { $0 | 0x20 == $1 }), !key.isEmpty,
        rest[key.endIndex...].allSatisfy(isSpace)
    else { return nil }
    return String(Substring(key))
}

extension Problem {
    static func unauthorized(hasKey: Bool) -> Problem {
        var problem = Problem(
            .unauthorized,
            hasKey ? "The key is unknown or revoked." : "Send the field Authorization: Bearer KEY.")
        problem.fields.append(
            (
                "WWW-Authenticate",
                hasKey ? #"Bearer realm="ferry", error="invalid_token""# : #"Bearer realm="ferry""#
            ))
        return problem
    }
}
