// Values of a request: URLs and secrets; and pairs of names and values.

/// A URL of a request, a mirror or a receiver: `http` or `https`, and not refused by the egress policy.
struct URLText: FieldValue {
    /// The URL, normalised.
    let text: String

    init(_ text: String) { self.text = text }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> URLText? {
        accepted(json, place).map { URLText($0.string) }
    }

    /// Returns the URL, or `nil` after an error has been reported.
    static func accepted(_ json: JSONView, _ place: FieldPlace) -> WebURL? {
        guard let url = parsed(json, place) else { return nil }
        if let reason = place.context.refusal(url.endpoint) {
            return place.fail("blocked_address", reason)
        }
        return url
    }

    /// Returns the URL, whatever the egress policy says about it; `nil` after an error has been reported.
    static func parsed(_ json: JSONView, _ place: FieldPlace) -> WebURL? {
        guard let text = json.string else { return place.failType("a string", json) }
        do throws(WebURL.Failure) {
            return try WebURL.parse(text)
        } catch {
            guard error == .controlCharacter, let corrected = WebURL.parseIgnoringControls(text) else {
                return place.fail("invalid_value", error.message)
            }
            return place.fail("invalid_value", "\(error.message) Without them it is \(corrected).")
        }
    }
    static func restore(_ json: JSON) -> URLText? { json.string.map(URLText.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.value(isRedacted ? RedactedURL.text(of: text) : text)
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/ShownURL")]
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "string"), JSON.Member("format", "uri"),
            JSON.Member("maxLength", JSON(Limits.urlByteCountMax)),
            JSON.Member(
                "pattern", #"^ *[hH][tT][tT][pP][sS]?://[^@\s/?#]{1,253}([/?#][^\x00-\x1F\x7F]*)? *$"#),
        ]
    }
}

/// The URL of a job's own request, parsed once. The text of a schedule's template has placeholders.
struct RequestURL: FieldValue {
    /// The URL, normalised, or with placeholders.
    let text: String
    /// `text`, parsed; `WebURL.unknown` if the request has no URL yet.
    let url: WebURL

    /// Creates the URL of a request that has none yet.
    init() { (text, url) = ("", .unknown) }

    init(_ url: WebURL) { (text, self.url) = (url.string, url) }

    /// Reads the text of an accepted URL. Redaction and placeholders may have made it longer than a URL of a
    /// request may be.
    init(_ text: String) throws(WebURL.Failure) {
        self.text = text
        url = try WebURL.parse(text, byteCountMax: .max)
    }

    static func == (left: Self, right: Self) -> Bool { left.text == right.text }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> RequestURL? {
        guard let url = URLText.accepted(json, place) else { return nil }
        place.context.requestURL = url
        return RequestURL(url)
    }
    /// A stored text that is no URL is damaged.
    static func restore(_ json: JSON) -> RequestURL? { json.string.flatMap { try? RequestURL($0) } }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        URLText(text).encode(into: &writer, isRedacted: isRedacted)
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] { URLText.shownSchema(rule) }
    static func schema(_ rule: NoRule) -> [JSON.Member] { URLText.schema(rule) }
}

/// Pairs of names and values that a client chooses, in its order; names are unique.
struct Metadata: FieldValue {
    var pairs: [JobSpec.Pair]

    init(_ pairs: [JobSpec.Pair] = []) { self.pairs = pairs }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Metadata? {
        guard let members = json.members else { return place.failType("an object", json) }
        guard members.count <= Limits.metadataCountMax else {
            return place.fail(
                "too_many",
                "At most \(Limits.metadataCountMax) entries are allowed, these are "
                    + "\(members.count).")
        }
        var pairs: [JobSpec.Pair] = []
        for member in members {
            if let pair = pair(member.name, member.value, place.item(member.name)) { pairs.append(pair) }
        }
        return Metadata(pairs)
    }

    /// Returns an entry, or `nil` after its errors have been reported at `place`.
    static func pair(_ name: String, _ value: JSONView, _ place: FieldPlace) -> JobSpec.Pair? {
        let isName =
            (1...Limits.metadataNameByteCountMax).contains(name.utf8.count) && !name.utf8.contains(0)
        if !isName {
            place.add(
                "invalid_value", "A name has 1 to \(Limits.metadataNameByteCountMax) bytes and no U+0000.")
        }
        let rule = TextRule(0...Limits.metadataValueByteCountMax)
        guard let text = String.decode(value, rule, place), isName else { return nil }
        return JobSpec.Pair(name, text)
    }

    func merging(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Metadata? {
        var writer = JSONWriter()
        encode(into: &writer, isRedacted: false)
        do throws(JSON.SyntaxError) {
            let current = try JSON.parse(writer.bytes)
            return Self.decode(try JSONView(current.merged(with: json.json)), rule, place)
        } catch {
            return place.fail("invalid_value", "This is no valid JSON: \(error.reason).")
        }
    }

    static func restore(_ json: JSON) -> Metadata? {
        json.members.map { Metadata($0.map { JobSpec.Pair($0.name, $0.value.string ?? "") }) }
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        for pair in pairs { writer.member(pair.name, pair.value) }
        writer.endObject()
    }
    var isLeftOut: Bool { pairs.isEmpty }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "object"),
            JSON.Member("additionalProperties", .object([JSON.Member("type", "string")])),
        ]
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        let text = { (least: Int, most: Int) in
            String.schema(TextRule(least...most))
        }
        return [
            JSON.Member("type", "object"), JSON.Member("maxProperties", JSON(Limits.metadataCountMax)),
            JSON.Member(
                "propertyNames", .object(Array(text(1, Limits.metadataNameByteCountMax).dropFirst()))),
            JSON.Member("additionalProperties", .object(text(0, Limits.metadataValueByteCountMax))),
        ]
    }
}

/// Declares the field `metadata`.
func metadataField(
    _ visitor: inout some FieldVisitor, _ pairs: inout [JobSpec.Pair], _ traits: FieldTraits
) {
    var metadata = Metadata(pairs)
    visitor.field(
        "metadata", &metadata, traits,
        "Name-value pairs of the client: names of at most 128 bytes, values of at most 2,048.")
    pairs = metadata.pairs
}

/// A secret value: its text while a body is read; later only that there is one. Shown and stored as
/// `{"set": true}`; the text is stored in `JobSecrets`.
public struct Secret: FieldValue {
    /// `true` if there is a value.
    public var isSet = false
    /// The value, until `take` moves it to the secrets.
    public var text: String?

    /// Creates a secret without value.
    public init() {}

    /// Returns the text and forgets it.
    mutating func take() -> String? {
        defer { text = nil }
        return text
    }

    public static var isNullable: Bool { true }
    public var isLeftOut: Bool { !isSet }
    public static func decode(_ json: JSONView, _ rule: TextRule, _ place: FieldPlace) -> Secret? {
        var secret = Secret()
        guard !json.isNull else { return secret }
        secret.text = String.decode(json, rule, place)
        secret.isSet = secret.text != nil
        return secret
    }
    public static func restore(_ json: JSON) -> Secret? {
        var secret = Secret()
        secret.isSet = json.members != nil
        return secret
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        if isSet { writer.raw(setMark) } else { writer.null() }
    }
    public static func schema(_ rule: TextRule) -> [JSON.Member] { String.schema(rule) }
    public static func shownSchema(_ rule: TextRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/Hidden")]
    }
}

/// Resume data of another job. It is no field of the job: decoding it sets `FieldContext.resumePoint`.
struct ResumeText: FieldValue {
    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> ResumeText? {
        let lengths = TextRule(1...Limits.resumeDataByteCountMax, pattern: nil) { _ in nil }
        guard let text = String.decode(json, lengths, place) else { return nil }
        let kind = place.context.kind ?? .download
        guard kind == .upload || kind == .download && place.context.requestMethod ?? "GET" == "GET" else {
            return place.fail("invalid_combination", "Only a download with GET resumes.")
        }
        guard place.context.openResumeData(text) else {
            return place.fail("invalid_value", "This is no resume data of this service.")
        }
        return ResumeText()
    }
    static func restore(_ json: JSON) -> ResumeText? { nil }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.null() }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        String.schema(TextRule(1...Limits.resumeDataByteCountMax, pattern: nil))
    }
}

extension URLText: ShownValue {}

/// A URL that is shown as it is.
struct ShownURL: ShownValue {
    let text: String

    func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(text) }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { URLText.shownSchema(in: schemas) }
}
