import Curl
import FerryAPI
import FerryCore
import FerryStore
import HTTPServer
import Logging
import Synchronization

/// Sends requests to the other nodes: for progress, and on behalf of clients. It connects only to addresses
/// of the table `nodes`, follows no redirect, and uses no proxy. Any thread.
final class NodeClient: OtherNodes {
    private let node: NodeID
    private let key: [UInt8]
    private let peers: PeerDirectory
    private let clock: DatabaseClock
    private let logger: Logger
    /// `nil` without a usable libcurl, which only other roles need.
    private let loop: CurlLoop?
    private let readings = Mutex<[NodeID: PeerProgress]>([:])
    private let forwarded = Mutex(TenantPool(itemCount: Limits.nodeRequestCountMax))

    init(node: NodeID, key: [UInt8], peers: PeerDirectory, clock: DatabaseClock, logger: Logger) {
        self.node = node
        self.key = key
        self.peers = peers
        self.clock = clock
        self.logger = logger
        do {
            loop = try CurlLoop(name: "nodes", keptConnections: 16)
        } catch {
            logger.warning("This node cannot ask other nodes.", metadata: ["error": "\(error)"])
            loop = nil
        }
    }

    /// Number of clients' requests that other nodes are answering.
    var forwardedCount: Int { forwarded.withLock { $0.taken } }

    /// Ends all requests.
    func stop() { loop?.stop() }

    func isOther(_ node: NodeID?) -> Bool { node != nil && node != self.node }

    /// Whether a node has sent no heartbeat for a lease: it has lost its jobs.
    func isSilent(_ peer: PeerNode) -> Bool { clock.now() - peer.heartbeatAt > peers.leaseSeconds }

    // MARK: Progress

    func progress(
        of jobs: Set<JobID>, on node: NodeID,
        reply: @escaping @Sendable (Result<[JobID: TransferProgress], NodeUnavailable>) -> Void
    ) {
        reading(of: node).read(jobs) { result in
            reply(result.map { transfers in transfers.mapValues(\.progress) })
        }
    }

    func running(_ jobs: Set<JobID>?) -> [RunningTransfer] {
        peers.all.filter { $0.isWorker && $0.url != nil && !isSilent($0) }
            .flatMap { reading(of: $0.id).latest(jobs) }
    }

    private func reading(of node: NodeID) -> PeerProgress {
        readings.withLock { readings in
            if let known = readings[node] { return known }
            let made = PeerProgress { [weak self] jobs, reply in
                guard let self else {
                    return reply(.failure(NodeUnavailable(node, .isUnknown, heartbeatAt: nil)))
                }
                ask(node, for: jobs, reply: reply)
            }
            // Nodes come and go; what they said is old soon.
            if readings.count >= Limits.nodeReadingCountMax { readings = [:] }
            readings[node] = made
            return made
        }
    }

    private func ask(_ node: NodeID, for jobs: Set<JobID>?, reply: @escaping PeerProgress.Answer) {
        withAddress(of: node) { [self] result in
            switch result {
            case .failure(let failure): reply(.failure(failure))
            case .success(let (peer, url, loop)):
                let target = NodeProgress.target(jobs)
                var request = BufferedRequest(url: url + target)
                request.headers = [authorization(for: peer, "GET", target, .viewer, APIKey.defaultTenant)]
                request.byteLimit = Limits.nodeProgressByteCountMax
                request.deadline = Int(Limits.nodeProgressWaitSeconds * 1_000)
                request.connectTimeout = request.deadline
                request.start(on: loop) { [self] result in
                    reply(read(result, of: peer))
                }
            }
        }
    }

    private func read(
        _ result: Result<BufferedRequest.Response, BufferedRequest.Failure>, of peer: PeerNode
    ) -> Result<[RunningTransfer], NodeUnavailable> {
        switch result {
        case .failure(let failure):
            note(peer, "\(failure)")
            return .failure(NodeUnavailable(peer, .doesNotAnswer))
        case .success(let response):
            if let reason = refusal(by: peer, response.status, response.header(NodeRequests.nodeField)) {
                return .failure(NodeUnavailable(peer, reason))
            }
            guard response.status == 200, !response.isTruncated, let all = NodeProgress.read(response.body)
            else {
                note(peer, "the response has the status \(response.status) and no progress")
                return .failure(NodeUnavailable(peer, .doesNotAnswer))
            }
            return .success(all)
        }
    }

    // MARK: Requests of clients

    func forward(
        _ request: ForwardedRequest, to node: NodeID,
        reply: @escaping @Sendable (Result<Response, ForwardFailure>) -> Void
    ) {
        let tenant = request.tenant
        let refusal = forwarded.withLock { pool in
            pool.take(for: tenant) ? nil : ForwardFailure.hasTooMany(quota: pool.shareMax)
        }
        if let refusal { return reply(.failure(refusal)) }
        let leave = { @Sendable [self] in forwarded.withLock { $0.release(of: tenant) } }
        withAddress(of: node) { [self] result in
            switch result {
            case .failure(let failure):
                leave()
                reply(.failure(.unavailable(failure)))
            case .success(let (peer, url, loop)):
                var sent = TransferRequest(url: url + request.target)
                sent.method = request.method
                sent.headers = request.fields.map { .init($0.name, $0.value) }
                sent.headers.append(
                    authorization(for: peer, request.method, request.target, request.role, request.tenant))
                sent.connectTimeout = Int(Limits.nodeConnectSeconds * 1_000)
                if let body = request.body {
                    sent.body = body.byteCount.map { .known($0) } ?? .unknown
                }
                ForwardedResponse(
                    self, peer, isHead: request.method == "HEAD", body: request.body, ended: leave,
                    reply: reply
                ).start(sent, on: loop)
            }
        }
    }

    // MARK: Both

    /// Passes a node, its address and the loop for a request to it.
    private func withAddress(
        of node: NodeID,
        _ body: @escaping @Sendable (Result<(PeerNode, String, CurlLoop), NodeUnavailable>) -> Void
    ) {
        peers.peer(node) { [self] result in
            guard case .success(let peer) = result else {
                return body(.failure(NodeUnavailable(node, .isUnknown, heartbeatAt: nil)))
            }
            if peer.hasLeft { return body(.failure(NodeUnavailable(peer, .hasLeft))) }
            if isSilent(peer) { return body(.failure(NodeUnavailable(peer, .isSilent))) }
            guard let url = peer.url else { return body(.failure(NodeUnavailable(peer, .hasNoAddress))) }
            guard let loop else { return body(.failure(NodeUnavailable(peer, .doesNotAnswer))) }
            body(.success((peer, url, loop)))
        }
    }

    private func authorization(
        for peer: PeerNode, _ method: String, _ target: String, _ role: Role, _ tenant: String
    ) -> TransferRequest.Header {
        let signature = NodeSignature(
            time: clock.now(), from: node, to: peer.id, role: role, tenant: tenant)
        return .init("Authorization", signature.authorization(method: method, target: target, key: key))
    }

    /// Returns why a response is not the answer of the node; `nil` if it is. `responder`: the field
    /// `X-Ferry-Node`.
    func refusal(by peer: PeerNode, _ status: Int, _ responder: String?) -> NodeUnavailable.Reason? {
        if responder != peer.id.description {
            note(peer, "the response comes from \(responder ?? "no node")")
            return .isElsewhere
        }
        // Only the signature can be the reason: the client has been authenticated here.
        guard status == 401 else { return nil }
        note(peer, "it refuses the signature of this node")
        return .refuses
    }

    /// Logs why a node does not answer: responses do not show it, because it may name addresses.
    func note(_ peer: PeerNode, _ reason: String) {
        logger.info(
            "Another node does not answer.",
            metadata: ["node.id": "\(peer.id)", "url": "\(peer.url ?? "")", "error": "\(reason)"])
    }

    /// Whether a node that does not answer has also lost its lease.
    func hasFallenSilent(_ node: NodeID) -> Bool {
        guard let peer = peers.all.first(where: { $0.id == node }) else { return true }
        return isSilent(peer)
    }
}
