/// Rule of a unique job: while another job of the tenant has its key, the submission creates none.
public struct UniqueRule: FieldObject {
    public static let summary =
        "While a job of the tenant has this key, a submission returns that job and creates none."
    public static let schemaName = "UniqueRule"

    /// Time for which a job has its key.
    public enum Term: Sendable, Equatable {
        /// Until the job ends.
        case unfinished
        /// Also for these seconds after it has succeeded.
        case seconds(Double)
    }

    /// The key.
    public var key = ""
    /// Time for which a job that was submitted before has the key. Each submission decides for itself.
    public var term = Term.unfinished

    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "key", &key, .uniqueKey, .of(.never, required: true),
            "Key of the job: 1 to 255 bytes of UTF-8 without U+0000.")
        visitor.field(
            "for", &term, .of(.never),
            "Time for which an earlier job has the key. unfinished: until it ends. A number of seconds: also "
                + "for this time after it has succeeded. A failed, cancelled or deleted job has no key.")
    }
}

extension TextRule {
    fileprivate static let uniqueKey = TextRule(1...Limits.uniqueKeyByteCountMax)
}

extension UniqueRule.Term: FieldValue {
    private static let word = "unfinished"

    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        if json.string == word { return .unfinished }
        guard let seconds = json.double, (1...Limits.uniqueSecondsMax).contains(seconds) else {
            let most = Int(Limits.uniqueSecondsMax)
            return place.fail("invalid_value", "This must be \"\(word)\" or 1 to \(most) seconds.")
        }
        return .seconds(seconds)
    }
    public static func restore(_ json: JSON) -> Self? {
        json.string == word ? .unfinished : json.double.map(Self.seconds)
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        switch self {
        case .unfinished: writer.value(Self.word)
        case .seconds(let seconds): writer.value(seconds)
        }
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        let number: JSON = .object([
            JSON.Member("type", "number"), JSON.Member("minimum", .integer(1)),
            JSON.Member("maximum", .integer(Int64(Limits.uniqueSecondsMax))),
        ])
        let text: JSON = .object([
            JSON.Member("type", "string"), JSON.Member("enum", .array([.string(word)])),
        ])
        return [JSON.Member("oneOf", .array([text, number]))]
    }
    public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        let types: [JSON] = ["string", "number"].map { .object([JSON.Member("type", $0)]) }
        return [JSON.Member("oneOf", .array(types))]
    }
}

extension JobSpec {
    /// Rule of a unique job, or `nil`. Boxed, because few jobs have one.
    public var unique: UniqueRule? {
        get { boxedUnique?.value }
        set { boxedUnique = newValue.map(Boxed.init) }
    }

    /// `true` if the job is unique. Copies nothing.
    public var isUnique: Bool { boxedUnique != nil }
}
