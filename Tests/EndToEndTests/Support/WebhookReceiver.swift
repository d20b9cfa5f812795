import FerryCore
import Glibc
import TestSupport

/// A webhook receiver that passes each delivery to the test.
final class WebhookReceiver: Sendable {
    struct Delivery: Sendable {
        let path: String
        let id: String
        let timestamp: String
        let signature: String
        let traceparent: String
        /// Value of the field `X-Note`; empty if there is none.
        let note: String
        let body: [UInt8]
        var json: JSON { (try? JSON.parse(body)) ?? .null }
        var job: JSON? { json["data"]?["job"] }

        /// Returns `true` if a `v1` entry is the HMAC-SHA256 of `id.timestamp.body` (Standard Webhooks 1.0).
        /// Uses the `openssl` program, so that Ferry's own code does not verify itself.
        func isSigned(by secret: String) throws -> Bool {
            guard let key = Base64.decode(String(secret.dropFirst("whsec_".count))) else { return false }
            let directory = try TemporaryDirectory.make("signature")
            defer { TemporaryDirectory.remove(directory) }
            try writeFile(directory + "/message", Array("\(id).\(timestamp).".utf8) + body)
            let result = try Program.run([
                "/usr/bin/openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt",
                "hexkey:\(hexadecimal(key))", "-out", directory + "/code", "-binary", directory + "/message",
            ])
            let code = readFile(directory + "/code") ?? []
            return result.status == 0 && entries.contains("v1,\(Base64.encode(code))")
        }

        /// Returns `true` if a `v1a` entry verifies with this public key (`whpk_…`). Uses the `openssl`
        /// program.
        func isSigned(byPublicKey text: String) throws -> Bool {
            guard let key = Base64.decode(text.dropFirst("whpk_".count)), key.count == 32 else {
                return false
            }
            let directory = try TemporaryDirectory.make("signature")
            defer { TemporaryDirectory.remove(directory) }
            try writeFile(directory + "/message", Array("\(id).\(timestamp).".utf8) + body)
            // SubjectPublicKeyInfo of Ed25519 (RFC 8410 §4).
            let header: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]
            try writeFile(directory + "/key", header + key)
            for entry in entries where entry.hasPrefix("v1a,") {
                try writeFile(directory + "/signature", Base64.decode(entry.dropFirst(4)) ?? [])
                let result = try Program.run([
                    "/usr/bin/openssl", "pkeyutl", "-verify", "-pubin", "-inkey", directory + "/key",
                    "-keyform", "DER", "-rawin", "-in", directory + "/message", "-sigfile",
                    directory + "/signature",
                ])
                if result.status == 0 { return true }
            }
            return false
        }

        private var entries: [Substring] { signature.split(separator: " ") }
    }

    let deliveries = Signal<Delivery>()
    let port: UInt16
    private let origin: ScriptedOrigin
    var url: String { origin.url }

    /// `status` returns the response status of each delivery. Speaks TLS if there is an `identity`.
    init(
        as identity: TestAuthority.Identity? = nil,
        status: @escaping @Sendable (Delivery) -> Int = { _ in 204 }
    ) throws {
        let deliveries = deliveries
        origin = try ScriptedOrigin.answering(as: identity) { request, body in
            // The sender was killed while it sent the body.
            let length = request.header("content-length").flatMap { Int($0) } ?? 0
            guard body.count == length else { return [] }
            let delivery = Delivery(
                path: request.path, id: request.header("webhook-id") ?? "",
                timestamp: request.header("webhook-timestamp") ?? "",
                signature: request.header("webhook-signature") ?? "",
                traceparent: request.header("traceparent") ?? "", note: request.header("x-note") ?? "",
                body: body)
            let code = status(delivery)
            deliveries.fire(delivery)
            return Array("HTTP/1.1 \(code) X\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        port = origin.port
    }

    func stop() { origin.stop() }
}

func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { byte in
        let text = String(byte, radix: 16)
        return byte < 16 ? "0" + text : text
    }.joined()
}
