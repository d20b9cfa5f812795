package import Curl
package import FerryCore
import OpenSSL

/// Body and header fields of one delivery attempt, with their signatures (Standard Webhooks 1.0).
package struct WebhookMessage: Sendable, Equatable {
    /// JSON body of the request.
    package let body: [UInt8]
    /// Header fields of the request.
    package let headers: [TransferRequest.Header]

    /// Creates the message. `sentAt`: time of this attempt. All attempts have the same body; timestamp and
    /// signatures differ.
    package init(_ delivery: Delivery, signers: [WebhookSigner], sentAt: Timestamp, userAgent: String) {
        let format = delivery.endpoint?.format ?? .standard
        let body = Self.body(of: delivery, format, delivery.endpoint?.payload ?? delivery.payload)
        let id = delivery.event.description
        let seconds = String(sentAt.microseconds / 1_000_000)
        let signed = Array("\(id).\(seconds).".utf8) + body
        var headers: [TransferRequest.Header] = [
            .init(
                "Content-Type",
                format == .standard ? "application/json" : "application/cloudevents+json; charset=UTF-8"),
            .init("User-Agent", userAgent),
            .init("webhook-id", id),
            .init("webhook-timestamp", seconds),
            .init("webhook-signature", signers.flatMap { $0.signatures(of: signed) }.joined(separator: " ")),
        ]
        if let trace = delivery.traceparent.map(TraceContext.init),
            let child = Self.child(of: trace.parent, spanID: randomBytes(8))
        {
            headers.append(.init("traceparent", child))
            if let state = trace.state { headers.append(.init("tracestate", state)) }
        }
        for field in delivery.endpoint?.headers ?? delivery.headers {
            headers.append(.init(field.name, field.value))
        }
        self.body = body
        self.headers = headers
    }

    /// `payload`: `.thin` for a body of at most `Limits.thinPayloadByteCountMax` bytes.
    static func body(
        of delivery: Delivery, _ format: WebhookEndpoint.Format, _ payload: WebhookPayload = .full
    ) -> [UInt8] {
        guard payload == .thin, delivery.job != nil else {
            return body(of: delivery, format, delivery.jobJSON)
        }
        let null = Array("null".utf8)
        let rest = body(of: delivery, format, null).count - null.count
        let job = ThinJob.make(of: delivery.jobJSON, byteCountMax: Limits.thinPayloadByteCountMax - rest)
        return body(of: delivery, format, job)
    }

    private static func body(
        of delivery: Delivery, _ format: WebhookEndpoint.Format, _ jobJSON: [UInt8]
    ) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: jobJSON.count + 384)
        writer.beginObject()
        switch format {
        case .standard:
            writer.member("type", delivery.type)
            writer.member("timestamp", delivery.occurredAt)
        case .cloudevents: writeAttributes(of: delivery, into: &writer)
        }
        writer.name("data")
        writeData(of: delivery, jobJSON, into: &writer)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the context attributes of CloudEvents 1.0.2 §3.1. `source` and `id` together identify the
    /// event.
    private static func writeAttributes(of delivery: Delivery, into writer: inout JSONWriter) {
        writer.member("specversion", "1.0")
        writer.member("id", delivery.event)
        let session = delivery.session.isEmpty ? "" : "/sessions/\(delivery.session)"
        writer.member("source", "/tenants/\(delivery.tenant)\(session)")
        writer.member("type", "ferry.\(delivery.type)")
        if let job = delivery.job { writer.member("subject", job) }
        writer.member("time", delivery.occurredAt)
        writer.member("datacontenttype", "application/json")
        // Extension for distributed tracing.
        if let trace = delivery.traceparent.map(TraceContext.init) {
            writer.member("traceparent", trace.parent)
            if let state = trace.state { writer.member("tracestate", state) }
        }
    }

    /// Writes the content of the event. A ping contains only its endpoint. `jobJSON`: the sent part of the
    /// job.
    private static func writeData(
        of delivery: Delivery, _ jobJSON: [UInt8], into writer: inout JSONWriter
    ) {
        if delivery.isPing, let endpoint = delivery.endpoint {
            writer.beginObject()
            writer.member("webhook", endpoint.id)
            return writer.endObject()
        }
        var offset: Int64??
        if delivery.type == EventType.jobResumedAtOffset.rawValue {
            // The store has written this JSON; without an offset the member is null.
            let job = try? JSON.parse(delivery.jobJSON)
            offset = .some(job?["progress"]?["resumed_at_offset"]?.integer)
        }
        // The store keeps the endpoint, the group or the host in place of the job.
        let isOfEndpoint = delivery.type == EventType.webhookDisabled.rawValue
        let isOfGroup = delivery.type == EventType.groupFinished.rawValue
        let isOfHost = EventType(rawValue: delivery.type)?.isOfHost ?? false
        EventContent(
            sequence: delivery.sequence, session: delivery.session.isEmpty ? nil : delivery.session,
            offset: offset,
            job: .init { if isOfEndpoint || isOfGroup || isOfHost { $0.null() } else { $0.raw(jobJSON) } },
            webhook: isOfEndpoint ? StoredJSON(jobJSON) : nil, group: isOfGroup ? StoredJSON(jobJSON) : nil,
            host: isOfHost ? HostChange(json: jobJSON) : nil
        ).show(into: &writer, isRedacted: true)
    }

    /// Returns the traceparent with the same trace and flags and this span (W3C Trace Context §3.2), or `nil`
    /// if the parent is malformed.
    static func child(of traceparent: String, spanID: [UInt8]) -> String? {
        let parts = traceparent.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "00", parts.map(\.utf8.count) == [2, 32, 16, 2],
            parts[1...].allSatisfy({ $0.utf8.allSatisfy(isLowerHexDigit) }),
            parts[1].utf8.contains(where: { $0 != UInt8(ascii: "0") })
        else { return nil }
        return "00-\(parts[1])-\(hexEncoded(spanID))-\(parts[3])"
    }
}
