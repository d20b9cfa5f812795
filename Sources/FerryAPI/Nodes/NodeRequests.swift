internal import FerryCore
internal import HTTPServer

/// Answers the requests of other nodes: for progress, and for what their clients ask of a job that is here.
/// Any thread.
package final class NodeRequests: Sendable {
    /// The operations of which only one node has the answer.
    static let operations: Set<Operation> = [
        .readContent, .readAttempts, .readUpload, .readUploadContent, .deleteUpload,
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

    /// Responds to a request that says that a node has sent it.
    func handle(_ request: Request, _ client: Responder) {
        let node = gate.node.description
        let responder = Responder { response in
            var response = response
            response.fields.append(Self.nodeField, node)
            for trailer in response.trailers.pairs {
                response.fields.append(Self.trailerField, "\(trailer.name): \(trailer.value)")
            }
            return client.send(response)
        }
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
        guard case .route(let index) = router.match(method: head.method, path: head.path),
            Self.operations.contains(routes[index].operation)
        else { throw Problem(.nodeRequestRefused, "Nodes do not ask each other for this.") }
        let route = routes[index]
        var context = RequestContext(
            message: request, parameters: try route.parameters(head),
            query: try queryRules[index].items(head), principal: principal,
            disclosure: principal.disclosure(secrets), responder: responder)
        context.isFromNode = true
        try route.handler(handlers)(context)
    }
}
