// Header fields of requests and responses: every line in order, and a map with the combined values.

/// Declares the two forms of header fields: `headers`, a map with one value for each name, and
/// `header_fields`, a list of all lines. A body gives one of them, or the same fields in both, as responses
/// show them. `hidesValues`: no response shows a value.
func headerFields(
    _ visitor: inout some FieldVisitor, _ lines: inout [JobSpec.Pair], hidesValues: Bool = false,
    _ traits: FieldTraits, _ text: String
) {
    let hidden = hidesValues ? HiddenValues.all : .credentials
    var map = HeaderMap(lines, hidden)
    visitor.field("headers", &map, traits, text)
    var list = HeaderLines(map.lines, hidden)
    visitor.field(
        "header_fields", &list, traits,
        "Every line of the header section in order, for names that occur more than once. A request gives "
            + "either this or headers, or the same fields in both. The rules are those of headers.")
    lines = list.lines
}

/// The values of header fields that no reader sees.
enum HiddenValues {
    case none
    /// Of fields that `HeaderRules` calls secret.
    case credentials
    case all
}

extension [JobSpec.Pair] {
    /// `true` if a name occurs more than once, ignoring case.
    var hasRepeatedNames: Bool {
        // Short sections are compared pair by pair, without copies of the names.
        guard count > 32 else {
            return indices.contains { index in
                self[..<index].contains { HeaderRules.isSame($0.name, self[index].name) }
            }
        }
        var names: Set<String> = []
        return !allSatisfy { names.insert($0.name.lowercased()).inserted }
    }

    /// Returns one field for each name: values of the same name are combined in order with a comma (RFC 9110
    /// §5.3). `Set-Cookie` is left out, because its values cannot be combined.
    var combined: [JobSpec.Pair] {
        guard !isMap else { return self }
        var fields: [JobSpec.Pair] = []
        fields.reserveCapacity(count)
        var places: [String: Int] = Dictionary(minimumCapacity: count)
        for line in self {
            let key = line.name.lowercased()
            if key == "set-cookie" { continue }
            if let place = places[key] {
                fields[place].value += ", " + line.value
            } else {
                places[key] = fields.count
                fields.append(line)
            }
        }
        return fields
    }

    /// `true` if the combined fields are all lines.
    fileprivate var isMap: Bool {
        !hasRepeatedNames && !contains { HeaderRules.isSame($0.name, "set-cookie") }
    }

    /// Returns `true` if the combined fields are these, in any order and case.
    fileprivate func areCombined(to fields: [JobSpec.Pair]) -> Bool {
        let values = { (fields: [JobSpec.Pair]) in
            Dictionary(fields.map { ($0.name.lowercased(), $0.value) }) { $1 }
        }
        return values(combined) == values(fields)
    }

    /// Removes the secret values of header fields and returns these fields with them.
    mutating func takeSecrets() -> [JobSpec.Pair] {
        var secrets: [JobSpec.Pair] = []
        for index in indices where HeaderRules.isSecret(self[index].name) {
            secrets.append(self[index])
            self[index].value = ""
        }
        return secrets
    }

    /// Returns these lines with the values that `known` has for them: the first line of a name gets the first
    /// value of that name, and so on. Lines without a known value are unchanged.
    func filled(from known: [JobSpec.Pair]) -> [JobSpec.Pair] {
        var rest = known
        return map { line in
            let index = rest.firstIndex { $0.name.lowercased() == line.name.lowercased() }
            return index.map { rest.remove(at: $0) } ?? line
        }
    }
}

extension JSON {
    /// Creates the list of lines, with all values.
    init(headerLines lines: [JobSpec.Pair]) {
        self = .array(
            lines.map { .object([Member("name", .string($0.name)), Member("value", .string($0.value))]) })
    }
}

extension JSONWriter {
    /// Writes header fields as a map. `isRedacted`: as in `FieldValue.encode`.
    mutating func headerMap(
        _ fields: [JobSpec.Pair], _ hidden: HiddenValues = .credentials, isRedacted: Bool
    ) {
        beginObject()
        for field in fields {
            name(field.name)
            value(of: field, hidden, isRedacted: isRedacted)
        }
        endObject()
    }

    /// Like `headerMap`, for the list of lines.
    mutating func headerLines(
        _ lines: [JobSpec.Pair], _ hidden: HiddenValues = .credentials, isRedacted: Bool
    ) {
        beginArray()
        for line in lines {
            beginObject()
            member("name", line.name)
            name("value")
            value(of: line, hidden, isRedacted: isRedacted)
            endObject()
        }
        endArray()
    }

    /// Writes the value of a header field, or `{"set": true}` in its place.
    private mutating func value(of line: JobSpec.Pair, _ hidden: HiddenValues, isRedacted: Bool) {
        let isHidden =
            switch hidden {
            case .none: false
            case .credentials: HeaderRules.isSecret(line.name)
            case .all: true
            }
        if isHidden || isRedacted && !NonSecretFields.contains(line.name) {
            raw(setMark)
        } else {
            value(line.value)
        }
    }
}

/// The rules of a header section that a client gives.
private struct HeaderSection {
    private(set) var lines: [JobSpec.Pair]
    private var byteCount: Int

    init(_ lines: [JobSpec.Pair]) {
        self.lines = lines
        byteCount = lines.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    }

    /// Adds a line and reports what is wrong with it, at `place`.
    mutating func append(_ name: String, _ value: String, _ place: FieldPlace) {
        byteCount += name.utf8.count + value.utf8.count
        if !HeaderRules.isName(name) {
            place.add("invalid_value", "This is not the name of a header field.")
        } else if HeaderRules.isHost(name) {
            if let reason = HeaderRules.refusal(ofHost: value, mayNameHost: place.context.mayNameHost) {
                place.add("invalid_value", reason)
            } else if lines.contains(where: { HeaderRules.isHost($0.name) }) {
                place.add("duplicate", "A request has one Host.")
            }
        } else if HeaderRules.isForbidden(name) {
            place.add("invalid_value", "This header field is set by the service itself.")
        } else if !HeaderRules.isValue(value) {
            place.add("invalid_value", "A header's value has no control characters.")
        }
        lines.append(JobSpec.Pair(name, value))
    }

    /// Reports a section that is too long, at `place`.
    func finish(_ place: FieldPlace) {
        guard byteCount > Limits.headerByteCountMax else { return }
        place.add("too_long", "All together may have \(Limits.headerByteCountMax) bytes.")
    }
}

/// Header fields as a map. While a body is read, secret values are among them; `takeSecrets` moves them out.
struct HeaderMap: FieldValue {
    let lines: [JobSpec.Pair]
    private let hidden: HiddenValues
    /// `true` if the stored form has the list, or `nil` if the names decide.
    private let isList: Bool?

    init(_ lines: [JobSpec.Pair], _ hidden: HiddenValues = .credentials, isList: Bool? = nil) {
        self.lines = lines
        self.hidden = hidden
        self.isList = isList
    }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> HeaderMap? {
        guard let members = json.members else { return place.failType("an object", json) }
        guard members.count <= Limits.headerCountMax else {
            return place.fail(
                "too_many",
                "At most \(Limits.headerCountMax) entries are allowed, these are \(members.count).")
        }
        return HeaderMap([]).adding(members, place)
    }

    /// Merges by case-insensitive name; null removes a field.
    func merging(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> HeaderMap? {
        guard let members = json.members else { return place.failType("an object", json) }
        let names = Set(members.map { $0.name.lowercased() })
        let kept = HeaderMap(lines.filter { !names.contains($0.name.lowercased()) })
        return kept.adding(members.filter { !$0.value.isNull }, place)
    }

    private func adding(_ members: [JSONView.Member], _ place: FieldPlace) -> HeaderMap {
        var section = HeaderSection(lines)
        var names: Set<String> = []
        for member in members {
            let item = place.item(member.name)
            guard let value = member.value.string else {
                place.context.errors.addWrongType(item.pointer, "a string", member.value)
                continue
            }
            section.append(member.name, value, item)
            if !names.insert(member.name.lowercased()).inserted {
                item.add("duplicate", "This header field occurs twice; use header_fields.")
            }
        }
        section.finish(place)
        place.context.headerMap = (place.path, section.lines)
        return HeaderMap(section.lines)
    }

    static func restore(_ json: JSON) -> HeaderMap? {
        // Values that are encrypted elsewhere read as empty.
        json.members.map { HeaderMap($0.map { JobSpec.Pair($0.name, $0.value.string ?? "") }) }
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.headerMap(isList == false ? lines : lines.combined, hidden, isRedacted: isRedacted)
    }
    /// The stored form has one of the two forms: by default the list only if names are repeated.
    var isLeftOut: Bool { lines.isEmpty || isList ?? lines.hasRepeatedNames }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        let reference = JSON.object([JSON.Member("$ref", "#/components/schemas/ShownFieldValue")])
        return [JSON.Member("type", "object"), JSON.Member("additionalProperties", reference)]
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "object"), JSON.Member("maxProperties", JSON(Limits.headerCountMax)),
            JSON.Member("propertyNames", .object(HeaderLine.namePattern)),
            JSON.Member(
                "additionalProperties", .object([JSON.Member("type", "string")] + HeaderLine.valuePattern)),
        ]
    }
}

/// Header fields as a list of lines.
struct HeaderLines: FieldValue {
    let lines: [JobSpec.Pair]
    private let hidden: HiddenValues
    /// `true` if the stored form has the list, or `nil` if the names decide.
    private let isList: Bool?

    init(_ lines: [JobSpec.Pair], _ hidden: HiddenValues = .credentials, isList: Bool? = nil) {
        self.lines = lines
        self.hidden = hidden
        self.isList = isList
    }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> HeaderLines? {
        guard let values = json.array else { return place.failType("an array", json) }
        guard values.count <= Limits.headerCountMax else {
            return place.fail(
                "too_many",
                "At most \(Limits.headerCountMax) entries are allowed, these are \(values.count).")
        }
        var section = HeaderSection([])
        for (index, value) in values.enumerated() {
            let item = place.item("\(index)")
            guard let line = HeaderLine.decode(value, NoRule(), item) else { continue }
            section.append(line.name, line.value, item)
        }
        section.finish(place)
        if let map = place.context.headerMap, map.path == place.path,
            !section.lines.areCombined(to: map.lines)
        {
            return place.fail(
                "invalid_combination", "Give either this or headers, or the same fields in both.")
        }
        return HeaderLines(section.lines)
    }
    static func restore(_ json: JSON) -> HeaderLines? {
        json.array.map { lines in
            HeaderLines(
                lines.map { JobSpec.Pair($0["name"]?.string ?? "", $0["value"]?.string ?? "") })
        }
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.headerLines(lines, hidden, isRedacted: isRedacted)
    }
    var isLeftOut: Bool { !(isList ?? lines.hasRepeatedNames) }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "array"),
            JSON.Member("items", .object([JSON.Member("$ref", "#/components/schemas/ShownHeaderField")])),
        ]
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "array"), JSON.Member("maxItems", JSON(Limits.headerCountMax)),
            JSON.Member("items", .object([JSON.Member("$ref", "#/components/schemas/HeaderField")])),
        ]
    }
}

/// One line of a header section.
public struct HeaderLine: FieldObject, FieldValue {
    public static let summary = "One line of a header section."
    public static let schemaName = "HeaderField"

    fileprivate var name = ""
    fileprivate var value = ""

    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("name", &name, .headerName, .of(required: true), "Name; case is ignored.")
        visitor.field("value", &value, .headerValue, .of(required: true), "Value.")
    }

    fileprivate static let namePattern = [JSON.Member("pattern", "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
    fileprivate static let valuePattern = [
        JSON.Member("pattern", #"^[^\u0000-\u0008\u000a-\u001f\u007f]*$"#)
    ]
}

extension TextRule {
    // `HeaderSection` checks names and values.
    fileprivate static let headerName = TextRule(
        0...Int.max, pattern: HeaderLine.namePattern[0].value.string
    ) { _ in nil }
    fileprivate static let headerValue = TextRule(
        0...Int.max, pattern: HeaderLine.valuePattern[0].value.string
    ) { _ in nil }
}

/// Declares the header fields of a response in the two forms of `headerFields`. The stored form has the list
/// if the map does not have every line.
func responseHeaderFields(_ visitor: inout some FieldVisitor, _ lines: inout [JobSpec.Pair]) {
    let isList = !lines.isMap
    var map = HeaderMap(lines, .none, isList: isList)
    visitor.field(
        "headers", &map, .plain,
        "Header fields by name; values of the same name are combined with a comma (RFC 9110 §5.3). "
            + "Set-Cookie is only in header_fields. Clients and admins see all values. Viewers, events and "
            + "webhooks see the values of fields that carry no credentials.")
    var list = HeaderLines(map.lines, .none, isList: isList)
    visitor.field("header_fields", &list, .plain, "Every line of the header section in order.")
    lines = list.lines
}

extension [JSON.Member] {
    /// Adds the header fields of a response that may be secret, in the form that is stored.
    mutating func append(responseFields fields: [JobSpec.Pair]) {
        let secret = fields.filter { !NonSecretFields.contains($0.name) }
        guard !secret.isEmpty else { return }
        if fields.isMap {
            append(JSON.Member("headers", .object(secret.map { JSON.Member($0.name, .string($0.value)) })))
        } else {
            append(JSON.Member("header_fields", JSON(headerLines: fields)))
        }
    }
}

/// Writes the member that has header fields in a stored object: `headers`, or `header_fields` if names are
/// repeated.
func storeHeaderFields(_ lines: [JobSpec.Pair], into writer: inout JSONWriter, isRedacted: Bool) {
    if lines.hasRepeatedNames {
        writer.name("header_fields")
        writer.headerLines(lines, isRedacted: isRedacted)
    } else {
        writer.name("headers")
        writer.headerMap(lines, isRedacted: isRedacted)
    }
}

/// Lines of a header section as responses show them; values that may be secret are hidden from all readers.
struct ShownHeaderLines: ShownValue {
    private let lines: [JobSpec.Pair]

    init(_ lines: [JobSpec.Pair]) { self.lines = lines }

    func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.headerLines(lines, isRedacted: true)
    }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { HeaderLines.shownSchema(NoRule()) }
}

extension StoredObject {
    /// Returns the header fields that `storeHeaderFields` wrote.
    var headerFields: [JobSpec.Pair] {
        json["header_fields"].flatMap(HeaderLines.restore)?.lines ?? pairs("headers")
    }
}

extension StoredObject {
    /// Returns members whose values are strings; others (`{"set": true}`) read as empty.
    func pairs(_ name: String) -> [JobSpec.Pair] {
        (json[name]?.members ?? []).map { JobSpec.Pair($0.name, $0.value.string ?? "") }
    }
}
