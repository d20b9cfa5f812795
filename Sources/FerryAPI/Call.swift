internal import FerryCore
internal import HTTPServer

/// A request that has found its route, with who asks and how to answer.
struct Call: Sendable {
    let request: Request
    /// What the pattern's parameters stand for, decoded.
    let parameters: [String]
    /// Nobody on the open routes.
    let principal: Principal
    let responder: Responder
    /// Is told of the answer; nil for nearly all.
    var witness: (@Sendable (Response) -> Void)?

    var fields: HTTPFields { request.head.fields }

    func send(_ response: Response) {
        witness?(response)
        responder.send(response)
    }

    func fail(_ problem: Problem) { send(problem.response(requestID: request.head.requestID)) }

    func fail(_ error: StoreError) { fail(Problem(error)) }

    /// Sends a JSON document that must not be kept by caches.
    func send(_ status: Int, json: [UInt8], _ extra: [(name: String, value: String)] = []) {
        var fields = HTTPFields([("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        for field in extra { fields.append(field.name, field.value) }
        send(Response(status: status, fields: fields, body: .bytes(json)))
    }

    /// Runs the rest of a handler; what it throws is the answer.
    func answering(_ body: () throws(Problem) -> Void) {
        do throws(Problem) {
            try body()
        } catch {
            fail(error)
        }
    }

    /// The body as JSON. An empty one reads as an empty object where `isOptional`.
    func json(isOptional: Bool = false) throws(Problem) -> JSON {
        if isOptional, request.body.isEmpty { return .object([]) }
        try needMediaType(["application/json"])
        return try parse(request.body)
    }

    /// The body as a merge patch (RFC 7396): an object.
    func mergePatch() throws(Problem) -> JSON {
        let types = ["application/merge-patch+json", "application/json"]
        guard isMediaType(fields, types) else {
            var problem = Problem(
                .unsupportedMediaType, "Content-Type must be \(types.joined(separator: " or ")).")
            problem.fields.append(("Accept-Patch", types.joined(separator: ", ")))
            throw problem
        }
        return try parse(request.body)
    }

    func needMediaType(_ types: [String]) throws(Problem) {
        guard !isMediaType(fields, types) else { return }
        var problem = Problem(
            .unsupportedMediaType, "Content-Type must be \(types.joined(separator: " or ")).")
        problem.fields.append(("Accept-Post", types.joined(separator: ", ")))
        throw problem
    }

    func parse(_ text: [UInt8], line: Int? = nil) throws(Problem) -> JSON {
        do throws(JSON.SyntaxError) {
            return try JSON.parse(text)
        } catch {
            let place = line.map { "line \($0), byte \(error.offset)" } ?? "byte \(error.offset)"
            throw Problem(.badJSON, "At \(place): \(error.reason).")
        }
    }

    /// The identifier in the path; what cannot be one names nothing.
    func identifier<Kind>(_ kind: Identifier<Kind>.Type = Identifier<Kind>.self) throws(Problem)
        -> Identifier<Kind>
    {
        guard let text = parameters.first, let id = Identifier<Kind>(text) else {
            throw Problem(StoreError.notFound)
        }
        return id
    }

    /// The revision that `If-Match` asks for; nil without a condition.
    var expectedRevision: Int32? { EntityTags(fields, "If-Match")?.revision }

    /// The query's items, each name once, all of them known. `prefix`: names that go on as the client wants.
    func query(_ known: Set<String>, prefix: String? = nil) throws(Problem) -> [(name: String, value: String)]
    {
        let items: [(name: String, value: String)]
        do throws(PercentDecodingError) {
            items = try request.head.queryItems()
        } catch {
            throw Problem(.invalidParameter, "The query is not percent-encoded UTF-8.")
        }
        var seen: Set<String> = []
        for item in items {
            guard
                known.contains(item.name)
                    || prefix.map({ item.name.hasPrefix($0) && item.name != $0 }) == true
            else {
                throw Problem(.invalidParameter, "There is no parameter \"\(item.name)\" here.")
            }
            guard seen.insert(item.name).inserted else {
                throw Problem(.invalidParameter, "The parameter \"\(item.name)\" is given twice.")
            }
        }
        return items
    }
}
