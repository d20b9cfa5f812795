import Curl
import FerryCore
import FerryWebhooks
import Testing

@Suite("Webhook messages")
struct WebhookMessageTests {
    private let sentAt = Timestamp(microseconds: 1_763_762_405_900_000)
    private let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    private func message(_ delivery: Delivery, _ secrets: [WebhookSecret]) -> WebhookMessage {
        WebhookMessage(delivery, secrets: secrets, sentAt: sentAt, userAgent: "Ferry/1.2.3")
    }

    private func header(_ name: String, of message: WebhookMessage) -> String? {
        message.headers.first { $0.name == name }?.value
    }

    @Test("the signature is the one of Standard Webhooks' test vector")
    func vector() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let signature = WebhookMessage.signature(
            key: secret.key, id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: "1614265330",
            body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test("the body holds the event and the job as it was, the same on every try")
    func body() throws {
        let delivery = Delivery.example(url: "http://a/")
        let first = message(delivery, [])
        #expect(
            String(decoding: first.body, as: UTF8.self)
                == #"{"type":"job.succeeded","timestamp":"2025-11-21T22:00:00.000000Z","data":{"sequence":1,"#
                + #""session":"default","job":{"id":"job_x","state":"succeeded","note":"ä\n"}}}"#)
        #expect(message(delivery.nextTry, []).body == first.body)
    }

    @Test("id is the event's, the timestamp is this try's, and every secret signs")
    func headers() throws {
        let secrets = [WebhookSecret(key: Array(0..<24)), WebhookSecret(key: Array(1..<33))].compactMap { $0 }
        let message = message(.example(url: "http://a/"), secrets)
        #expect(header("webhook-id", of: message) == EventID(high: 2, low: 1).description)
        #expect(header("webhook-timestamp", of: message) == "1763762405")
        #expect(header("Content-Type", of: message) == "application/json")
        #expect(header("User-Agent", of: message) == "Ferry/1.2.3")
        let signatures = try #require(header("webhook-signature", of: message)).split(separator: " ")
        #expect(signatures.count == 2 && Set(signatures).count == 2)
        #expect(signatures.allSatisfy { $0.hasPrefix("v1,") })
    }

    @Test("a trace goes on with a span of its own; a malformed one is left out")
    func traceparent() throws {
        let child = try #require(
            header("traceparent", of: message(.example(url: "http://a/", traceparent: parent), [])))
        #expect(child.hasPrefix("00-0af7651916cd43dd8448eb211c80319c-"))
        #expect(child.hasSuffix("-01"))
        #expect(child != parent && child.utf8.count == parent.utf8.count)
        let malformed = ["", "00-abc-def-01", parent.uppercased(), parent + "-x", "01" + parent.dropFirst(2)]
        for text in malformed {
            #expect(
                header("traceparent", of: message(.example(url: "http://a/", traceparent: text), [])) == nil)
        }
    }
}
