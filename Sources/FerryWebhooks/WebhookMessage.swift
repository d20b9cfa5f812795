package import Curl
package import FerryCore
import OpenSSL

/// One try as it goes over the wire: the exact bytes, and headers that sign them (Standard Webhooks 1.0).
package struct WebhookMessage: Sendable, Equatable {
    package let body: [UInt8]
    package let headers: [TransferRequest.Header]

    /// `sentAt` is this try's time. The body is the same on every try; timestamp and signature are not.
    package init(_ delivery: Delivery, secrets: [WebhookSecret], sentAt: Timestamp, userAgent: String) {
        let body = Self.body(of: delivery)
        let id = delivery.event.description
        let seconds = String(sentAt.microseconds / 1_000_000)
        let signatures = secrets.map { Self.signature(key: $0.key, id: id, timestamp: seconds, body: body) }
        var headers: [TransferRequest.Header] = [
            .init("Content-Type", "application/json"),
            .init("User-Agent", userAgent),
            .init("webhook-id", id),
            .init("webhook-timestamp", seconds),
            .init("webhook-signature", signatures.joined(separator: " ")),
        ]
        if let parent = delivery.traceparent, let child = Self.child(of: parent, spanID: randomBytes(8)) {
            headers.append(.init("traceparent", child))
        }
        self.body = body
        self.headers = headers
    }

    /// `{"type","timestamp","data":{"sequence","session","job"}}`; `data` has `offset` too when a job was
    /// resumed.
    static func body(of delivery: Delivery) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: delivery.jobJSON.count + 192)
        writer.beginObject()
        writer.member("type", delivery.type.rawValue)
        writer.member("timestamp", delivery.occurredAt)
        writer.name("data")
        writer.beginObject()
        writer.member("sequence", delivery.sequence)
        writer.member("session", delivery.session)
        if delivery.type == .jobResumedAtOffset {
            let job = try? JSON.parse(delivery.jobJSON)
            writer.memberOrNull("offset", job?["progress"]?["resumed_at_offset"]?.integer)
        }
        writer.name("job")
        writer.raw(delivery.jobJSON)
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    /// `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.
    package static func signature(key: [UInt8], id: String, timestamp: String, body: [UInt8]) -> String {
        let signed = Array("\(id).\(timestamp).".utf8) + body
        return "v1," + Base64.encode(hmacSHA256(key: key, message: signed))
    }

    /// The same trace and flags with a span of its own (W3C Trace Context §3.2). Nil when the parent is
    /// malformed.
    static func child(of traceparent: String, spanID: [UInt8]) -> String? {
        let parts = traceparent.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "00", parts.map(\.utf8.count) == [2, 32, 16, 2],
            parts[1...].allSatisfy({ $0.utf8.allSatisfy(isLowerHexDigit) }),
            parts[1].utf8.contains(where: { $0 != UInt8(ascii: "0") })
        else { return nil }
        return "00-\(parts[1])-\(hexEncoded(spanID))-\(parts[3])"
    }

    /// The start of an answer for people to read: valid UTF-8 without NUL (PostgreSQL keeps none), at most 1
    /// KiB.
    static func excerpt(_ answer: [UInt8]) -> String {
        var text = ""
        var byteCount = 0
        for scalar in String(decoding: answer, as: UTF8.self).unicodeScalars where scalar != "\0" {
            byteCount += UTF8.width(scalar)
            guard byteCount <= 1_024 else { break }
            text.unicodeScalars.append(scalar)
        }
        return text
    }
}
