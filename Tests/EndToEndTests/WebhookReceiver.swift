import FerryCore
import OpenSSL
import TestSupport

/// A receiver of webhooks that answers 204 and hands each delivery to the test.
final class WebhookReceiver: Sendable {
    struct Delivery: Sendable {
        let id: String
        let timestamp: String
        let signature: String
        let body: [UInt8]
        var json: JSON { (try? JSON.parse(body)) ?? .null }

        /// Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`.
        func isSigned(by secret: String) -> Bool {
            guard let key = base64Decoded(String(secret.dropFirst("whsec_".count))) else { return false }
            let code = hmacSHA256(key: key, message: Array("\(id).\(timestamp).".utf8) + body)
            return signature.split(separator: " ").contains { $0 == "v1,\(base64Encoded(code))" }
        }
    }

    let deliveries = Signal<Delivery>()
    private let origin: ScriptedOrigin
    var url: String { origin.url }

    /// `status` decides the answer to each delivery.
    init(status: @escaping @Sendable (Delivery) -> Int = { _ in 204 }) throws {
        let deliveries = deliveries
        origin = try ScriptedOrigin.answering { request, body in
            let delivery = Delivery(
                id: request.header("webhook-id") ?? "", timestamp: request.header("webhook-timestamp") ?? "",
                signature: request.header("webhook-signature") ?? "", body: body)
            deliveries.fire(delivery)
            return Array("HTTP/1.1 \(status(delivery)) X\r\nContent-Length: 0\r\n\r\n".utf8)
        }
    }

    func stop() { origin.stop() }
}

func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { byte in
        let text = String(byte, radix: 16)
        return byte < 16 ? "0" + text : text
    }.joined()
}
