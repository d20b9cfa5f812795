internal import FerryCore
internal import HTTPServer

/// A request that has found its route, with who asks and how to answer.
struct RequestContext: Sendable {
    let request: Request
    /// What the pattern's parameters stand for, decoded.
    let parameters: [String]
    /// Each name once, all of them known to the route.
    let query: [(name: String, value: String)]
    /// Nobody on the open routes.
    let principal: Principal
    /// What the caller may see.
    let disclosure: Disclosure
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

    /// Sends one object with its entity tag; 304 to who has it as it is (RFC 9110 §13.1.2).
    func send(
        _ status: Int, tag: String, _ extra: [(name: String, value: String)] = [], json: () -> [UInt8]
    ) {
        let fields = [("ETag", tag)] + extra
        guard status == 200, ["GET", "HEAD"].contains(request.head.method),
            EntityTags(self.fields, "If-None-Match")?.matchesWeakly(tag) == true
        else { return send(status, json: json(), fields) }
        send(Response(status: 304, fields: HTTPFields(fields + [("Cache-Control", "no-store")])))
    }

    /// Whether `If-Match` allows to change what has no revisions and is like this by now.
    var changeCondition: @Sendable ([UInt8]) -> Bool {
        let tags = EntityTags(fields, "If-Match")
        return { tags?.allowsChange(of: $0) ?? true }
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
        try needMediaType(["application/merge-patch+json", "application/json"], field: "Accept-Patch")
        let patch = try parse(request.body)
        let complaints = ValidationErrors()
        guard FieldReader(patch, at: "#", complaints) != nil else {
            throw Problem(InvalidFields(complaints.errors))
        }
        return patch
    }

    /// `field`: where an answer says which types are taken (RFC 9110 §10.2, RFC 5789 §3.1).
    func needMediaType(_ types: [String], field: String = "Accept-Post") throws(Problem) {
        let choice = types.joined(separator: " or ")
        guard !request.body.isEmpty else {
            throw Problem(.badJSON, "This needs a body, and there is none: send \(choice).")
        }
        guard try !isMediaType(fields, types) else { return }
        var problem = Problem(.unsupportedMediaType, "Content-Type must be \(choice).")
        problem.fields.append((field, types.joined(separator: ", ")))
        throw problem
    }

    func parse(_ text: [UInt8]) throws(Problem) -> JSON {
        var valuesLeft = JSON.valueCountMax
        return try parse(text, line: nil, valuesLeft: &valuesLeft)
    }

    /// `line`: of a body of several texts, which may have `valuesLeft` values together.
    func parse(_ text: [UInt8], line: Int?, valuesLeft: inout Int) throws(Problem) -> JSON {
        do throws(JSON.SyntaxError) {
            return try JSON.parse(text, valuesLeft: &valuesLeft)
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

    /// Asks the store for a change of the revision that `If-Match` names: nil for any, −1, which no object
    /// has, when it names none. The store compares with one; of several (RFC 9110 §13.1.1) it is told the one
    /// that it says the object has by now.
    func changing<Value>(
        _ change: @escaping @Sendable (_ revision: Int32?, _ reply: @escaping Reply<Value>) -> Void,
        then reply: @escaping Reply<Value>
    ) {
        let revisions = EntityTags(fields, "If-Match")?.revisions
        attempt(change, revisions.map { $0.first ?? -1 }, of: revisions ?? [], then: reply)
    }

    private func attempt<Value>(
        _ change: @escaping @Sendable (_ revision: Int32?, _ reply: @escaping Reply<Value>) -> Void,
        _ revision: Int32?, of revisions: [Int32], then reply: @escaping Reply<Value>
    ) {
        change(revision) { result in
            guard case .failure(.stale(let current?)) = result, current != revision,
                revisions.contains(current)
            else { return reply(result) }
            attempt(change, current, of: revisions, then: reply)
        }
    }
}
