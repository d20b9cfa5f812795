import Curl
import FerryCore
import Sys

/// Measures one request from its start to its end. Loop thread only.
struct TransactionMeter {
    /// libcurl's counters when the request began: libcurl adds up all requests of one transfer.
    private struct Base {
        var headerBytesSent: Int64 = 0
        var headerBytesReceived: Int64 = 0
        var newConnections = 0
    }

    private let base: Base
    /// Whether libcurl sends the request by itself after another one. libcurl's times are those of the first
    /// one then.
    private let isFollower: Bool
    private let attemptStart: Int64
    private let start: Int64
    private let isProxyConnection: Bool
    private let hasBody: Bool
    /// Nanoseconds after `start`; 0 if it has not happened yet.
    private var requestEnd: Int64 = 0
    private var responseStart: Int64 = 0
    private var decodedByteCount: Int64 = 0
    /// When the request was sent, in nanoseconds after `start`; -1 if it was not.
    private var sent: Int64 = -1

    /// Begins as the request is given to libcurl. `attemptStart`: monotonic nanoseconds.
    init(_ request: TransferRequest, attemptStart: Int64) {
        self.attemptStart = attemptStart
        start = monotonicNanoseconds()
        isProxyConnection = request.proxy != nil
        hasBody = request.body != .none && request.body != .known(0)
        base = Base()
        isFollower = false
    }

    private init(following last: TransactionMeter, _ info: TransferInfo) {
        attemptStart = last.attemptStart
        start = monotonicNanoseconds()
        isProxyConnection = last.isProxyConnection
        hasBody = last.hasBody
        base = Base(
            headerBytesSent: info.headerBytesSent, headerBytesReceived: info.headerBytesReceived,
            newConnections: info.newConnections)
        isFollower = true
    }

    /// Measurements of libcurl for a request that is over, and the meter of the one that it sends by itself
    /// next: with credentials after a challenge, without `Expect`, or again after a dead kept connection.
    typealias Followed = (info: TransferInfo, next: TransactionMeter)

    /// libcurl is about to connect for `transfer`. Returns the request that is over, if one is.
    func willConnect(_ transfer: Transfer?) -> Followed? {
        guard sent >= 0, let info = transfer?.info else { return nil }
        return (info, TransactionMeter(following: self, info))
    }

    /// libcurl is about to send a request of `transfer`. Returns the request that is over, if one is.
    mutating func willSend(_ transfer: Transfer?) -> Followed? {
        guard var followed = willConnect(transfer) else {
            sent = isFollower ? monotonicNanoseconds() - start : 0
            return nil
        }
        followed.next.sent = 0
        return followed
    }

    /// The last byte of the body was given to libcurl, which does not report it (7.88).
    mutating func requestEnded() { requestEnd = monotonicNanoseconds() - start }

    /// The final head has come. Only requests with a body need it, since libcurl takes the body's first byte
    /// for the response's, and followers.
    mutating func responseStarted() {
        if hasBody || isFollower { responseStart = monotonicNanoseconds() - start }
    }

    /// So many decoded bytes of the body have come.
    mutating func received(_ count: Int) { decodedByteCount += Int64(count) }

    /// `isWhole`: the response has come to its end. `isRunning`: it may come to one. `isBlocked`: the address
    /// was refused.
    func metrics(
        _ info: TransferInfo, _ request: TransactionRecorder.Request, isWhole: Bool, isRunning: Bool = false,
        isBlocked: Bool = false
    ) -> TransactionMetrics {
        let hop = request.hop
        var metrics = TransactionMetrics(fetchStart: (start - attemptStart) / 1_000)
        if !request.isOwn { metrics.request = .init(method: hop.method, url: hop.url.string) }
        // An interim response is none.
        metrics.status = info.status < 200 && info.status != 101 ? nil : info.status
        metrics.networkProtocol = info.networkProtocol
        metrics.isProxyConnection = isProxyConnection
        metrics.isReusedConnection =
            info.newConnections == base.newConnections && info.timings.preTransfer > 0
        if isFollower {
            noteFollowing(isReused: metrics.isReusedConnection, isWhole: isWhole, in: &metrics.moments)
        } else {
            if !metrics.isReusedConnection {
                noteConnecting(info, hop.url, isRunning: isRunning, in: &metrics.moments)
            }
            noteExchange(info.timings, isWhole: isWhole, in: &metrics.moments)
        }
        metrics.local = .init(info.localAddress, info.localPort)
        if !isBlocked, !request.hidesRemote { metrics.remote = .init(info.remoteAddress, info.remotePort) }
        if !info.tlsProtocolVersion.isEmpty {
            metrics.tls = .init(
                protocolVersion: info.tlsProtocolVersion, cipherSuite: info.tlsCipherSuite)
        }
        metrics.byteCounts.requestHeader = info.headerBytesSent - base.headerBytesSent
        metrics.byteCounts.requestBody = info.bodyBytesSent
        metrics.byteCounts.responseHeader = info.headerBytesReceived - base.headerBytesReceived
        metrics.byteCounts.responseBody = info.bodyBytesReceived
        metrics.byteCounts.decodedBody = decodedByteCount
        return metrics
    }

    private func noteConnecting(
        _ info: TransferInfo, _ url: WebURL, isRunning: Bool, in moments: inout TransactionMetrics.Moments
    ) {
        let timings = info.timings
        // If libcurl makes a new connection to answer a challenge, it has added the lookup for that when it
        // reports this one.
        let lookedUp = timings.connect > 0 ? min(timings.nameLookup, timings.connect) : timings.nameLookup
        if url.address == nil {
            moments[.domainLookupStart] = 0
            if lookedUp > 0 { moments[.domainLookupEnd] = lookedUp }
        }
        guard lookedUp > 0 else { return }
        moments[.connectStart] = lookedUp
        guard url.scheme == .https else {
            if timings.connect > 0 { moments[.connectEnd] = timings.connect }
            return
        }
        guard let secureStart = secureStart(info) else { return }
        moments[.secureConnectionStart] = secureStart
        if timings.appConnect > 0 {
            moments[.secureConnectionEnd] = timings.appConnect
            moments[.connectEnd] = timings.appConnect
        } else if !isRunning {
            // The handshake has failed, and with it the connection.
            moments[.connectEnd] = max(secureStart, timings.total)
        }
    }

    /// Start of the handshake in microseconds. libcurl 7.88 reports when the connection was made only after
    /// its handshake has succeeded.
    private func secureStart(_ info: TransferInfo) -> Int64? {
        if info.timings.connect > 0 { return info.timings.connect }
        guard !isProxyConnection, info.connectedAt > 0 else { return nil }
        return max(info.timings.nameLookup, (info.connectedAt - start) / 1_000)
    }

    private func noteExchange(
        _ timings: TransferTimings, isWhole: Bool, in moments: inout TransactionMetrics.Moments
    ) {
        guard timings.preTransfer > 0 else { return }
        moments[.requestStart] = timings.preTransfer
        if !hasBody {
            moments[.requestEnd] = timings.preTransfer
            if timings.startTransfer > 0 { moments[.responseStart] = timings.startTransfer }
        } else {
            if requestEnd > 0 { moments[.requestEnd] = requestEnd / 1_000 }
            if responseStart > 0 { moments[.responseStart] = responseStart / 1_000 }
        }
        // This meter's clock begins a moment before libcurl's.
        if isWhole { moments[.responseEnd] = max(timings.total, moments[.responseStart] ?? 0) }
    }

    /// Fills in the times of a follower by this meter's clock.
    private func noteFollowing(
        isReused: Bool, isWhole: Bool, in moments: inout TransactionMetrics.Moments
    ) {
        if !isReused { moments[.connectStart] = 0 }
        guard sent >= 0 else { return }
        if !isReused { moments[.connectEnd] = sent / 1_000 }
        moments[.requestStart] = sent / 1_000
        if !hasBody || requestEnd > 0 { moments[.requestEnd] = max(sent, requestEnd) / 1_000 }
        if responseStart > 0 { moments[.responseStart] = responseStart / 1_000 }
        if isWhole { moments[.responseEnd] = (monotonicNanoseconds() - start) / 1_000 }
    }
}

extension TransactionMetrics.Endpoint {
    /// `nil` without an address.
    fileprivate init?(_ address: String, _ port: Int) {
        guard !address.isEmpty else { return nil }
        self.init(address: address, port: UInt16(truncatingIfNeeded: port))
    }
}

extension TransferInfo {
    fileprivate var networkProtocol: TransactionMetrics.NetworkProtocol? {
        switch httpVersion {
        case "1.0": .http10
        case "1.1": .http11
        case "2": .http2
        case "3": .http3
        default: nil
        }
    }
}
