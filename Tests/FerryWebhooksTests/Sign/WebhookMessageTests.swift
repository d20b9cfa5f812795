import Curl
import FerryCore
import OpenSSL
import Testing

@testable import FerryWebhooks

@Suite("Webhook messages")
struct WebhookMessageTests {
    private let sentAt = Timestamp(microseconds: 1_763_762_405_900_000)
    private let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    private func message(_ delivery: Delivery, _ secrets: [WebhookSecret]) -> WebhookMessage {
        WebhookMessage(
            delivery, signers: secrets.map { WebhookSigner($0) }, sentAt: sentAt, userAgent: "Ferry/1.2.3")
    }

    private func header(_ name: String, of message: WebhookMessage) -> String? {
        message.headers.first { $0.name == name }?.value
    }

    @Test("the signature matches the test vector of Standard Webhooks")
    func vector() throws {
        let secret = try #require(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let signed = #"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#
        #expect(
            WebhookSigner(secret).signatures(of: Array(signed.utf8)) == [
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
            ])
    }

    @Test("the body contains event and job and is the same on all attempts")
    func body() throws {
        let delivery = Delivery.example(url: "http://a/")
        let first = message(delivery, [])
        #expect(
            String(decoding: first.body, as: UTF8.self)
                == #"{"type":"job.succeeded","timestamp":"2025-11-21T22:00:00.000000Z","data":{"sequence":1,"#
                + #""session":"default","job":{"id":"job_x","state":"succeeded","note":"ä\n"}}}"#)
        #expect(message(delivery.nextTry, []).body == first.body)
    }

    @Test("the message has the event's ID, the attempt's timestamp and all signatures")
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

    @Test("a delivery has the header fields of its webhook, in order")
    func ownFields() throws {
        let delivery = Delivery.example(url: "http://a/", headers: [.init("X-B", "1"), .init("x-b", "2")])
        let message = message(delivery, [])
        #expect(message.headers.suffix(2).map { "\($0.name): \($0.value)" } == ["X-B: 1", "x-b: 2"])
    }

    @Test("a thin body has at most 4,096 bytes, also for the largest job, and is signed", arguments: [1, 2])
    func thinBound(formats: Int) throws {
        let format: WebhookEndpoint.Format = formats == 1 ? .standard : .cloudevents
        let text = { (count: Int) in String(repeating: "\"", count: count) }
        var job = JSONWriter()
        job.beginObject()
        job.member("id", JobID(high: .max, low: .max))
        job.member("state", "succeeded")
        for name in ["waiting_for", "kind", "created_at", "finished_at", "retry_of", "schedule_id"] {
            job.member(name, text(5_000))
        }
        job.member("revision", Int32.max)
        job.member("attempt", Int32.max)
        job.member(
            "error", .object([.init("code", .string(text(500))), .init("message", .string(text(9_000)))]))
        let pairs = (0..<Limits.metadataCountMax).map {
            JSON.Member("\($0)", .string(text(Limits.metadataValueByteCountMax)))
        }
        job.member("metadata", .object(pairs))
        job.endObject()
        let name = String(repeating: "n", count: Limits.nameByteCountMax)
        let traceparent = TraceContext.text(
            parent: parent, state: "a=" + String(repeating: "x", count: Limits.traceStateByteCountMax - 2))
        let delivery = Delivery(
            id: DeliveryID(high: .max, low: .max), receiverQueue: ReceiverQueueID(high: 1, low: 1),
            event: EventID(high: .max, low: .max),
            type: try #require(EventType.allCases.map(\.rawValue).max { $0.count < $1.count }),
            tenant: name, session: name, job: JobID(high: .max, low: .max), sequence: .max,
            occurredAt: Timestamp(microseconds: 1_763_762_400_000_000), url: "http://a/", secret: nil,
            payload: .thin, jobJSON: job.bytes, traceparent: traceparent, tryNumber: 1)
        let body = WebhookMessage.body(of: delivery, format, .thin)
        #expect(body.count <= 4_096, "\(body.count)")
        let json = try JSON.parse(body)
        #expect(json["data"]?["job"]?["id"]?.string == JobID(high: .max, low: .max).description)
        #expect(json["data"]?["job"]?["state"] == "succeeded" && json["data"]?["session"]?.string == name)
        #expect(json["data"]?["job"]?["metadata"] == nil)
        #expect(json["data"]?["job"]?["error"]?["code"]?.string == text(500))
        #expect(WebhookMessage.body(of: delivery, format).count > 100_000)
        let sent = message(delivery, [])
        #expect(sent.body.count <= 4_096 && sent.body == WebhookMessage.body(of: delivery, .standard, .thin))
    }

    @Test("a trace continues with a new span; a malformed traceparent is omitted")
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

@Suite("Messages of endpoints")
struct EndpointMessageTests {
    private let now = Timestamp(microseconds: 1_763_762_405_900_000)

    private func endpoint(_ format: WebhookEndpoint.Format) throws -> Delivery.Endpoint {
        func key(_ number: UInt8) throws -> WebhookKeys.Key {
            let secret = try #require(WebhookSecret(key: Array(repeating: number, count: 32)))
            return .init(secret: secret, seed: Array(repeating: number, count: 32))
        }
        var keys = WebhookKeys(try key(1))
        keys.rotate(to: try key(2), overlap: 60, now: now)
        return Delivery.Endpoint(
            id: WebhookID(high: 7, low: 7), revision: 1, keys: keys, format: format, isOrdered: false,
            retryDelays: [1])
    }

    private func message(_ delivery: Delivery, at now: Timestamp) -> WebhookMessage {
        WebhookMessage(
            delivery, signers: SignerCache().signers(of: delivery, service: [], now: now), sentAt: now,
            userAgent: "Ferry/1")
    }

    @Test("all valid keys sign in both schemes, and an expired key does not")
    func rotation() throws {
        let delivery = Delivery.example(url: "http://a/", endpoint: try endpoint(.standard))
        let entries = { (message: WebhookMessage) in
            message.headers.first { $0.name == "webhook-signature" }?.value.split(separator: " ").map {
                String($0.prefix { $0 != "," })
            } ?? []
        }
        #expect(entries(message(delivery, at: now)) == ["v1", "v1a", "v1", "v1a"])
        #expect(entries(message(delivery, at: now + 60)) == ["v1", "v1a"])
    }

    @Test("the v1a signature matches the first test vector of RFC 8032")
    func vector() throws {
        let seed = try #require(
            hexDecoded("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
        let key = try #require(Ed25519PrivateKey(seed: seed))
        #expect(
            hexEncoded(key.publicKey) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
        let expected = try #require(
            hexDecoded(
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc6"
                    + "1e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"))
        let secret = try #require(serviceSecret)
        let signatures = WebhookSigner(secret, key).signatures(of: [])
        #expect(signatures.last == "v1a," + Base64.encode(expected))
        #expect(Ed25519PrivateKey(seed: [1]) == nil)
    }

    @Test("CloudEvents in structured mode name source and subject; data is the same")
    func cloudEvents() throws {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let delivery = Delivery.example(
            url: "http://a/", traceparent: parent, endpoint: try endpoint(.cloudevents))
        let sent = message(delivery, at: now)
        let json = try JSON.parse(sent.body)
        #expect(json["specversion"] == .string("1.0") && json["id"] == .string(delivery.event.description))
        #expect(json["source"] == .string("/tenants/default/sessions/default"))
        #expect(json["type"] == .string("ferry.job.succeeded"))
        #expect(json["subject"] == delivery.job.map { .string($0.description) })
        #expect(json["time"] == .string("2025-11-21T22:00:00.000000Z"))
        #expect(json["datacontenttype"] == .string("application/json"))
        #expect(json["traceparent"] == .string(parent))
        #expect(json["data"]?["sequence"] == .integer(1) && json["data"]?["job"]?["id"] == .string("job_x"))
        let type = sent.headers.first { $0.name == "Content-Type" }?.value
        #expect(type == "application/cloudevents+json; charset=UTF-8")
    }

    @Test("a ping contains its endpoint and no job")
    func ping() throws {
        let delivery = Delivery.example(
            url: "http://a/", endpoint: try endpoint(.standard), type: WebhookPing.type)
        let json = try JSON.parse(message(delivery, at: now).body)
        #expect(json["type"] == .string("webhook.ping"))
        #expect(json["data"]?.members?.map(\.name) == ["webhook"])
    }
}
