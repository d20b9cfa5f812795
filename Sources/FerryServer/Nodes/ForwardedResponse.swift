import Curl
import FerryAPI
import FerryCore
import HTTPServer
import Synchronization

/// The response of another node on its way to a client, and the body of the client's request on its way to
/// that node. The response is read from the node only as fast as the client reads it, and ends as it ends
/// there: an incomplete body is incomplete for the client too.
///
/// Unchecked: only the thread of the loop uses `transfer`, `head`, `hasReplied` and `progressed`.
final class ForwardedResponse: EasyDelegate, ResponseStream, @unchecked Sendable {
    private enum Phase { case open, complete, broken }

    private struct State {
        var phase = Phase.open
        var chunks: [[UInt8]] = []
        /// Bytes of the first chunk that were read.
        var offset = 0
        var byteCount = 0
        var isPaused = false
        var isCancelled = false
        var hasLength = false
        var waker: StreamWaker?
    }

    /// Fields of the node's response that belong to its connection, or that this server sets itself.
    private static let ownFields: Set<String> = [
        "connection", "keep-alive", "transfer-encoding", "content-length", "trailer", "date", "x-request-id",
        NodeRequests.nodeField.lowercased(), NodeRequests.trailerField.lowercased(),
    ]
    /// Interval in which the heartbeats of a node that sends nothing are looked at.
    private static let watchNanoseconds: Int64 = 1_000_000_000

    private let client: NodeClient
    private let peer: PeerNode
    private let isHead: Bool
    private let body: ForwardedBody?
    private let ended: @Sendable () -> Void
    private let reply: @Sendable (Result<Response, ForwardFailure>) -> Void
    private let state = Mutex(State())
    private var loop: CurlLoop?
    private var transfer: Transfer?
    private var head: [TransferRequest.Header] = []
    private var status = 0
    private var hasReplied = false
    private var hasEnded = false
    private var progressed = true

    /// `ended`: called once, when the request is over. `reply`: called once, with the head of the response.
    init(
        _ client: NodeClient, _ peer: PeerNode, isHead: Bool, body: ForwardedBody?,
        ended: @escaping @Sendable () -> Void,
        reply: @escaping @Sendable (Result<Response, ForwardFailure>) -> Void
    ) {
        self.client = client
        self.peer = peer
        self.isHead = isHead
        self.body = body
        self.ended = ended
        self.reply = reply
    }

    func start(_ request: TransferRequest, on loop: CurlLoop) {
        self.loop = loop
        body?.whenReadable { [weak self] in self?.resume() }
        let isAccepted = loop.perform { [self] multi in
            do throws(CurlError) {
                transfer = try multi.start(request, delegate: self)
                watch(multi)
            } catch {
                end("\(error)")
            }
        }
        if !isAccepted { end("the loop has stopped") }
    }

    private func resume() { loop?.perform { [self] _ in transfer?.resume() } }

    // MARK: On the thread of the loop

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        guard let body else { return .bytes(0) }
        progressed = true
        switch body.read(into: buffer) {
        case .bytes(let count): return .bytes(count)
        case .none: return .pause
        case .end: return .bytes(0)
        case .cancelled: return .abort
        }
    }

    /// Ends a response for which a dead node can no longer do anything: its connection may stay open.
    private func watch(_ multi: CurlMulti) {
        multi.after(nanoseconds: Self.watchNanoseconds) { [self, weak multi] in
            guard let multi, !hasEnded else { return }
            let isWaiting = state.withLock { !$0.isPaused }
            if isWaiting, !progressed, client.hasFallenSilent(peer.id) {
                transfer?.cancel()
                return end("it sends neither bytes nor heartbeats")
            }
            progressed = false
            watch(multi)
        }
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        progressed = true
        if line.isEmpty {
            if status >= 200 { sendHead() }
            return true
        }
        // After the head come the trailers, which the head has promised.
        guard !hasReplied else { return true }
        let text = String(decoding: line, as: UTF8.self)
        if text.hasPrefix("HTTP/") {
            head = []
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        } else if let colon = text.firstIndex(of: ":") {
            head.append(.init(String(text[..<colon]), String(text[text.index(after: colon)...]).trimmed))
        }
        return true
    }

    private func sendHead() {
        guard !hasReplied else { return }
        let names = head.map { ($0.name.lowercased(), $0.value) }
        func value(_ name: String) -> String? { names.first { $0.0 == name }?.1 }
        if let reason = client.refusal(by: peer, status, value(NodeRequests.nodeField.lowercased())) {
            hasReplied = true
            reply(.failure(.unavailable(NodeUnavailable(peer, reason))))
            transfer?.cancel()
            return finish()
        }
        var response = Response(status: status)
        for field in head where !Self.ownFields.contains(field.name.lowercased()) {
            response.fields.append(field.name, field.value)
        }
        for promised in names where promised.0 == NodeRequests.trailerField.lowercased() {
            guard let colon = promised.1.firstIndex(of: ":") else { continue }
            response.trailers.append(
                String(promised.1[..<colon]), String(promised.1[promised.1.index(after: colon)...]).trimmed)
        }
        let length = value("content-length").flatMap { Int64($0) }
        state.withLock { $0.hasLength = length != nil }
        // 204 and 304 have no body, whatever their fields say.
        if status != 204, status != 304 { response.body = .stream(self, length: length) }
        hasReplied = true
        reply(.success(response))
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        progressed = true
        let (verdict, waker) = state.withLock { state -> (BodyVerdict, StreamWaker?) in
            if state.isCancelled { return (.abort, nil) }
            guard state.byteCount < Limits.nodeResponseByteCountMax else {
                state.isPaused = true
                return (.pause, nil)
            }
            state.chunks.append(Array(bytes))
            state.byteCount += bytes.count
            return (.proceed, state.waker)
        }
        waker?.wake()
        return verdict
    }

    func finished(_ outcome: TransferOutcome) {
        let isWhole = outcome.error == nil && outcome.info.hasWholeHead
        end(isWhole ? nil : "\(outcome.error?.text ?? "the head of its response is incomplete")")
    }

    /// Ends the response. `failure`: why it is incomplete.
    private func end(_ failure: String?) {
        if let failure, !state.withLock({ $0.isCancelled }) { client.note(peer, failure) }
        if !hasReplied {
            hasReplied = true
            reply(.failure(.unavailable(NodeUnavailable(peer, .doesNotAnswer))))
        }
        let waker = state.withLock { state in
            state.phase = failure == nil ? .complete : .broken
            return state.waker
        }
        waker?.wake()
        finish()
    }

    private func finish() {
        guard !hasEnded else { return }
        hasEnded = true
        transfer = nil
        ended()
    }

    // MARK: On a thread of the server

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let (step, resumes) = state.withLock { state in
            let count = Self.take(&state, into: buffer)
            let resumes = state.isPaused && state.byteCount <= Limits.nodeResponseByteCountMax / 2
            if resumes { state.isPaused = false }
            if count > 0 { return (StreamStep.bytes(count), resumes) }
            switch state.phase {
            case .open: return (.wait, resumes)
            case .complete: return (.end, resumes)
            case .broken: return (.fail, resumes)
            }
        }
        if resumes { resume() }
        return step
    }

    private static func take(_ state: inout State, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        var count = 0
        while count < buffer.count, let first = state.chunks.first {
            let some = first[state.offset...].prefix(buffer.count - count)
            UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyBytes(from: some)
            count += some.count
            state.offset += some.count
            if state.offset == first.count {
                state.chunks.removeFirst()
                state.offset = 0
            }
        }
        state.byteCount -= count
        return count
    }

    /// The bytes of a body with a length come soon, and show whether the client still reads. A body without a
    /// length may wait for hours.
    func clientStoppedSending() -> Bool { state.withLock { $0.hasLength } }

    func cancelled() {
        state.withLock { state in
            state.isCancelled = true
            state.waker = nil
            state.chunks = []
            state.byteCount = 0
        }
        loop?.perform { [self] _ in
            transfer?.cancel()
            finish()
        }
    }
}
