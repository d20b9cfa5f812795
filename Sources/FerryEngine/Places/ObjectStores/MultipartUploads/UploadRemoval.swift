import Curl
import FerryCore

/// Removes the multipart upload of a job that has ended (`AbortMultipartUpload`): with the key, the proxy,
/// the TLS settings and the egress rules of the job's own requests. Loop thread only.
final class UploadRemoval: EasyDelegate {
    static let stopped = TransferError(
        .connectionLost, "The node is about to stop.", phase: .connecting, isRetryable: true)
    /// Requests of one try: the store may name another region, and the time of its clock.
    private static let requestCountMax = 5
    /// Milliseconds of one request.
    private static let timeout = 10_000
    private static let bodyByteCountMax = 64 << 10

    private let attempt: Attempt
    private unowned let loop: EngineLoop
    private let object: JobSpec.StoreObject
    private let judge: ResponseJudge
    private let reply: @Sendable (TransferError?) -> Void
    private var hop: Hop
    private var requestCount = 0
    private var reader = ResponseHeadReader()
    private var body: [UInt8] = []
    private var hasSent = false

    private var context: EngineContext { loop.context }

    /// `nil` if the job has no upload at a store.
    private init?(
        _ attempt: Attempt, on loop: EngineLoop, _ reply: @escaping @Sendable (TransferError?) -> Void
    ) {
        // A copy may be a download, whose other end has the upload.
        let attempt = attempt.copy?.target ?? attempt
        guard let object = attempt.spec.storeObject, let parts = attempt.upload?.parts,
            case let own = MultipartRequest(kind: .abort, upload: parts.upload),
            let url = object.address(nil).flatMap({ own.url(of: $0) })
        else { return nil }
        self.attempt = attempt
        self.loop = loop
        self.object = object
        self.reply = reply
        judge = ResponseJudge(
            spec: attempt.spec, egress: loop.context.egress, isDecoded: false,
            hasNTLM: loop.context.builder.supportsNTLM)
        hop = Hop(url: url, method: own.method, sendsBody: own.sendsBody)
        hop.store = Boxed(StoreHop(request: own))
    }

    /// Sends the request, and replies with the failure, or with `nil` if the store has the upload no longer.
    static func start(
        _ attempt: Attempt, on loop: EngineLoop, _ reply: @escaping @Sendable (TransferError?) -> Void
    ) {
        guard let removal = UploadRemoval(attempt, on: loop, reply) else { return reply(nil) }
        removal.send()
    }

    /// Whether a response to the request tells that the store has the upload no longer. A 404 without the
    /// store's own reason may be that of a proxy.
    static func isGone(_ status: Int, _ body: [UInt8]) -> Bool {
        if (200..<300).contains(status) { return true }
        guard status == 404 else { return false }
        return ["NoSuchUpload", "NoSuchBucket"].contains(StoreErrorDocument(body)?.code)
    }

    private func send() {
        (reader, body, hasSent) = (ResponseHeadReader(), [], false)
        requestCount += 1
        do throws(TransferError) { try judge.check(hop.url) } catch { return reply(error) }
        var request = context.builder.request(
            for: attempt, hop, body: nil, expects: false, codings: nil, resuming: [])
        request.totalTimeout = Self.timeout
        do throws(CurlError) {
            _ = try loop.multi.start(request, delegate: self)
        } catch {
            reply(meaning(of: error, TransferInfo()))
        }
    }

    // MARK: libcurl's callbacks

    func nameResolved() { context.noteResolved(hop.url, for: attempt) }

    func willConnect(to address: SocketAddress) -> Bool { context.allows(address, for: attempt, hop.url) }

    func willSend(to address: SocketAddress) -> Bool {
        hasSent = true
        return context.allows(address, for: attempt, hop.url)
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        switch reader.take(line) {
        case .more, .interim, .complete: true
        case .invalid, .tooLarge: false
        }
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard body.count + bytes.count <= Self.bodyByteCountMax else { return .abort }
        body.append(contentsOf: bytes)
        return .proceed
    }

    func finished(_ outcome: TransferOutcome) {
        context.metrics.connected(outcome.info)
        guard outcome.blockedAddress == nil else { return reply(blockedAddress(.connecting)) }
        guard let head = reader.head else {
            return reply(outcome.error.map { meaning(of: $0, outcome.info) } ?? .shortBody)
        }
        if Self.isGone(head.status, body) { return reply(nil) }
        guard let next = next(after: head) else { return reply(refusal(head)) }
        hop = next
        send()
    }

    // MARK: Responses

    /// Returns the request that a response leads to: at another address of the same store, or signed in
    /// another way.
    private func next(after head: ResponseHead) -> Hop? {
        guard requestCount < Self.requestCountMax,
            case .follow(let next, _) = judge.judge(
                head, .init(hop: hop), known: nil, now: context.clock.now()),
            next.method == hop.method,
            object.address(next.store?.value.correction)?.origin == next.url.origin
        else { return nil }
        return next
    }

    private func refusal(_ head: ResponseHead) -> TransferError {
        let token = attempt.storeKey(context.nodeCredentials)?.sessionToken
        let error = TransferError.refused(status: head.status)
        return StoreErrorDocument(body, token: token).map {
            error.explained(by: $0, status: head.status, for: attempt.spec)
        } ?? error
    }

    private func meaning(of error: CurlError, _ info: TransferInfo) -> TransferError {
        let facts = TransportContext(
            hasHead: reader.head != nil, isRepeatable: true, sentWholeBody: hasSent,
            proxy: context.builder.proxyScheme(attempt, hop.url), isSecure: hop.url.scheme == .https,
            host: hop.url.host)
        return transportFailure(error, info, facts).error
    }
}
