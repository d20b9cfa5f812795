/// A challenge of `WWW-Authenticate` (RFC 9110 §11.6.1).
public struct AuthenticationChallenge: Sendable, Equatable {
    /// Scheme in lower case.
    public let scheme: String
    private let parameters: [JobSpec.Pair]
    /// `true` if a parameter has spaces around its `=`, which recipients must accept (RFC 9110 §11.2 and
    /// §5.6.3).
    public let hasSpacedParameter: Bool

    /// Realm, or `nil` if there is none.
    public var realm: String? { self["realm"] }

    /// Returns the first parameter with this name in lower case, without quotes, or `nil` if there is none.
    public subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// Returns the challenges that can be parsed, in order.
    public static func all(in fields: [String]) -> [AuthenticationChallenge] {
        fields.flatMap { field in
            var parser = Parser(Array(field.utf8.prefix(16_384)))
            return parser.challenges()
        }
    }

    private struct Parser {
        let bytes: [UInt8]
        var position = 0

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        mutating func challenges() -> [AuthenticationChallenge] {
            var all: [AuthenticationChallenge] = []
            skip(separators: true)
            while let scheme = token() {
                skip(separators: false)
                var parameters: [JobSpec.Pair] = []
                var isSpaced = false
                skipToken68()
                while let (name, value) = parameter(&isSpaced) {
                    parameters.append(JobSpec.Pair(name, value))
                    skip(separators: true)
                }
                all.append(
                    AuthenticationChallenge(
                        scheme: scheme.lowercased(), parameters: parameters, hasSpacedParameter: isSpaced))
                let before = position
                skip(separators: true)
                // Stop at text that cannot be parsed.
                if position < bytes.count, !isTokenByte(bytes[position]), position == before {
                    break
                }
            }
            return all
        }

        private mutating func skip(separators: Bool) {
            while position < bytes.count,
                bytes[position] == 0x20 || bytes[position] == 0x09
                    || separators && bytes[position] == UInt8(ascii: ",")
            { position += 1 }
        }

        private mutating func token() -> String? {
            let start = position
            while position < bytes.count, isTokenByte(bytes[position]) { position += 1 }
            return start < position ? String(decoding: bytes[start..<position], as: UTF8.self) : nil
        }

        /// Skips a token68, which some schemes have instead of parameters: characters up to a comma, `=` only
        /// at its end.
        private mutating func skipToken68() {
            var end = position
            while end < bytes.count,
                isTokenByte(bytes[end]) || bytes[end] == UInt8(ascii: "/")
            { end += 1 }
            var rest = end
            while rest < bytes.count, bytes[rest] == UInt8(ascii: "=") { rest += 1 }
            guard end > position, rest == bytes.count || bytes[rest] == UInt8(ascii: ",") else { return }
            position = rest
        }

        /// Reads `name = value`. Returns `nil` and reads nothing if the next challenge begins. Sets
        /// `isSpaced` if there are spaces around the `=`.
        private mutating func parameter(_ isSpaced: inout Bool) -> (String, String)? {
            let start = position
            guard let name = token() else { return nil }
            let end = position
            skip(separators: false)
            guard position < bytes.count, bytes[position] == UInt8(ascii: "=") else {
                position = start
                return nil
            }
            isSpaced = isSpaced || position > end
            position += 1
            let begin = position
            skip(separators: false)
            isSpaced = isSpaced || position > begin
            guard let value = quoted() ?? token() else {
                // The end of the value cannot be found.
                position = bytes.count
                return nil
            }
            return (name.lowercased(), value)
        }

        private mutating func quoted() -> String? {
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else { return nil }
            var text: [UInt8] = []
            var place = position + 1
            while place < bytes.count, bytes[place] != UInt8(ascii: "\"") {
                if bytes[place] == UInt8(ascii: "\\"), place + 1 < bytes.count { place += 1 }
                text.append(bytes[place])
                place += 1
            }
            guard place < bytes.count else { return nil }
            position = place + 1
            return String(decoding: text, as: UTF8.self)
        }
    }
}

extension JobQuestion.ProtectionSpace {
    /// Returns the ways to authenticate that a 401 from `url`, or a 407 of the proxy there, offers and that a
    /// client can answer: the strongest first, each once. `hasNTLM`: `true` if libcurl supports NTLM.
    /// Negotiate is left out, since a client cannot give the ticket that it needs.
    public static func offered(
        by fields: [String], from url: String, isProxy: Bool = false, hasNTLM: Bool = false
    ) -> [Self] {
        let challenges = AuthenticationChallenge.all(in: fields)
        return ConnectionRules.Authentication.Scheme.strongestFirst.compactMap { scheme in
            if scheme == .ntlm, !hasNTLM { return nil }
            if scheme == .bearer, isProxy { return nil }
            return challenges.first { $0.scheme == scheme.rawValue }.map {
                Self(url: url, realm: $0.realm, method: scheme, isProxy: isProxy)
            }
        }
    }
}

extension ConnectionRules.Authentication.Scheme {
    /// The schemes by strength.
    public static let strongestFirst: [Self] = [.digest, .bearer, .ntlm, .basic]
}
