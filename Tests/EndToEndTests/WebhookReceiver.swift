import FerryCore
import Glibc
import TestSupport

/// A receiver of webhooks that hands each delivery to the test.
final class WebhookReceiver: Sendable {
    struct Delivery: Sendable {
        let id: String
        let timestamp: String
        let signature: String
        let traceparent: String
        let body: [UInt8]
        var json: JSON { (try? JSON.parse(body)) ?? .null }
        var job: JSON? { json["data"]?["job"] }

        /// Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`, here by the `openssl` program: what
        /// Ferry signs with shall not judge itself.
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
            return result.status == 0 && signature == "v1,\(Base64.encode(code))"
        }
    }

    let deliveries = Signal<Delivery>()
    let port: UInt16
    private let origin: ScriptedOrigin
    var url: String { origin.url }

    /// `status` decides the answer to each delivery.
    init(status: @escaping @Sendable (Delivery) -> Int = { _ in 204 }) throws {
        let deliveries = deliveries
        origin = try ScriptedOrigin.answering { request, body in
            let delivery = Delivery(
                id: request.header("webhook-id") ?? "", timestamp: request.header("webhook-timestamp") ?? "",
                signature: request.header("webhook-signature") ?? "",
                traceparent: request.header("traceparent") ?? "", body: body)
            let answer = status(delivery)
            deliveries.fire(delivery)
            return Array("HTTP/1.1 \(answer) X\r\nContent-Length: 0\r\n\r\n".utf8)
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
