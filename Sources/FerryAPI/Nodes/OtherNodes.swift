package import FerryCore
package import HTTPServer

/// Asks the other nodes for what only they have. All calls return at once.
package protocol OtherNodes: Sendable {
    /// Whether a job's node is another one than this.
    func isOther(_ node: NodeID?) -> Bool
    /// Replies with the progress of jobs that run on a node, at most two seconds old. A job that does not run
    /// there has none.
    func progress(
        of jobs: Set<JobID>, on node: NodeID,
        reply: @escaping @Sendable (Result<[JobID: TransferProgress], NodeUnavailable>) -> Void)
    /// Returns the running jobs of the other nodes, at most two seconds old: those of `jobs`, or all of them
    /// if `jobs` is `nil`. Asks the nodes again if that is older than a second: a first call returns nothing.
    func running(_ jobs: Set<JobID>?) -> [RunningTransfer]
    /// Sends a client's request for a job or an upload on to a node, and replies with the response as it
    /// arrives.
    func forward(
        _ request: ForwardedRequest, to node: NodeID,
        reply: @escaping @Sendable (Result<Response, ForwardFailure>) -> Void)
}

/// A client's request that another node answers.
package struct ForwardedRequest: Sendable {
    /// `GET`, `HEAD` or `DELETE`.
    package let method: String
    /// The request target as received, with its query.
    package let target: String
    /// The fields that the answer depends on, and the identifier of the request.
    package let fields: [(name: String, value: String)]
    /// Role and tenant of the client.
    package let role: Role
    package let tenant: String
}

/// Reason for which another node has not answered a client's request.
package enum ForwardFailure: Error, Sendable {
    /// The node cannot be asked.
    case unavailable(NodeUnavailable)
    /// The tenant has as many requests under way as it leaves to others: up to `quota`.
    case hasTooMany(quota: Int)
}

/// For a service without other nodes.
package struct NoOtherNodes: OtherNodes {
    package init() {}
    package func isOther(_ node: NodeID?) -> Bool { false }
    package func progress(
        of jobs: Set<JobID>, on node: NodeID,
        reply: @escaping @Sendable (Result<[JobID: TransferProgress], NodeUnavailable>) -> Void
    ) { reply(.success([:])) }
    package func running(_ jobs: Set<JobID>?) -> [RunningTransfer] { [] }
    package func forward(
        _ request: ForwardedRequest, to node: NodeID,
        reply: @escaping @Sendable (Result<Response, ForwardFailure>) -> Void
    ) { reply(.failure(.unavailable(NodeUnavailable(node, .isUnknown, heartbeatAt: nil)))) }
}

extension RequestContext {
    /// Whether another node has what this request asks for, given the node of the job. A request that a node
    /// has sent is answered here in any case: it is never sent on.
    func belongs(to node: NodeID?, among others: any OtherNodes) -> NodeID? {
        guard !isFromNode, let node, others.isOther(node) else { return nil }
        return node
    }

    /// Responds with what another node answers. `otherwise`: what happens if the node cannot be asked; by
    /// default, a 503 says so.
    func forward(
        to node: NodeID, by others: any OtherNodes,
        otherwise: (@Sendable () -> Void)? = nil
    ) {
        let names = [
            "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
            "Accept", "Prefer", "Tus-Resumable", "Upload-Draft-Interop-Version",
        ]
        var fields = [(name: "X-Request-Id", value: head.requestID)]
        for name in names { fields += self.fields.all(name).map { (name, $0) } }
        let request = ForwardedRequest(
            method: head.method, target: head.target, fields: fields, role: principal.role, tenant: tenant)
        others.forward(request, to: node) { result in
            switch result {
            case .success(let response): send(response)
            case .failure(.unavailable(let failure)):
                if let otherwise { otherwise() } else { fail(Problem(failure)) }
            case .failure(.hasTooMany(let quota)):
                var problem = Problem(
                    .overloaded,
                    "The tenant has as many requests to other nodes under way as it leaves to others, or "
                        + "\(quota); try again later.")
                problem.fields = quotaFields("nodes", quota: Int64(quota), seconds: 1)
                fail(problem)
            }
        }
    }
}
