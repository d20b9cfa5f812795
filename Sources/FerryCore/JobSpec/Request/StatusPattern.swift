/// A status code, as a number or three digits, or a class of them such as `5xx`. Shown as it was given.
public struct StatusPattern: FieldValue {
    /// Three digits, or a digit and `xx`.
    public let text: String
    /// `true` if the client has given a number.
    private let isNumber: Bool

    /// Creates a pattern; `text` must be one.
    public init(_ text: String) { (self.text, isNumber) = (text, false) }

    private init(status: Int64) { (text, isNumber) = ("\(status)", true) }

    /// Returns `true` if the pattern is this status or its class.
    public func matches(_ status: Int) -> Bool {
        text == "\(status)" || text.hasSuffix("xx") && text.hasPrefix("\(status / 100)")
    }

    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        if let text = json.string {
            if isPattern(text) { return Self(text) }
        } else if let number = json.double {
            if let status = Int64(exactly: number), statuses.contains(status) { return Self(status: status) }
        } else {
            return place.failType("a number or a string", json)
        }
        return place.fail(
            "invalid_value",
            "This must be a status code such as 404 or \"404\", or a class such as \"2xx\".")
    }

    private static let statuses: ClosedRange<Int64> = 100...599

    private static func isPattern(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 3, (49...53).contains(bytes[0]) else { return false }
        return bytes[1...].allSatisfy { $0 == UInt8(ascii: "x") }
            || bytes[1...].allSatisfy { (48...57).contains($0) }
    }

    public static func restore(_ json: JSON) -> Self? {
        json.string.map { Self($0) } ?? json.integer.map { Self(status: $0) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        if isNumber, let status = Int64(text) { writer.value(status) } else { writer.value(text) }
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        let number: JSON = .object([
            JSON.Member("type", "integer"), JSON.Member("minimum", .integer(statuses.lowerBound)),
            JSON.Member("maximum", .integer(statuses.upperBound)),
        ])
        let text: JSON = .object([
            JSON.Member("type", "string"), .pattern("^[1-5](xx|[0-9][0-9])$"),
        ])
        return [JSON.Member("oneOf", .array([number, text]))]
    }
    public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        let types: [JSON] = ["integer", "string"].map { .object([JSON.Member("type", $0)]) }
        return [JSON.Member("oneOf", .array(types))]
    }
}

extension StatusPattern: ExpressibleByStringInterpolation {
    public init(stringLiteral text: String) { self.init(text) }
}
