import Curl
import FerryCore
import Glibc

/// What is known about a request when libcurl gives up.
struct TransportContext: Sendable {
    var hasHead: Bool
    /// Whether a repetition can do no harm.
    var isRepeatable: Bool
    var sentWholeBody: Bool
    /// What the request went through, and whether it was one for https.
    var proxy: ProxyURL.Scheme?
    var isSecure = false
}

/// libcurl's code and timings → what the client is told: a code, a phase, one plain sentence without
/// addresses.
func transportFailure(_ error: CurlError, _ info: TransferInfo, _ context: TransportContext)
    -> AttemptMachine.Failure
{
    let phase = phase(info, context)
    let mapped =
        headTooLarge(error, info, context) ?? proxyFailure(error, context) ?? tlsFailure(error, phase)
        ?? mapped(error, phase)
    // What was sent to a proxy has not reached the server.
    let mayHaveReached =
        info.timings.preTransfer > 0 || context.proxy == nil && info.headerBytesSent > 0
    let isRetryable = mapped.isRetryable && (context.isRepeatable || !mayHaveReached)
    let diedOnArrival: Set<Int> = [CurlError.gotNothing, CurlError.sendError, CurlError.receiveError]
    return AttemptMachine.Failure(
        TransferError(
            mapped.code, mapped.message, phase: mapped.phase, isRetryable: isRetryable,
            isAnswer: mapped.isAnswer),
        mayRepeatAtOnce: info.newConnections == 0 && !context.hasHead && context.isRepeatable
            && diedOnArrival.contains(error.code) && info.timings.preTransfer > 0)
}

/// The head of the response, or a trailer, is more than libcurl takes; nil for other failures. The same
/// request would get the same head.
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
        // Until 8.0.0 the timings of connects that failed are not to be trusted.
        return TransferError(
            .couldNotConnect, "The server could not be connected.", phase: .connecting, isRetryable: true)
    case CurlError.operationTimedOut:
        return make(.timedOut, "The server could not be connected in time.", true)
    case CurlError.unsupportedProtocol, CurlError.weirdServerReply:
        return make(.responseInvalid, "The server's answer is not HTTP.", true)
    case CurlError.badContentEncoding where error == .unaskedCoding:
        return make(.responseInvalid, "The server used a coding that was not asked for.", false)
    case CurlError.badContentEncoding:
        return make(.responseInvalid, "The body cannot be decoded as its head says.", true)
    case CurlError.malformedURL, CurlError.badFunctionArgument:
        return make(.internalError, "The request could not be formed.", false)
    case CurlError.sendFailedRewind:
        return make(.requestNotRepeatable, "The request would have had to be sent twice.", false)
    case CurlError.gotNothing, CurlError.sendError, CurlError.receiveError, CurlError.http2Stream,
        CurlError.uploadFailed, CurlError.partialFile:
        // libcurl calls a head that was cut behind its Content-Length a partial file as well.
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
    /// Whether this node had no socket, no port or no memory left to connect with: that says nothing of the
    /// host (socket(2), connect(2)).
    var isOwnShortage: Bool {
        guard let diagnostics = self, diagnostics.curlCode == CurlError.couldNotConnect else { return false }
        return [EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL].contains(diagnostics.osError)
    }
}
