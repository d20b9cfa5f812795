import FerryCore
import OpenSSL
import Synchronization
import TestSupport

/// A server that asks for Digest and checks the answer as RFC 7616 §3.4 says, user `user` with the password
/// `secret`. A nonce serves twice; then it is stale.
final class DigestOrigin: Sendable {
    struct Seen: Sendable, Equatable {
        let method: String
        let byteCount: Int
        let isAuthorized: Bool
    }

    private struct State {
        var seen: [Seen] = []
        var uses: [String: Int] = [:]
        var nonceCount = 0
        var nonceCounts: [String] = []
    }

    private let state: SharedState
    private let origin: ScriptedOrigin

    private final class SharedState: Sendable {
        let value = Mutex(State())
    }

    var url: String { origin.url }
    var seen: [Seen] { state.value.withLock { $0.seen } }
    /// The nonce count (`nc`) of each right answer.
    var nonceCounts: [String] { state.value.withLock { $0.nonceCounts } }

    /// `answers`: what an authorized request is answered with.
    init(
        _ algorithm: String,
        answers: @escaping @Sendable (ScriptedOrigin.Request, [UInt8]) -> [UInt8] = { request, body in
            let text = "\(request.method) \(body.count)"
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
    ) throws {
        let state = SharedState()
        self.state = state
        origin = try ScriptedOrigin.answering { request, body in
            let verdict = Self.verdict(request, algorithm, state)
            state.value.withLock {
                $0.seen.append(
                    Seen(method: request.method, byteCount: body.count, isAuthorized: verdict == nil))
            }
            return verdict ?? answers(request, body)
        }
    }

    func stop() { origin.stop() }

    /// Nil when the request may pass, else a challenge.
    private static func verdict(
        _ request: ScriptedOrigin.Request, _ algorithm: String, _ state: SharedState
    ) -> [UInt8]? {
        let given = parameters(request.header("authorization") ?? "")
        let isKnown = given["nonce"].map { nonce in state.value.withLock { $0.uses[nonce] != nil } } ?? false
        let isRight = isKnown && given["response"] == response(request, given, algorithm)
        let uses = state.value.withLock { state in
            let nonce = given["nonce"] ?? ""
            if isRight {
                state.uses[nonce, default: 0] += 1
                state.nonceCounts.append(given["nc"] ?? "")
            }
            return state.uses[nonce] ?? 0
        }
        if isRight, uses <= 2 { return nil }
        let nonce = state.value.withLock { state in
            state.nonceCount += 1
            let nonce = "nonce-\(state.nonceCount)"
            state.uses[nonce] = 0
            return nonce
        }
        let stale = isRight ? ", stale=true" : ""
        return Array(
            ("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"here\", nonce=\"\(nonce)\", "
                + "qop=\"auth\", algorithm=\(algorithm)\(stale)\r\nContent-Length: 4\r\n\r\nnope").utf8)
    }

    private static func response(
        _ request: ScriptedOrigin.Request, _ given: [String: String], _ algorithm: String
    ) -> String {
        func hash(_ text: String) -> String {
            let algorithms: [String: Digest.Algorithm] = ["MD5": .md5, "SHA-512-256": .sha512by256]
            return hexEncoded(Digest.of(Array(text.utf8), algorithms[algorithm] ?? .sha256))
        }
        let first = hash("user:here:secret")
        let second = hash("\(request.method):\(request.path)")
        return hash(
            [first, given["nonce"], given["nc"], given["cnonce"], given["qop"], second].map { $0 ?? "" }
                .joined(separator: ":"))
    }

    private static func parameters(_ header: String) -> [String: String] {
        guard header.hasPrefix("Digest ") else { return [:] }
        var found: [String: String] = [:]
        for part in header.dropFirst(7).split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1)
            guard pair.count == 2 else { continue }
            found[String(pair[0].drop { $0 == " " })] = String(pair[1].filter { $0 != "\"" })
        }
        return found
    }
}
