import Curl
import FerryCore
import OpenSSL

/// Requests, and the connections that they use.
extension MultipartExchanges {
    /// Sends a request that is the only one.
    func ask(_ kind: MultipartRequest.Kind) {
        var own = MultipartRequest(kind: kind, upload: conversation.upload ?? "")
        var bytes = StoreExchange.Bytes.memory([])
        switch kind {
        case .create: own.contentType = body.source?.contentType
        case .complete:
            let completion = parts.completion
            own.payload = PayloadDigests(
                sha256: hexEncoded(Digest.of(completion)), checksum: nil, byteCount: Int64(completion.count))
            own.object = digests
            bytes = .memory(completion)
        case .list, .part, .look, .abort: break
        }
        send(own, bytes)
    }

    /// Sends the next part. Returns `false` if no connection is free for it.
    func sendPart() -> Bool {
        guard let url = object.address(correction), let connection = connect(to: url) else { return false }
        guard let (number, digests) = parts.takeReady() else {
            disconnect(connection)
            return false
        }
        let own = MultipartRequest(
            kind: .part(number), upload: conversation.upload ?? "", payload: digests.payload)
        begin(
            own, .source(source, from: parts.division.range(of: number).lowerBound), on: connection)
        return true
    }

    private func send(_ own: MultipartRequest, _ bytes: StoreExchange.Bytes) {
        guard let hop = hop(of: own) else { return fail(.uploadUnusable) }
        guard let connection = connect(to: hop.url) else { return }
        begin(own, bytes, on: connection)
    }

    private func begin(_ own: MultipartRequest, _ bytes: StoreExchange.Bytes, on connection: RequestScope) {
        guard let hop = hop(of: own) else {
            disconnect(connection)
            return fail(.uploadUnusable)
        }
        let exchange = StoreExchange(own, hop, bytes, of: self, on: connection)
        exchanges.append(exchange)
        exchange.begin()
    }

    /// Returns a request as the store has asked for it so far; `nil` if it has no URL.
    func hop(of own: MultipartRequest) -> Hop? {
        guard let url = object.address(correction).flatMap({ own.url(of: $0) }) else { return nil }
        var hop = Hop(url: url, method: own.method, sendsBody: own.sendsBody)
        hop.store = Boxed(StoreHop(correction: correction, request: own))
        return hop
    }

    func request(for exchange: StoreExchange) -> TransferRequest {
        var request = context.builder.request(
            for: attempt, exchange.exchange.hop, body: nil, expects: false, codings: nil, resuming: [])
        if let pacing = exchange.exchange.pacing {
            request.receiveBufferSize = min(pacing.portion, EngineLimits.receiveBufferSize)
            request.sendBufferSize = EngineLimits.pacedBufferSize
        } else if exchange.part != nil {
            request.sendBufferSize = EngineLimits.bulkSendBufferSize
        }
        return request
    }

    // MARK: Connections

    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard connections.asked.contains(scope) else {
            return fetched?.by.connectionAnswered(grant, at: scope) ?? false
        }
        note(grant, scope)
        fill()
        giveBackSpares()
        return true
    }

    /// No byte moves, and the host may not be used now: the attempt is put off, unless an answer about
    /// a connection is still to come.
    func waitForHosts() {
        guard connections.asked.isEmpty, let hold else { return }
        isSending = false
        running.handle(.putOff(hold))
    }

    // MARK: Time

    func secondPassed(_ now: Int64, _ seconds: Double) {
        let phase = exchanges.first?.exchange.phase ?? .connecting
        if isSending, running.endIfOverdue(now, phase) { return }
        for one in exchanges { one.secondPassed(seconds) }
        fetched?.by.secondPassed(seconds)
        if isSending { fill() }
    }

    var activity: ExchangeActivity {
        ExchangeActivity(
            idleTime: isSending ? exchanges.map(\.exchange.idleTime).min() ?? sourceIdleTime : 0,
            isConnecting: fetched == nil && exchanges.allSatisfy { !$0.exchange.mayHaveReached },
            waitsForServer: isSending
                && (exchanges.contains { $0.exchange.isReading } || fetched?.by.exchange.isReading ?? false),
            waitsForPlace: isSending && exchanges.isEmpty && isHashing)
    }

    private var sourceIdleTime: Int64 { isHashing ? 0 : fetched?.by.exchange.idleTime ?? 0 }

    var unansweredScope: RequestScope? {
        // While a part is sent, no response is missed.
        guard exchanges.count == 1, let only = exchanges.first, only.part == nil, !attempt.hasOwnProxy,
            only.exchange.mayHaveReached, only.exchange.head == nil
        else { return nil }
        return attempt.scope(of: only.exchange.hop.url)
    }

    var runningTransactions: [TransactionMetrics] { exchanges.compactMap(\.exchange.runningTransaction) }
}

extension TransferError {
    /// The identifier of an upload makes no URL.
    static let uploadUnusable = TransferError(
        .responseInvalid, "The store has named an upload that no URL can have.", phase: .waiting,
        isRetryable: false)
}
