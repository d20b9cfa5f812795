internal import FerryCore

/// The OpenAPI 3.1 document. It is made from the route table and so has all routes and no others.
let openAPIDocument: [UInt8] = {
    var writer = JSONWriter(reservingCapacity: 65_536)
    writer.beginObject()
    writer.member("openapi", "3.1.0")
    writer.name("info")
    writer.raw(Array(info.utf8))
    writer.name("servers")
    writer.raw(Array(#"[{"url": "/"}]"#.utf8))
    writer.name("security")
    writer.raw(Array(#"[{"key": []}]"#.utf8))
    writer.name("paths")
    writePaths(into: &writer)
    writer.name("webhooks")
    writer.raw(Array(webhookSection.utf8))
    writer.name("components")
    writer.beginObject()
    writer.name("securitySchemes")
    writer.raw(Array(#"{"key": {"type": "http", "scheme": "bearer"}}"#.utf8))
    writer.name("parameters")
    writer.raw(Array("{\(parameterComponents)}".utf8))
    writer.name("headers")
    writer.raw(Array("{\(headerComponents)}".utf8))
    writer.name("schemas")
    let schemas = [
        fieldSchemas, sessionSchemas, bodySchemas, answerSchemas, attemptSchemas, eventSchemas, errorSchemas,
        operatorSchemas, webhookSchemas, hostSchemas, questionSchemas, scheduleSchemas, keySchemas,
    ]
    writer.raw(Array("{\(schemas.joined(separator: ","))}".utf8))
    writer.endObject()
    writer.endObject()
    return writer.bytes
}()

private let info = #"""
    {"title": "Ferry", "version": "1", "summary": "A service that carries files and requests to their end.",
     "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}
    """#

private func writePaths(into writer: inout JSONWriter) {
    writer.beginObject()
    var patterns: [String] = []
    for route in routes where !patterns.contains(route.pattern) { patterns.append(route.pattern) }
    for pattern in patterns {
        writer.name(pattern)
        writer.beginObject()
        if pattern.contains("{host}") {
            writer.name("parameters")
            writer.beginArray()
            writeReference("parameters", "HostName", into: &writer)
            writer.endArray()
        } else if pattern.contains("{id}") {
            let schema =
                pattern.hasPrefix("/v1/sessions/")
                ? ##"{"$ref": "#/components/schemas/SessionName"}"## : #"{"type": "string"}"#
            writer.name("parameters")
            writer.raw(
                Array(#"[{"name": "id", "in": "path", "required": true, "schema": \#(schema)}]"#.utf8))
        }
        for route in routes where route.pattern == pattern {
            write(route, method: route.method, into: &writer)
            if route.method == "GET" { write(route, method: "HEAD", into: &writer) }
        }
        writer.endObject()
    }
    writer.endObject()
}

private func write(_ route: Route, method: String, into writer: inout JSONWriter) {
    let description = route.operation.description
    let isHead = method == "HEAD"
    writer.name(method.lowercased())
    writer.beginObject()
    writer.member("operationId", isHead ? "\(route.operation.rawValue)Head" : route.operation.rawValue)
    writer.member("summary", isHead ? "\(description.summary) (headers only)" : description.summary)
    writer.name("tags")
    writer.raw(Array(#"["\#(description.tag)"]"#.utf8))
    if let role = route.role {
        writer.member("description", "Needs the role \(role.rawValue).")
    } else {
        writer.name("security")
        writer.raw(Array("[]".utf8))
    }
    if !description.parameters.isEmpty {
        writer.name("parameters")
        writer.beginArray()
        for name in description.parameters { writeReference("parameters", name, into: &writer) }
        writer.endArray()
    }
    if let body = description.body {
        writer.name("requestBody")
        writer.beginObject()
        writer.member("required", description.isBodyRequired)
        writer.name("content")
        writer.raw(Array(body.utf8))
        writer.endObject()
    }
    writeAnswers(route, description, isHead: isHead, into: &writer)
    writer.endObject()
}

private func writeAnswers(
    _ route: Route, _ description: OperationDescription, isHead: Bool, into writer: inout JSONWriter
) {
    writer.name("responses")
    writer.beginObject()
    for answer in description.answers {
        writer.name("\(answer.status)")
        writer.beginObject()
        writer.member("description", answer.text)
        writeHeaders(["X-Request-Id"] + answer.headers, into: &writer)
        if let content = answer.content, !isHead {
            writer.name("content")
            writer.raw(Array(content.utf8))
        }
        writer.endObject()
    }
    let documented = Set(description.answers.map(\.status))
    let own = Set(description.problems + everyProblem + (route.role == nil ? [] : keyProblems))
    for status in own.subtracting(documented).sorted() {
        writer.name("\(status)")
        writer.beginObject()
        writer.member("description", problemText[status] ?? "The request cannot be served.")
        writeHeaders(["X-Request-Id"] + (problemHeaders[status] ?? []), into: &writer)
        if !isHead {
            writer.name("content")
            writer.raw(
                Array(
                    ##"{"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}"##
                        .utf8))
        }
        writer.endObject()
    }
    writer.endObject()
}

private func writeHeaders(_ names: [String], into writer: inout JSONWriter) {
    writer.name("headers")
    writer.beginObject()
    for name in names {
        writer.name(name)
        writeReference("headers", name, into: &writer)
    }
    writer.endObject()
}

private func writeReference(_ kind: String, _ name: String, into writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("$ref", "#/components/\(kind)/\(name)")
    writer.endObject()
}

/// Statuses of problems that any request can get, those of `HTTPServer` included.
private let everyProblem = [400, 405, 408, 413, 414, 421, 431, 500, 501, 503]
private let keyProblems = [401, 403, 429]

private let problemText: [Int: String] = [
    400: "The request, its query, a header field or its JSON cannot be read.",
    401: "No valid key.", 403: "The key's role does not suffice.",
    404: "There is no such object, or it belongs to another tenant.", 405: "The path knows other methods.",
    408: "The request came too slowly.", 409: "The state, or a request in progress, does not allow it.",
    412: "The object has another revision.", 428: "The change needs If-Match.", 413: "The body is too large.",
    414: "The target is too long.", 415: "The media type is not supported.",
    416: "The range is beyond the content.", 421: "The target is of another host.",
    422: "Fields are wrong; errors names each. Nothing was stored.",
    429: "Too many requests with this key, unfinished jobs, or submissions, reads, bodies or files at once.",
    431: "The header fields are too large.", 500: "Something went wrong here.",
    501: "The transfer coding is not known.", 503: "The service cannot answer now; ask again.",
]

private let problemHeaders: [Int: [String]] = [
    401: ["WWW-Authenticate"], 405: ["Allow"], 429: ["Retry-After", "RateLimit", "RateLimit-Policy"],
    409: ["Retry-After"], 416: ["Content-Range"], 503: ["Retry-After"],
]
