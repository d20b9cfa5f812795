/// Property by which a summary counts jobs: a value of the parameter `by`, and of `$22` in list_jobs.sql.
public enum SummaryDimension: String, ShownChoice {
    case state, host, error, group
    case waitingReason = "waiting_reason"
}

/// Numbers of a tenant's jobs by one or two properties.
public struct JobSummary: ShownObject {
    public static let summary = "Numbers of jobs by one or two of their properties."
    public static let schemaName = "JobSummary"

    /// Jobs with the same values.
    public struct Row: ShownObject {
        public static let summary = "Jobs with the same values."
        public static let schemaName = "JobSummaryRow"

        /// Value of each property; `nil` for jobs that do not have it.
        public let values: [String?]
        /// Number of the jobs.
        public let count: Int64
        /// The newest of the jobs.
        public let example: JobID

        /// Creates a row.
        public init(values: [String?], count: Int64, example: JobID) {
            self.values = values
            self.count = count
            self.example = example
        }

        public static func members(_ list: inout some MemberVisitor<Self>) {
            list.member(
                "value", { RowValue(values: $0.values) },
                "Value of the property, or null for jobs that do not have it; with two properties a list of "
                    + "both.")
            list.member("count", \.count, "Number of the jobs.", [.minimum(1)])
            list.member("example", \.example, "The newest of the jobs.")
        }
    }

    /// The rows, the largest count first.
    public let rows: [Row]
    /// `false` if there are more jobs than one request looks at.
    public let isExact: Bool

    /// Creates a summary.
    public init(rows: [Row], isExact: Bool) {
        self.rows = rows
        self.isExact = isExact
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("data", \.rows, "The rows, the largest count first.")
        list.member(
            "is_exact", \.isExact,
            "false if the jobs are more than one request looks at: the numbers are those of the newest jobs.")
    }
}

/// Values of a row: one, or a list.
private struct RowValue: ShownValue {
    let values: [String?]

    func show(into writer: inout JSONWriter, isRedacted: Bool) {
        guard values.count != 1 else { return show(values[0], into: &writer) }
        writer.beginArray()
        for value in values { show(value, into: &writer) }
        writer.endArray()
    }
    private func show(_ value: String?, into writer: inout JSONWriter) {
        if let value { writer.value(value) } else { writer.null() }
    }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        JSON.rules(
            #"""
            {"oneOf": [{"type": ["string", "null"]},
              {"type": "array", "items": {"type": ["string", "null"]}, "minItems": 2, "maxItems": 2}]}
            """#)
    }
}
