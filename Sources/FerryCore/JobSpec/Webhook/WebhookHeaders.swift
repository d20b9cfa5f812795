/// Header fields that a webhook adds to its deliveries. All their values are secret: they are stored
/// encrypted and never shown.
public enum WebhookHeaders {
    /// Fields of a delivery that Ferry sets, besides those of `HeaderRules.isForbidden` and `webhook-…`.
    private static let ownFields: Set<String> = [
        "content-type", "content-encoding", "user-agent", "traceparent", "tracestate",
    ]

    /// Declares `headers` and `header_fields`.
    static func declare(_ visitor: inout some FieldVisitor, _ lines: inout [JobSpec.Pair]) {
        headerFields(
            &visitor, &lines, hidesValues: true, .plain,
            "Header fields that deliveries have besides those of Ferry. All values are encrypted and shown "
                + "as {\"set\": true}. Not: webhook-…, Content-Type, Content-Encoding, User-Agent, "
                + "traceparent, tracestate, nor the fields that a job may not set. At most 16 KiB.")
    }

    /// Reports fields that Ferry sets.
    static func check(_ lines: [JobSpec.Pair], _ body: FieldDecoder) {
        for (index, line) in lines.enumerated() {
            let name = line.name.lowercased()
            guard name.hasPrefix("webhook-") || ownFields.contains(name) else { continue }
            let place =
                body.isGiven("header_fields")
                ? "header_fields/\(index)/name" : "headers/\(pointerStep(line.name))"
            body.fail(place, "invalid_value", "Ferry sets this header field of deliveries itself.")
        }
    }

    /// Removes the values and returns the fields with them.
    static func takeValues(_ lines: inout [JobSpec.Pair]) -> [JobSpec.Pair] {
        let whole = lines
        for index in lines.indices { lines[index].value = "" }
        return whole
    }

    /// Returns the stored form of the fields of an endpoint (`SealedDocument`), or `nil` if there are none.
    public static func stored(_ lines: [JobSpec.Pair], _ seal: SecretSeal) -> [UInt8]? {
        guard !lines.isEmpty else { return nil }
        var names = lines
        _ = takeValues(&names)
        var shown = JSONWriter()
        shown.beginObject()
        shown.name("header_fields")
        shown.headerLines(names, .all, isRedacted: true)
        shown.endObject()
        let patch = JSON.object([JSON.Member("header_fields", JSON(headerLines: lines))])
        return SealedDocument.make(shown.bytes, secrets: patch, seal)
    }

    /// Returns the fields of a stored form with empty values.
    public static func names(of stored: [UInt8]) -> [JobSpec.Pair] {
        // Fields that are damaged are not shown; their deliveries fail.
        (try? StoredObject(stored))?.headerFields ?? []
    }

    /// Returns the fields of a stored form with their values, or `nil` if these cannot be decrypted.
    public static func opened(_ stored: [UInt8], _ seal: SecretSeal) -> [JobSpec.Pair]? {
        // The only errors: damage, or encryption with another key.
        (try? StoredObject(stored, opening: seal))?.headerFields
    }
}
