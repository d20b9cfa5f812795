public import FerryCore

/// The OpenAPI 3.1 document. It is made from the route table and so has all routes and no others.
let openAPIDocument: [UInt8] = {
    let document: JSON = [
        "openapi": "3.1.0", "info": info, "servers": [["url": "/"]], "security": [["key": []]],
        "paths": paths, "webhooks": webhooks,
        "components": [
            "securitySchemes": ["key": ["type": "http", "scheme": "bearer"]],
            "parameters": .object(parameters.map { JSON.Member($0.component, $0.json) }),
            "headers": .object(
                responseHeaders.map { name, text, schema, isRequired in
                    let members: JSON = ["schema": .object(schema), "description": .string(text)]
                    return JSON.Member(
                        name,
                        .object(
                            (members.members ?? []) + (isRequired ? [.init("required", .bool(true))] : []))
                    )
                }),
            "schemas": .object(componentSchemas),
        ],
    ]
    var writer = JSONWriter(reservingCapacity: 131_072)
    writer.value(document)
    return writer.bytes
}()

extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral {
    public init(dictionaryLiteral members: (String, JSON)...) {
        self = .object(members.map { Member($0, $1) })
    }
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }

    /// Returns a reference to a component.
    public static func reference(_ kind: String, _ name: String) -> JSON {
        ["$ref": .string("#/components/\(kind)/\(name)")]
    }
}

private let info: JSON = [
    "title": "Ferry", "version": "1",
    "summary": "A service that carries files and requests to their end.",
    "license": ["name": "Apache-2.0", "identifier": "Apache-2.0"],
]

private var paths: JSON {
    var patterns: [String] = []
    for route in routes where !patterns.contains(route.pattern) { patterns.append(route.pattern) }
    return .object(patterns.map { JSON.Member($0, path($0)) })
}

private func path(_ pattern: String) -> JSON {
    var members: [JSON.Member] = []
    if pattern.contains("{host}") {
        members.append(.init("parameters", [.reference("parameters", "HostName")]))
    } else if pattern.contains("{tenant}") {
        members.append(.init("parameters", [.reference("parameters", "TenantName")]))
    } else if pattern.contains("{upload}") {
        members.append(.init("parameters", [.reference("parameters", "UploadName")]))
    } else if pattern.contains("{name}") {
        members.append(.init("parameters", [.reference("parameters", "GroupName")]))
    } else if pattern.contains("{id}") {
        let isName = pattern.hasPrefix("/v1/sessions/")
        let id = Parameter("", "id", .path, isName ? sessionName : String.shownSchema, "Identifier.")
        let others: [JSON] =
            pattern.contains("{credential}") ? [.reference("parameters", "CredentialName")] : []
        members.append(.init("parameters", .array([id.json] + others)))
    }
    for route in routes where route.pattern == pattern {
        members.append(.init(route.method.lowercased(), operation(route, isHead: false)))
        if route.method == "GET" { members.append(.init("head", operation(route, isHead: true))) }
    }
    return .object(members)
}

private func operation(_ route: Route, isHead: Bool) -> JSON {
    let (name, description) = (route.operation.rawValue, route.operation.description)
    var members: [JSON.Member] = [
        .init("operationId", .string(isHead ? "\(name)Head" : name)),
        .init("summary", .string(isHead ? "\(description.summary) (headers only)" : description.summary)),
        .init("tags", [.string(route.operation.tag)]),
    ]
    if let role = route.role {
        members.append(.init("description", .string("Needs the role \(role.rawValue).")))
    } else {
        members.append(.init("security", []))
    }
    if !description.parameters.isEmpty {
        let references = description.parameters.map { JSON.reference("parameters", $0) }
        members.append(.init("parameters", .array(references)))
    }
    if let body = description.body {
        members.append(
            .init(
                "requestBody",
                ["required": .bool(body.isRequired), "content": .object(JSON.rules(body.content))]))
    }
    members.append(.init("responses", responses(route, description, isHead: isHead)))
    return .object(members)
}

private func responses(_ route: Route, _ description: OperationDescription, isHead: Bool) -> JSON {
    func response(_ status: Int, _ text: String, _ headers: [String], _ content: String?) -> JSON.Member {
        let fields = (["X-Request-Id"] + headers).map { JSON.Member($0, .reference("headers", $0)) }
        var members: [JSON.Member] = [
            .init("description", .string(text)), .init("headers", .object(fields)),
        ]
        if let content, !isHead { members.append(.init("content", .object(JSON.rules(content)))) }
        return JSON.Member("\(status)", .object(members))
    }
    let answers = description.answers.map { response($0.status, $0.text, $0.headers, $0.content) }
    let documented = Set(description.answers.map(\.status))
    let problems = problems(of: route, description).subtracting(documented).sorted().map { status in
        response(
            status, problemText[status] ?? "The request cannot be served.", problemHeaders[status] ?? [],
            json("Problem", as: "application/problem+json"))
    }
    return .object(answers + problems)
}

/// Returns the statuses of problems that a request to the route can get.
private func problems(of route: Route, _ description: OperationDescription) -> Set<Int> {
    var statuses = Set(everyProblem + description.problems)
    if route.role != nil { statuses.formUnion([401, 403, 429]) }
    // A `PUT` creates a session that does not exist.
    let namesObject = ["{id}", "{name}", "{upload}"].contains { route.pattern.contains($0) }
    if namesObject, route.operation != .putSession, route.operation != .putUpload { statuses.insert(404) }
    return statuses
}

/// Statuses of problems that any request can get, those of `HTTPServer` included.
private let everyProblem = [400, 405, 408, 413, 414, 421, 431, 500, 501, 503]

private let problemText: [Int: String] = [
    400: "The request, its query, a header field or its JSON cannot be read.",
    401: "No valid key.", 403: "The key's role does not suffice.",
    404: "There is no such object, or it belongs to another tenant.", 405: "The path knows other methods.",
    408: "The request came too slowly.", 409: "The state, or a request in progress, does not allow it.",
    410: "The content store has lost the content.",
    412: "The object has another revision, or the version of a protocol is not supported.",
    428: "The change needs If-Match.",
    413: "The body is too large, or the bytes that are stored for the tenant have reached their limit.",
    414: "The target is too long.", 415: "The media type is not supported.",
    416: "The range is beyond the content.", 421: "The target is of another host.",
    422: "Fields are wrong; errors names each. Nothing was stored.",
    429: "Too many requests with this key, unfinished jobs, or submissions, reads, bodies, files or streams "
        + "at once; or a limit of the tenant.",
    431: "The header fields are too large.", 500: "Something went wrong here.",
    501: "The transfer coding is not known.", 507: "There is no room for the bytes on the node's disk.",
    503: "The service cannot answer now; ask again.",
]

private let problemHeaders: [Int: [String]] = [
    401: ["WWW-Authenticate"], 405: ["Allow"], 429: ["Retry-After", "RateLimit", "RateLimit-Policy"],
    409: ["Retry-After"], 416: ["Content-Range"], 503: ["Retry-After"],
]

/// Requests that Ferry sends to webhooks.
private let webhooks: JSON = [
    "job": [
        "post": [
            "summary": "An event has occurred",
            "description": .string(
                "Sent as Standard Webhooks 1.0. 2xx accepts the delivery, 410 gives it up. Any other status, "
                    + "and 15 seconds without a response, is followed by another try, for about three days. "
                    + "A delivery may arrive more than once: webhook-id is the same on every try."),
            "parameters": [
                webhookField("webhook-id", "Identifier of the event."),
                webhookField("webhook-timestamp", "Time of the try, in seconds since 1970."),
                webhookField(
                    "webhook-signature",
                    "v1, and the base64 of HMAC-SHA256 over id.timestamp.body. Endpoints also get v1a, and "
                        + "the base64 of an Ed25519 signature. One entry for each valid key, separated by "
                        + "spaces."),
            ],
            "requestBody": ["content": .object(JSON.rules(json("Event")))],
            "responses": [
                "2XX": ["description": "The delivery is accepted."],
                "410": ["description": "The delivery is given up, and an endpoint is disabled."],
            ],
        ]
    ]
]

private func webhookField(_ name: String, _ text: String) -> JSON {
    [
        "name": .string(name), "in": "header", "required": .bool(true), "schema": ["type": "string"],
        "description": .string(text),
    ]
}
