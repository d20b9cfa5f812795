import Testing

@testable import FerryCore

/// `tls` of webhooks.
@Suite("TLS settings of webhooks")
struct WebhookTLSTests {
    private static let pin = "sha256//" + Base64.encode(Array(repeating: 7, count: 32))
    private static let other = "sha256//" + Base64.encode(Array(repeating: 8, count: 32))
    private static let set = JSON.object([.init("set", .bool(true))])
    private let node = NodeAbilities(certificateError: { $0.hasPrefix("PEM") ? nil : "No certificate." })

    private func job(_ webhook: String, url: String = "https://b.example/") throws -> JobRequest {
        let text =
            #"{"kind":"data","request":{"url":"http://a.example/"},"#
            + #""webhook":{"url":"\#(url)",\#(webhook)}}"#
        return try JobRequest(JSONView(parsing: Array(text.utf8)), node: node, refusal: { _ in nil })
    }

    private func errors(_ body: () throws -> Void) throws -> [String] {
        do {
            try body()
            return []
        } catch let error as InvalidFields {
            return error.errors.map { "\($0.pointer) \($0.code)" }
        }
    }

    @Test("the authorities of a job's webhook are secret, and the pins are shown; both are kept")
    func ofJob() throws {
        let request = try job(#""tls":{"ca":"PEM hush","pins":["\#(Self.pin)"]}"#)
        #expect(request.secrets.webhookTLS == WebhookTLS(authorities: "PEM hush", pins: [Self.pin]))
        #expect(!request.secrets.isEmpty)
        #expect(try JobSecrets(json: request.secrets.encode()) == request.secrets)
        let shown = try JSON.parse(request.spec.encode())["webhook"]?["tls"]
        #expect(shown == .object([.init("ca", Self.set), .init("pins", .array([.string(Self.pin)]))]))
        let stored = request.spec.encodeStored(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(try JobSpec(storedJSON: stored) == request.spec)
    }

    @Test(
        "empty settings are the default: the system's authorities, and no secret", arguments: ["{}", "null"])
    func standard(tls: String) throws {
        let request = try job(#""tls":\#(tls)"#)
        #expect(request.spec.webhook?.tls == nil && request.secrets.isEmpty)
    }

    @Test(
        "unreadable authorities, malformed pins, other fields and http receivers are rejected",
        arguments: [
            (#"{"ca":"x"}"#, "https", ["/ca invalid_value"]), (#"{"ca":""}"#, "https", ["/ca invalid_value"]),
            (#"{"pins":["sha256//x"]}"#, "https", ["/pins/0 invalid_value"]),
            (#"{"client_key":"PEM"}"#, "https", ["/client_key unknown_field"]),
            (#"{"ca":"PEM"}"#, "http", [" invalid_combination"]),
            ("{}", "http", [" invalid_combination"]),
        ])
    func rejected(tls: String, scheme: String, expected: [String]) throws {
        let url = "\(scheme)://b.example/"
        let ofJob = try errors { _ = try job(#""tls":\#(tls)"#, url: url) }
        #expect(ofJob == expected.map { "#/webhook/tls\($0)" })
        let body = try JSONView(parsing: Array(#"{"url":"\#(url)","tls":\#(tls)}"#.utf8))
        let ofEndpoint = try errors { _ = try WebhookEndpoint(body: body, FieldContext(node: node)) }
        #expect(ofEndpoint == expected.map { "#/tls\($0)" })
    }

    @Test("the stored form of an endpoint's settings gives the authorities only with the key")
    func stored() throws {
        let tls = WebhookTLS(authorities: "PEM hush", pins: [Self.pin])
        let stored = tls.stored(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        let shown = try WebhookTLS(storedJSON: stored)
        #expect(shown.authorities.isSet && shown.authorities.text == nil && shown.pins == [Self.pin])
        #expect(try WebhookTLS(storedJSON: stored, opening: .inverted) == tls)
        let unable = SecretSeal(seal: { $0 }, open: { _ in nil })
        #expect(throws: StoredJSONError.self) { try WebhookTLS(storedJSON: stored, opening: unable) }
        let pins = WebhookTLS(authorities: nil, pins: [Self.pin])
        #expect(try WebhookTLS(storedJSON: pins.stored(unable), opening: unable) == pins)
    }

    // MARK: Merge patches

    private func record(_ tls: WebhookTLS?, headers: [JobSpec.Pair] = []) -> WebhookRecord {
        var endpoint = WebhookEndpoint(url: "https://b.example/")
        endpoint.headers = headers
        endpoint.tls = tls
        let (fields, settings) = (endpoint.takeHeaders(), endpoint.takeTLS())
        return WebhookRecord(
            id: WebhookID(high: 1, low: 1), tenant: "t", createdAt: Timestamp(microseconds: 0),
            updatedAt: Timestamp(microseconds: 0), endpoint: endpoint, publicKey: "", sealedKeys: [],
            sealedHeaders: WebhookHeaders.stored(fields, .inverted), sealedTLS: settings?.stored(.inverted))
    }

    private func merge(
        _ patch: String, into record: inout WebhookRecord, _ seal: SecretSeal = .inverted
    ) throws {
        try record.merge(JSONView(parsing: Array(patch.utf8)), seal, node: node, refusal: { _ in nil })
    }

    private func settings(_ record: WebhookRecord) throws -> WebhookTLS? {
        try record.sealedTLS.map { try WebhookTLS(storedJSON: $0, opening: .inverted) }
    }

    @Test("a patch keeps the authorities that it does not name, and null removes them or all settings")
    func merged() throws {
        var record = record(WebhookTLS(authorities: "PEM 1", pins: [Self.pin]))
        try merge(#"{"description":"d"}"#, into: &record)
        #expect(try settings(record) == WebhookTLS(authorities: "PEM 1", pins: [Self.pin]))
        try merge(#"{"tls":{"pins":["\#(Self.other)"]}}"#, into: &record)
        #expect(try settings(record) == WebhookTLS(authorities: "PEM 1", pins: [Self.other]))
        #expect(record.endpoint.tls?.authorities.isSet == true && record.endpoint.tls?.pins == [Self.other])
        try merge(#"{"tls":{"ca":"PEM 2"}}"#, into: &record)
        #expect(try settings(record) == WebhookTLS(authorities: "PEM 2", pins: [Self.other]))
        try merge(#"{"tls":{"ca":null}}"#, into: &record)
        #expect(try settings(record) == WebhookTLS(authorities: nil, pins: [Self.other]))
        try merge(#"{"tls":{"pins":[]}}"#, into: &record)
        #expect(record.sealedTLS == nil && record.endpoint.tls == nil)
        record = self.record(WebhookTLS(authorities: "PEM 1", pins: []))
        try merge(#"{"tls":null,"url":"http://b.example/"}"#, into: &record)
        #expect(record.sealedTLS == nil && record.endpoint.tls == nil)
    }

    @Test("a patch cannot give header fields to other authorities, nor settings to an http receiver")
    func refused() throws {
        let tls = WebhookTLS(authorities: "PEM 1", pins: [])
        var record = record(tls, headers: [.init("Authorization", "hush")])
        let before = record
        #expect(
            try errors { try merge(#"{"tls":{"ca":"PEM 2"}}"#, into: &record) }
                == ["#/tls/ca invalid_combination"])
        #expect(
            try errors { try merge(#"{"url":"http://b.example/","headers":null}"#, into: &record) }
                == ["#/url invalid_combination"])
        record = before
        try merge(#"{"tls":{"ca":"PEM 2"},"headers":{"Authorization":"new"}}"#, into: &record)
        #expect(try settings(record)?.authorities.text == "PEM 2")
    }

    @Test("authorities that cannot be decrypted are not lost: a change of the settings must give them again")
    func unreadable() throws {
        var record = record(WebhookTLS(authorities: "PEM 1", pins: []))
        let unable = SecretSeal(seal: { $0 }, open: { _ in nil })
        let patch = #"{"tls":{"pins":["\#(Self.pin)"]}}"#
        #expect(try errors { try merge(patch, into: &record, unable) } == ["#/tls/ca required"])
        record = self.record(WebhookTLS(authorities: "PEM 1", pins: []))
        try merge(#"{"tls":{"ca":null,"pins":["\#(Self.pin)"]}}"#, into: &record, unable)
        #expect(record.endpoint.tls == WebhookTLS(authorities: nil, pins: [Self.pin]))
    }
}
