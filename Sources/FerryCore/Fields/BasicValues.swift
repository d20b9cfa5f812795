// Values of JSON's own types, times, enumerations, and lists of strings.

extension Optional: FieldValue where Wrapped: FieldValue {
    public typealias Rule = Wrapped.Rule
    public static var isNullable: Bool { true }
    public var isLeftOut: Bool { self == nil }

    public static func decode(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> Self? {
        json.isNull ? .some(nil) : Wrapped.decode(json, rule, place).map(Optional.some)
    }
    public static func restore(_ json: JSON) -> Self? {
        json.isNull ? .some(nil) : Wrapped.restore(json).map(Optional.some)
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        if let self { self.encode(into: &writer, isRedacted: isRedacted) } else { writer.null() }
    }
    public static func schema(_ rule: Rule) -> [JSON.Member] { Wrapped.schema(rule) }
    public static func shownSchema(_ rule: Rule) -> [JSON.Member] { Wrapped.shownSchema(rule) }
}

extension Bool: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Bool? {
        json.bool ?? place.failType("a boolean", json)
    }
    public static func restore(_ json: JSON) -> Bool? { json.bool }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] { [JSON.Member("type", "boolean")] }
}

extension Int64: FieldValue {
    public static func decode(
        _ json: JSONView, _ range: ClosedRange<Int64>, _ place: FieldPlace
    ) -> Int64? {
        var number = json.integer
        // `5.0` is an integer as well (JSON Schema 2020-12 §6.1.1).
        if number == nil, let double = json.double { number = Int64(exactly: double) }
        guard let number else {
            if let double = json.double, abs(double) >= 9.2e18 { return outOfRange(range, place) }
            return place.failType("an integer", json)
        }
        return range.contains(number) ? number : outOfRange(range, place)
    }
    private static func outOfRange(_ range: ClosedRange<Int64>, _ place: FieldPlace) -> Int64? {
        place.fail("out_of_range", "This must be from \(range.lowerBound) to \(range.upperBound).")
    }
    public static func restore(_ json: JSON) -> Int64? { json.integer }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ range: ClosedRange<Int64>) -> [JSON.Member] {
        [
            JSON.Member("type", "integer"), JSON.Member("minimum", .integer(range.lowerBound)),
            JSON.Member("maximum", .integer(range.upperBound)),
        ]
    }
}

extension Int: FieldValue {
    public static func decode(_ json: JSONView, _ range: ClosedRange<Int>, _ place: FieldPlace) -> Int? {
        Int64.decode(json, Int64(range.lowerBound)...Int64(range.upperBound), place).map(Int.init)
    }
    public static func restore(_ json: JSON) -> Int? { json.integer.map { Int(clamping: $0) } }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ range: ClosedRange<Int>) -> [JSON.Member] {
        Int64.schema(Int64(range.lowerBound)...Int64(range.upperBound))
    }
}

extension Double: FieldValue {
    public static func decode(_ json: JSONView, _ range: ClosedRange<Double>, _ place: FieldPlace) -> Double?
    {
        guard let number = json.double else { return place.failType("a number", json) }
        guard range.contains(number) else {
            let (least, most) = (decimalText(range.lowerBound), decimalText(range.upperBound))
            return place.fail("out_of_range", "This must be from \(least) to \(most).")
        }
        return number
    }
    public static func restore(_ json: JSON) -> Double? { json.double }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ range: ClosedRange<Double>) -> [JSON.Member] {
        [
            JSON.Member("type", "number"), JSON.Member("minimum", JSON(number: range.lowerBound)),
            JSON.Member("maximum", JSON(number: range.upperBound)),
        ]
    }
}

extension Timestamp: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Timestamp? {
        guard let text = json.string else { return place.failType("a string", json) }
        return Timestamp(rfc3339: text)
            ?? place.fail(
                "invalid_value", "This must be an RFC 3339 time such as 2026-11-21T22:00:00Z.")
    }
    public static func restore(_ json: JSON) -> Timestamp? { json.string.flatMap(Timestamp.init(rfc3339:)) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("format", "date-time")]
    }
}

/// Bounds of a text.
public struct TextRule: Sendable {
    /// Bytes of UTF-8.
    var byteCounts: ClosedRange<Int>
    /// Regular expression that the text matches, for OpenAPI; `nil` if every text does.
    var pattern: String?
    /// Regular expression that no allowed text matches, for OpenAPI, or `nil`. Beside `pattern`, because many
    /// generators of clients have no look-ahead.
    var exclusion: String?
    /// Returns why the text is not allowed, as a sentence, or `nil`.
    var reason: @Sendable (String) -> String?

    /// Creates a rule. By default a text has no U+0000, which PostgreSQL cannot store.
    public init(
        _ byteCounts: ClosedRange<Int>, pattern: String? = #"^[^\u0000]*$"#,
        except exclusion: String? = nil,
        reason: @escaping @Sendable (String) -> String? = {
            $0.utf8.contains(0) ? "This must not contain U+0000." : nil
        }
    ) {
        self.byteCounts = byteCounts
        self.pattern = pattern
        self.exclusion = exclusion
        self.reason = reason
    }

    /// Returns `true` if the text is allowed; reports an error at `place` if it is not.
    func check(_ text: String, _ place: FieldPlace) -> Bool {
        let count = text.utf8.count
        if count > byteCounts.upperBound {
            place.add("too_long", "At most \(byteCounts.upperBound) bytes are allowed, these are \(count).")
        } else if count < byteCounts.lowerBound {
            place.add("invalid_value", "This must not be empty.")
        } else if let reason = reason(text) {
            place.add("invalid_value", reason)
        } else {
            return true
        }
        return false
    }

    /// A text without bounds, which no client gives.
    static let any = TextRule(0...Int.max, pattern: nil) { _ in nil }
    /// A text that people have written about an object.
    public static let description = TextRule(0...Limits.descriptionByteCountMax)
}

extension String: FieldValue {
    public static func decode(_ json: JSONView, _ rule: TextRule, _ place: FieldPlace) -> String? {
        guard let text = json.string else { return place.failType("a string", json) }
        return rule.check(text, place) ? text : nil
    }
    public static func restore(_ json: JSON) -> String? { json.string }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func schema(_ rule: TextRule) -> [JSON.Member] {
        var members = [JSON.Member("type", "string")]
        if rule.byteCounts.lowerBound > 0 {
            members.append(JSON.Member("minLength", JSON(rule.byteCounts.lowerBound)))
        }
        if rule.byteCounts.upperBound < .max {
            members.append(JSON.Member("maxLength", JSON(rule.byteCounts.upperBound)))
        }
        if let pattern = rule.pattern { members.append(.pattern(pattern)) }
        if let exclusion = rule.exclusion { members.append(.exclusion(exclusion)) }
        return members
    }
}

/// An enumeration whose cases are the values of a field.
public protocol FieldChoice: FieldValue, RawRepresentable, CaseIterable
where RawValue == String, Rule == NoRule {
    /// Values of the API that this version does not support.
    static var unsupportedValues: [String] { get }
}

extension FieldChoice {
    public static var unsupportedValues: [String] { [] }

    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        if let choice = Self(rawValue: text) { return choice }
        if unsupportedValues.contains(text) {
            return place.fail(
                "not_supported", "\"\(text)\" is not supported yet by this version of Ferry.")
        }
        let values = allCases.map(\.rawValue).joined(separator: ", ")
        return place.fail("invalid_value", "This must be one of: \(values).")
    }
    public static func restore(_ json: JSON) -> Self? { json.string.flatMap(Self.init) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(rawValue) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("enum", .array(allCases.map { .string($0.rawValue) }))]
    }
}

/// Bounds of a list.
public struct ListRule<Item: Sendable>: Sendable {
    /// Number of elements.
    var counts: ClosedRange<Int>
    /// Bounds of an element.
    var item: Item
    /// `true` if each value may occur only once.
    var isUnique: Bool
    /// `true` if the schema demands an element although an empty list is read, because it is reported later.
    var documentsOne: Bool
    /// Creates a rule.
    public init(
        _ counts: ClosedRange<Int>, of item: Item, isUnique: Bool = true, documentsOne: Bool = false
    ) {
        self.counts = counts
        self.item = item
        self.isUnique = isUnique
        self.documentsOne = documentsOne
    }
}

extension Array: FieldValue where Element: FieldValue {
    /// Lists that are stored without default values are empty by default.
    public var isLeftOut: Bool { isEmpty }

    public static func decode(
        _ json: JSONView, _ rule: ListRule<Element.Rule>, _ place: FieldPlace
    ) -> [Element]? {
        guard let values = json.array else { return place.failType("an array", json) }
        guard values.count <= rule.counts.upperBound else {
            return place.fail(
                "too_many",
                "At most \(rule.counts.upperBound) entries are allowed, these are \(values.count).")
        }
        guard values.count >= rule.counts.lowerBound else {
            return place.fail("invalid_value", "Name at least one, or leave this out.")
        }
        var list: [Element] = []
        for (index, value) in values.enumerated() {
            let item = place.item("\(index)")
            guard let element = Element.decode(value, rule.item, item) else { continue }
            if rule.isUnique, list.contains(element) {
                item.add("duplicate", "This occurs twice.")
            } else {
                list.append(element)
            }
        }
        return list
    }
    public static func restore(_ json: JSON) -> [Element]? {
        guard let values = json.array else { return nil }
        let list = values.compactMap(Element.restore)
        return list.count == values.count || Element.isOpen ? list : nil
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginArray()
        for element in self { element.encode(into: &writer, isRedacted: isRedacted) }
        writer.endArray()
    }
    public static func schema(_ rule: ListRule<Element.Rule>) -> [JSON.Member] {
        var members = [
            JSON.Member("type", "array"), JSON.Member("items", .object(Element.schema(rule.item))),
            JSON.Member("maxItems", JSON(rule.counts.upperBound)),
        ]
        if rule.isUnique { members.append(JSON.Member("uniqueItems", .bool(true))) }
        let least = rule.documentsOne ? 1 : rule.counts.lowerBound
        if least > 0 { members.append(JSON.Member("minItems", JSON(least))) }
        return members
    }
    public static func shownSchema(_ rule: ListRule<Element.Rule>) -> [JSON.Member] {
        [JSON.Member("type", "array"), JSON.Member("items", .object(Element.shownSchema(rule.item)))]
    }
}

extension JSON {
    /// Creates a number; whole numbers are integers.
    init(number: Double) {
        self = Int64(exactly: number).map(JSON.integer) ?? .number(number)
    }

    /// Creates an integer.
    init(_ integer: Int) { self = .integer(Int64(integer)) }
}

extension JSON: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self = .string(text) }
}

extension JSON {
    /// Largest integer that JSON numbers carry safely (RFC 8259 §6).
    public static let safeIntegerMax: Int64 = 1 << 53 - 1
}
