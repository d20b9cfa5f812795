import Curl
import FerryCore
import Sys

/// Measures one request from its start to its end. Whoever runs a request has one, and appends what it makes
/// to the attempt's `TransactionLog`. Loop thread only.
struct TransactionMeter {
    /// What libcurl had counted when the request began: it adds up all requests of one transfer.
    private struct Base {
        var headerBytesSent: Int64 = 0
        var headerBytesReceived: Int64 = 0
        var newConnections = 0
    }

    private let base: Base
    /// Whether it is not the first request of its transfer. libcurl's times are those of the first one then.
    private let isFollower: Bool
    private let attemptStart: Int64
    private let start: Int64
    private let isProxyConnection: Bool
    private let hasBody: Bool
    /// Nanoseconds after `start`; 0: not yet.
    private var requestEnd: Int64 = 0
    private var responseStart: Int64 = 0
    private var decodedByteCount: Int64 = 0
    /// When the request was sent; -1: not yet.
    private var sent: Int64 = -1

    /// `attemptStart`: monotonic nanoseconds. To be called as the request is given to libcurl.
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

    /// What libcurl says about a request that is over, and the meter of the one that it makes by itself now
    /// (with credentials that a challenge asked for, or without `Expect`).
    typealias Followed = (info: TransferInfo, next: TransactionMeter)

    /// libcurl is about to connect for `transfer`.
    func willConnect(_ transfer: Transfer?) -> Followed? {
        // Without an answer it is the same request: a kept connection was dead.
        guard sent >= 0, let info = transfer?.info, info.status >= 200 else { return nil }
        return (info, TransactionMeter(following: self, info))
    }

    /// libcurl is about to send a request of `transfer`.
    mutating func willSend(_ transfer: Transfer?) -> Followed? {
        guard var followed = willConnect(transfer) else {
            sent = isFollower ? monotonicNanoseconds() - start : 0
            return nil
        }
        followed.next.sent = 0
        return followed
    }

    /// The last byte of the body was handed over; libcurl 7.88 does not tell.
    mutating func requestEnded() { requestEnd = monotonicNanoseconds() - start }

    /// The final head is there. Only bodies need it (libcurl takes their first byte for the answer's), and
    /// followers.
    mutating func responseStarted() {
        if hasBody || isFollower { responseStart = monotonicNanoseconds() - start }
    }

    /// So many bytes of the body were taken, decoded.
    mutating func received(_ count: Int) { decodedByteCount += Int64(count) }

    /// `request`: nil when it is the job's own. `url`: what was asked for. `isWhole`: the answer has come to
    /// its end. `isRunning`: it may come to one. `hidesRemote`: the address was refused.
    func metrics(
        _ info: TransferInfo, _ request: TransactionMetrics.Request?, _ url: WebURL, isWhole: Bool,
        isRunning: Bool = false, hidesRemote: Bool = false
    ) -> TransactionMetrics {
        var metrics = TransactionMetrics(fetchStart: (start - attemptStart) / 1_000)
        metrics.request = request
        metrics.status = info.status == 0 ? nil : info.status
        metrics.networkProtocol = info.networkProtocol
        metrics.isProxyConnection = isProxyConnection
        metrics.isReusedConnection =
            info.newConnections == base.newConnections && info.timings.preTransfer > 0
        if isFollower {
            noteFollowing(isReused: metrics.isReusedConnection, isWhole: isWhole, in: &metrics.moments)
        } else {
            if !metrics.isReusedConnection {
                noteConnecting(info, url, isRunning: isRunning, in: &metrics.moments)
            }
            noteExchange(info.timings, isWhole: isWhole, in: &metrics.moments)
        }
        metrics.local = .init(info.localAddress, info.localPort)
        if !hidesRemote { metrics.remote = .init(info.remoteAddress, info.remotePort) }
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
        // Who makes a new connection for the answer to a challenge is asked about this one after the lookup
        // for that, which libcurl has added by then.
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
            // The handshake has failed: then the connection was at its end as well.
            moments[.connectEnd] = max(secureStart, timings.total)
        }
    }

    /// Microseconds. libcurl 7.88 tells when the connection stood only once its handshake has succeeded as
    /// well.
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
        // Our clock began a moment before libcurl's.
        if isWhole { moments[.responseEnd] = max(timings.total, moments[.responseStart] ?? 0) }
    }

    /// By our own clock.
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
    /// Nil without an address.
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
