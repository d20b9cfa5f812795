internal import FerryCore
internal import HTTPServer

/// Answers the requests of other nodes: for progress, and for what their clients ask of a job or an upload
/// that is here. Any thread.
package final class NodeRequests: Sendable {
    /// The operations of which only one node has the answer.
    static let operations: Set<Operation> = [
        .readContent, .readAttempts, .readUpload, .readUploadContent, .deleteUpload, .putUpload,
        .continueUpload,
    ]
    /// Field of each response: the node that answers.
    package static let nodeField = "X-Ferry-Node"
    /// Field of a response with trailers, `name: value` of each: what follows the body if it is complete. The
    /// node that sends the response on has to know that before the body.
    package static let trailerField = "X-Ferry-Trailer"

    private let gate: NodeGate
    private let router: Router
    private let handlers: Handlers
    private let secrets: SecretSeal
    private let running: @Sendable () -> [RunningTransfer]

    init(_ gate: NodeGate, _ router: Router, _ handlers: Handlers, _ ports: APIPorts) {
        self.gate = gate
        self.router = router
        self.handlers = handlers
        secrets = ports.secrets
        running = ports.running
    }

    /// Returns how to read the body of a request that says that a node has sent it.
    func plan(_ head: RequestHead) -> BodyPlan {
        guard head.expectsBody else { return .collect(limit: 0) }
        do throws(Problem) {
            let principal = try gate.accept(head)
            let route = try route(head)
            guard route.body == .stream else { throw Self.refused }
            let sink = try handlers.uploads.sink(
                route.operation, head, try route.parameters(head), for: principal, isFromNode: true)
            return .stream(NodeSink(sink) { [self] in signed($0) })
        } catch {
            return .refuse(signed(error.response(requestID: head.requestID)))
        }
    }

    /// Adds the fields that tell the other node who answers.
    private func signed(_ response: Response) -> Response {
        var response = response
        response.fields.append(Self.nodeField, gate.node.description)
        for trailer in response.trailers.pairs {
            response.fields.append(Self.trailerField, "\(trailer.name): \(trailer.value)")
        }
        return response
    }

    private static let refused = Problem(.nodeRequestRefused, "Nodes do not ask each other for this.")

    private func route(_ head: RequestHead) throws(Problem) -> Route {
        guard case .route(let index) = router.match(method: head.method, path: head.path),
            Self.operations.contains(routes[index].operation)
        else { throw Self.refused }
        return routes[index]
    }

    /// Responds to a request that says that a node has sent it.
    func handle(_ request: Request, _ client: Responder) {
        let responder = Responder { [self] response in client.send(signed(response)) }
        do throws(Problem) {
            try answer(request, responder)
        } catch {
            responder.send(error.response(requestID: request.head.requestID))
        }
    }

    private func answer(_ request: Request, _ responder: Responder) throws(Problem) {
        let head = request.head
        let principal = try gate.accept(head)
        if head.path == NodeProgress.path, head.method == "GET" {
            let jobs = try NodeProgress.jobs(head)
            let transfers = running().filter { jobs?.contains($0.job) ?? true }
            let fields = HTTPFields([("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            responder.send(
                Response(status: 200, fields: fields, body: .bytes(NodeProgress.write(transfers))))
            return
        }
        guard case .route(let index) = router.match(method: head.method, path: head.path) else {
            throw Self.refused
        }
        let route = try route(head)
        var context = RequestContext(
            message: request, parameters: try route.parameters(head),
            query: try queryRules[index].items(head), principal: principal,
            disclosure: principal.disclosure(secrets), responder: responder)
        context.isFromNode = true
        try route.handler(handlers)(context)
    }
}

/// Receives a body that another node sends on behalf of its client: responses name this node.
private final class NodeSink: RequestSink {
    private let sink: any RequestSink
    private let sign: @Sendable (Response) -> Response

    init(_ sink: any RequestSink, sign: @escaping @Sendable (Response) -> Response) {
        self.sink = sink
        self.sign = sign
    }

    func attach(_ waker: StreamWaker) { sink.attach(waker) }
    func begin() -> SinkStart {
        switch sink.begin() {
        case .refuse(let response): .refuse(sign(response))
        // The client is another node, which has asked for no interim response.
        case .ready: .ready()
        case .wait: .wait
        }
    }
    func refusal() -> Response? { sink.refusal().map(sign) }
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int { unsafe sink.receive(bytes) }
    func finish(_ responder: Responder) {
        sink.finish(Responder { [sign] response in responder.send(sign(response)) })
    }
    func cancelled() { sink.cancelled() }
}
