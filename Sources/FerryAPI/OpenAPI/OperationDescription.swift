/// Description of an operation in the document, without its route.
struct OperationDescription: Sendable {
    struct Answer: Sendable {
        let status: Int
        let text: String
        /// Media types and schemas, as JSON; `nil` without a body.
        let content: String?
        /// Names of `components/headers`.
        let headers: [String]

        init(_ status: Int, _ text: String, _ content: String? = nil, _ headers: [String] = []) {
            self.status = status
            self.text = text
            self.content = content
            self.headers = headers
        }

        /// An object with its entity tag.
        static func object(_ text: String, _ schema: String) -> Answer {
            Answer(200, text, json(schema), ["ETag"])
        }

        /// A created object. `headers`: those besides `Location` and `ETag`.
        static func created(
            _ text: String, _ schema: String, _ headers: [String] = ["Idempotency-Replayed"]
        ) -> Answer { Answer(201, text, json(schema), ["Location", "ETag"] + headers) }

        /// Response to `If-None-Match`.
        static let unchanged = Answer(304, "The object is unchanged.", nil, ["ETag"])

        /// Response to `Prefer: redirect`.
        static let redirected = Answer(
            307, "The content is at the address in Location.", nil, ["Location", "Preference-Applied"])
    }

    /// The body of a request.
    struct Body: Sendable {
        /// Media types and schemas, as JSON.
        let content: String
        var isRequired = true

        /// A JSON object.
        static func json(_ schema: String) -> Body { Body(content: FerryAPI.json(schema)) }
        /// A JSON object that may be left out.
        static func optional(_ schema: String) -> Body {
            Body(content: FerryAPI.json(schema), isRequired: false)
        }
        /// A merge patch (RFC 7396).
        static func patch(_ schema: String) -> Body {
            Body(content: FerryAPI.json(schema, as: "application/merge-patch+json"))
        }
        /// An object without members, which may be left out.
        static let empty = optional("EmptyRequest")
    }

    let summary: String
    /// Names of `components/parameters`.
    let parameters: [String]
    let body: Body?
    let answers: [Answer]
    /// Statuses of problems besides those that follow from the route.
    let problems: [Int]

    /// `problems`: those that do not follow from parameters and body.
    init(
        _ summary: String, _ parameters: [String] = [], _ body: Body? = nil, _ answers: Answer...,
        problems: [Int] = []
    ) {
        self.summary = summary
        self.parameters = parameters
        self.body = body
        self.answers = answers
        self.problems =
            problems + (body == nil ? [] : [413, 415, 422]) + (parameters.contains("IfMatch") ? [412] : [])
            + (parameters.contains("IdempotencyKey") ? [409] : [])
    }

    /// A page of a list.
    static func page(
        _ summary: String, _ text: String, _ schema: String, _ parameters: [String] = ["Limit", "Cursor"],
        problems: [Int] = []
    ) -> Self {
        Self(summary, parameters, nil, Answer(200, text, json(schema), ["Link"]), problems: problems)
    }

    /// An object that `If-None-Match` can ask for.
    static func read(_ summary: String, _ text: String, _ schema: String) -> Self {
        Self(summary, ["IfNoneMatch"], nil, .object(text, schema), .unchanged)
    }

    /// A created object.
    static func create(_ summary: String, _ body: Body, _ text: String, _ schema: String) -> Self {
        Self(summary, ["IdempotencyKey"], body, .created(text, schema))
    }

    /// A change of an object that `If-Match` can make conditional.
    static func change(
        _ summary: String, _ body: Body, _ text: String, _ schema: String, problems: [Int] = []
    ) -> Self { Self(summary, ["IfMatch"], body, .object(text, schema), problems: problems) }

    /// A deletion that `If-Match` can make conditional.
    static func delete(_ summary: String, _ text: String, problems: [Int] = []) -> Self {
        Self(summary, ["IfMatch"], nil, Answer(204, text), problems: problems)
    }
}

/// Returns the content of a JSON body with this schema.
func json(_ schema: String, as type: String = "application/json") -> String {
    ##"{"\##(type)": {"schema": {"$ref": "#/components/schemas/\##(schema)"}}}"##
}
