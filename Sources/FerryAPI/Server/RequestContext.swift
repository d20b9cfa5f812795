internal import FerryCore
internal import HTTPServer

/// A request whose route is known, with its principal and the means to respond.
struct RequestContext: Sendable {
    /// The request as the server read it. Counts its body's memory (`BodyBudget`) while it exists.
    let message: Request
    /// Percent-decoded values of the parameters in the route's pattern.
    let parameters: [String]
    /// Query parameters: each name occurs once, and the operation knows all of them.
    let query: [(name: String, value: String)]
    /// Owner of the request's key. On routes that need no key, a viewer of the tenant "".
    let principal: Principal
    /// Whether the response may show fields and URLs that can hold secrets.
    let disclosure: Disclosure
    let responder: Responder
    /// Receives the response before it is sent; `nil` unless the request is audited.
    var observer: (@Sendable (Response) -> Void)?
    /// `true` if another node has sent the request on behalf of its client.
    var isFromNode = false
    /// Ends the response with its key if its length is not known; `nil` for requests without a key.
    var streams: KeyStreams?

    var head: RequestHead { message.head }
    var fields: HTTPFields { message.head.fields }
    var body: [UInt8] { message.body }
    var tenant: String { principal.tenant }

    // MARK: Responses

    func send(_ response: Response) {
        var response = response
        if let streams, case .stream(let stream, nil) = response.body {
            guard let keyed = streams.open(stream, for: principal) else {
                stream.cancelled()
                return fail(.unauthorized(hasKey: true))
            }
            response.body = .stream(keyed)
        }
        observer?(response)
        responder.send(response)
    }

    func fail(_ problem: Problem) { send(problem.response(requestID: head.requestID)) }

    func fail(_ error: StoreError) { fail(Problem(error)) }

    /// Sends a JSON document that caches must not store.
    func send(_ status: Int, json: [UInt8], _ extra: [(name: String, value: String)] = []) {
        var fields = HTTPFields([("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        for field in extra { fields.append(field.name, field.value) }
        send(Response(status: status, fields: fields, body: .bytes(json)))
    }

    /// Sends one object with its entity tag, or 304 if `If-None-Match` names the tag (RFC 9110 §13.1.2).
    func send(
        _ status: Int, tag: String, _ extra: [(name: String, value: String)] = [], json: () -> [UInt8]
    ) {
        let fields = [("ETag", tag)] + extra
        guard status == 200, ["GET", "HEAD"].contains(head.method),
            EntityTags(self.fields, "If-None-Match")?.matchesWeakly(tag) == true
        else { return send(status, json: json(), fields) }
        send(Response(status: 304, fields: HTTPFields(fields + [("Cache-Control", "no-store")])))
    }

    /// Runs a step of a handler. If the step throws a problem, the problem is the response.
    func run(_ step: () throws(Problem) -> Void) {
        do throws(Problem) {
            try step()
        } catch {
            fail(error)
        }
    }

    /// Returns a reply that runs `step` with the store's value, or responds with the store's error.
    func onSuccess<Value>(_ step: @escaping @Sendable (Value) throws(Problem) -> Void) -> Reply<Value> {
        { result in
            run { () throws(Problem) in try step(try result.mapError { Problem($0) }.get()) }
        }
    }

    /// Like `onSuccess`, for a change that can make the stored value invalid: that is a 422.
    func onValid<Value>(
        _ step: @escaping @Sendable (Value) throws(Problem) -> Void
    ) -> Reply<Result<Value, InvalidFields>> {
        onSuccess { result throws(Problem) in try step(try result.mapError { Problem($0) }.get()) }
    }

    // MARK: Conditions

    /// Whether `If-Match` allows to change an object that has no revisions, given its JSON without the
    /// members that change by themselves.
    var changeCondition: @Sendable ([UInt8]) -> Bool {
        let tags = EntityTags(fields, "If-Match")
        return { tags?.allowsChange(of: $0) ?? true }
    }

    /// Asks the store for a change of an object with the revision that `If-Match` names: `nil` without the
    /// field or for `*`, −1, which no object has, if the field names no revision.
    ///
    /// The store compares with one revision. If the field lists several (RFC 9110 §13.1.1) and the store says
    /// that the object has another one of them, the change is requested again with that one.
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

    // MARK: Body and path

    /// The body as JSON. If `isOptional`, an empty body reads as an empty object.
    func json(isOptional: Bool = false) throws(Problem) -> JSONView {
        if isOptional, body.isEmpty { return try parse(Array("{}".utf8)) }
        try needMediaType(["application/json"])
        return try parse(body)
    }

    /// The body as an object of this type. `isOptional` as in `json`.
    func decoded<Object: FieldObject>(
        _ type: Object.Type, isOptional: Bool = false
    ) throws(Problem) -> Object {
        let json = try json(isOptional: isOptional)
        return try valid(try Object(body: json))
    }

    /// The body as a merge patch (RFC 7396): an object.
    func mergePatch() throws(Problem) -> JSONView {
        try needMediaType(["application/merge-patch+json", "application/json"], field: "Accept-Patch")
        let patch = try parse(body)
        guard patch.isObject else {
            let errors = ValidationErrors()
            errors.addWrongType("#", "an object", patch)
            throw Problem(InvalidFields(errors.all))
        }
        return patch
    }

    /// Accepts an empty body and an empty object only.
    func needEmptyObject() throws(Problem) {
        _ = try decoded(EmptyBody.self, isOptional: true)
    }

    /// `field`: the field of the 415 that lists the accepted types (RFC 9110 §10.2, RFC 5789 §3.1).
    func needMediaType(_ types: [String], field: String = "Accept-Post") throws(Problem) {
        let choice = types.joined(separator: " or ")
        guard !body.isEmpty else {
            throw Problem(.badJSON, "The request needs a body of the type \(choice).")
        }
        guard try !isMediaType(fields, types) else { return }
        var problem = Problem(.unsupportedMediaType, "Content-Type must be \(choice).")
        problem.fields.append((field, types.joined(separator: ", ")))
        throw problem
    }

    func parse(_ text: [UInt8]) throws(Problem) -> JSONView {
        var valuesLeft = JSON.valueCountMax
        return try parse(text, line: nil, valuesLeft: &valuesLeft)
    }

    /// Parses one text of a body. `line`: its line number in a body of several texts, whose values together
    /// are limited by `valuesLeft`.
    func parse(_ text: [UInt8], line: Int?, valuesLeft: inout Int) throws(Problem) -> JSONView {
        do throws(JSON.SyntaxError) {
            return try JSONView(parsing: text, valuesLeft: &valuesLeft)
        } catch {
            let place = line.map { "line \($0), byte \(error.offset)" } ?? "byte \(error.offset)"
            throw Problem(.badJSON, "At \(place): \(error.reason).")
        }
    }

    /// The identifier in the path. A text that is no identifier is a 404.
    func identifier<Kind>(_ kind: Identifier<Kind>.Type = Identifier<Kind>.self) throws(Problem)
        -> Identifier<Kind>
    {
        guard let text = parameters.first, let id = Identifier<Kind>(text) else {
            throw Problem(StoreError.notFound)
        }
        return id
    }
}

/// The body of an operation that has no fields.
private struct EmptyBody: FieldObject {
    static let summary = "An empty object."
    static let schemaName = "EmptyRequest"
    mutating func fields(_ visitor: inout some FieldVisitor) {}
}

/// Returns a value that was read from a request; invalid fields are a 422.
func valid<Value>(_ value: @autoclosure () throws(InvalidFields) -> Value) throws(Problem) -> Value {
    do throws(InvalidFields) {
        return try value()
    } catch {
        throw Problem(error)
    }
}
