import Curl
import FerryCore
import Glibc

/// Facts about a request at the time when libcurl fails.
struct TransportContext: Sendable {
    var hasHead: Bool
    /// Whether the request may be sent again (`RequestRepetition`).
    var isRepeatable: Bool
    var sentWholeBody: Bool
    /// The proxy that the request went through; `nil` if there was none.
    var proxy: ProxyURL.Scheme?
    var isSecure = false
    /// Host of the URL.
    var host = ""
}

/// Maps libcurl's error and timings to the error that clients see: a code, a phase, and one sentence without
/// addresses.
func transportFailure(_ error: CurlError, _ info: TransferInfo, _ context: TransportContext)
    -> AttemptMachine.Failure
{
    let phase = phase(info, context)
    let mapped =
        headTooLarge(error, info, context) ?? headFault(error) ?? proxyFailure(error, context) ?? tlsFailure(
            error, phase)
        ?? mapped(error, phase)
    // Bytes that only a proxy got have not reached the server.
    let mayHaveReached =
        info.timings.preTransfer > 0 || context.proxy == nil && info.headerBytesSent > 0
    let isRetryable = mapped.isRetryable && (context.isRepeatable || !mayHaveReached)
    let diedOnArrival: Set<Int> = [CurlError.gotNothing, CurlError.sendError, CurlError.receiveError]
    var failure = TransferError(
        mapped.code, mapped.message, phase: mapped.phase, isRetryable: isRetryable,
        isRefusal: mapped.isRefusal)
    if error.code == CurlError.couldNotResolveHost, context.proxy == nil {
        failure.unresolvedHost = context.host
    }
    return AttemptMachine.Failure(
        failure,
        mayRepeatAtOnce: info.newConnections == 0 && !context.hasHead && context.isRepeatable
            && diedOnArrival.contains(error.code) && info.timings.preTransfer > 0)
}

/// The error if the response's head or a trailer is larger than libcurl accepts; `nil` for other failures.
/// Not retryable: the same request would get the same head.
private func headTooLarge(
    _ error: CurlError, _ info: TransferInfo, _ context: TransportContext
) -> TransferError? {
    guard error.code == CurlError.tooLarge else { return nil }
    if info.timings.preTransfer == 0, context.proxy != nil {
        return atProxy(.responseTooLarge, "The head of the proxy's response is too large.", retry: false)
    }
    return TransferError(
        .responseTooLarge, "The head of the server's response is too large.",
        phase: context.hasHead ? .receiving : .waiting, isRetryable: false)
}

/// The error if libcurl rejects the head of the response; `nil` for other failures. Not retryable, as if
/// `ResponseHeadParser` had found the fault.
private func headFault(_ error: CurlError) -> TransferError? {
    let rule =
        switch error.headFault {
        case .statusLine: HeadRule.statusLine
        case .noColon: HeadRule.colon
        case .nul: HeadRule.nul
        case .length: HeadRule.length
        case .foldedFirst: HeadRule.foldedFirst
        case nil: String?.none
        }
    return rule.map {
        TransferError(
            .responseInvalid, "The server's answer is not HTTP. \($0)", phase: .waiting, isRetryable: false)
    }
}

private func phase(_ info: TransferInfo, _ context: TransportContext) -> TransferError.Phase {
    if context.hasHead { return .receiving }
    if info.timings.nameLookup == 0 { return .resolving }
    if info.timings.preTransfer > 0 { return context.sentWholeBody ? .waiting : .sending }
    return info.timings.connect == 0 ? .connecting : .securing
}

private func mapped(_ error: CurlError, _ phase: TransferError.Phase) -> TransferError {
    func make(_ code: TransferError.Code, _ message: String, _ isRetryable: Bool) -> TransferError {
        TransferError(code, message, phase: phase, isRetryable: isRetryable)
    }
    switch error.code {
    case CurlError.couldNotResolveHost:
        return make(.hostNotFound, "The host's name could not be resolved.", true)
    case CurlError.couldNotConnect:
        // Until libcurl 8.0.0 the timings of failed connects are unreliable.
        return TransferError(
            .couldNotConnect, "The server could not be connected.", phase: .connecting, isRetryable: true)
    case CurlError.operationTimedOut:
        return make(.timedOut, "The server could not be connected in time.", true)
    case CurlError.unsupportedProtocol, CurlError.weirdServerReply:
        return make(.responseInvalid, "The server's answer is not HTTP.", true)
    case CurlError.badContentEncoding where error == .unrequestedCoding:
        return make(.responseInvalid, "The server used a coding that was not asked for.", false)
    case CurlError.badContentEncoding:
        return make(.responseInvalid, "The body cannot be decoded as its head says.", true)
    case CurlError.malformedURL, CurlError.badFunctionArgument:
        return make(.internalError, "The request could not be formed.", false)
    case CurlError.sendFailedRewind:
        return make(.requestNotRepeatable, "The request would have had to be sent twice.", false)
    case CurlError.gotNothing, CurlError.sendError, CurlError.receiveError, CurlError.http2Stream,
        CurlError.uploadFailed, CurlError.partialFile:
        // libcurl also reports a partial file for a head that was cut after its Content-Length.
        return phase == .receiving
            ? make(.incompleteBody, "The connection ended before the whole body had arrived.", true)
            : make(.connectionLost, "The connection ended without an answer.", true)
    case CurlError.outOfMemory:
        return make(.internalError, "The node is out of memory.", true)
    default:
        return make(.connectionLost, "The transfer failed.", true)
    }
}

extension AttemptRecord.Diagnostics? {
    /// Whether this node lacked a socket, a port or memory to connect. That says nothing about the host
    /// (socket(2), connect(2)).
    var isOwnShortage: Bool {
        guard let diagnostics = self, diagnostics.curlCode == CurlError.couldNotConnect else { return false }
        return [EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL].contains(diagnostics.osError)
    }
}
