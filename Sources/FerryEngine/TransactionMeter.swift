import Curl
import FerryCore
import Sys

/// Measures one request from its start to its end. Whoever runs a request has one, and appends what it makes
/// to the attempt's `TransactionLog`. Loop thread only.
struct TransactionMeter {
    private let start: Int64
    private let fetchStart: Int64
    private let isProxyConnection: Bool
    private let hasBody: Bool
    /// Nanoseconds after `start`; 0: not yet.
    private var requestEnd: Int64 = 0
    private var responseStart: Int64 = 0
    private var decodedByteCount: Int64 = 0

    /// `attemptStart`: monotonic nanoseconds. To be called as the request is given to libcurl.
    init(_ request: TransferRequest, attemptStart: Int64) {
        start = monotonicNanoseconds()
        fetchStart = (start - attemptStart) / 1_000
        isProxyConnection = request.proxy != nil
        hasBody = request.body != .none && request.body != .known(0)
    }

    /// The last byte of the body was handed over; libcurl 7.88 does not tell.
    mutating func requestEnded() { requestEnd = monotonicNanoseconds() - start }

    /// The final head is there. Only bodies need it: libcurl takes their first byte for the answer's.
    mutating func responseStarted() {
        if hasBody { responseStart = monotonicNanoseconds() - start }
    }

    /// So many bytes of the body were taken, decoded.
    mutating func received(_ count: Int) { decodedByteCount += Int64(count) }

    /// `request`: nil when it is the job's own. `url`: what was asked for. `isWhole`: the answer has come to
    /// its end. `hidesRemote`: the address was refused.
    func metrics(
        _ info: TransferInfo, _ request: TransactionMetrics.Request?, _ url: WebURL, isWhole: Bool,
        hidesRemote: Bool = false
    ) -> TransactionMetrics {
        var metrics = TransactionMetrics(fetchStart: fetchStart)
        metrics.request = request
        metrics.status = info.status == 0 ? nil : info.status
        metrics.networkProtocol = info.networkProtocol
        metrics.isProxyConnection = isProxyConnection
        metrics.isReusedConnection = info.newConnections == 0 && info.timings.preTransfer > 0
        if !metrics.isReusedConnection { noteConnecting(info.timings, url, in: &metrics.moments) }
        noteExchange(info.timings, isWhole: isWhole, in: &metrics.moments)
        metrics.local = .init(info.localAddress, info.localPort)
        if !hidesRemote { metrics.remote = .init(info.remoteAddress, info.remotePort) }
        if !info.tlsProtocolVersion.isEmpty {
            metrics.tls = .init(
                protocolVersion: info.tlsProtocolVersion, cipherSuite: info.tlsCipherSuite)
        }
        metrics.byteCounts.requestHeader = info.headerBytesSent
        metrics.byteCounts.requestBody = info.bodyBytesSent
        metrics.byteCounts.responseHeader = info.headerBytesReceived
        metrics.byteCounts.responseBody = info.bodyBytesReceived
        metrics.byteCounts.decodedBody = decodedByteCount
        return metrics
    }

    private func noteConnecting(
        _ timings: TransferTimings, _ url: WebURL, in moments: inout TransactionMetrics.Moments
    ) {
        if url.address == nil {
            moments[.domainLookupStart] = 0
            if timings.nameLookup > 0 { moments[.domainLookupEnd] = timings.nameLookup }
        }
        guard timings.nameLookup > 0 else { return }
        moments[.connectStart] = timings.nameLookup
        // libcurl 7.88 tells when the connection stood only once its handshake has succeeded as well.
        guard timings.connect > 0 else { return }
        guard url.scheme == .https else {
            moments[.connectEnd] = timings.connect
            return
        }
        moments[.secureConnectionStart] = timings.connect
        guard timings.appConnect > 0 else { return }
        moments[.secureConnectionEnd] = timings.appConnect
        moments[.connectEnd] = timings.appConnect
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
