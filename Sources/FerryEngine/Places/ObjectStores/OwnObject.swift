import Curl
import FerryCore
import OpenSSL

/// The object that a `PUT` with `If-None-Match: *` finds may be its own: the response to an earlier request
/// is lost. A look at the object tells (`HeadObject`).
extension SerialExchanges {
    /// Whether the current request looks at the object.
    var looksAtObject: Bool { exchange.hop.store?.value.request?.kind == .look }

    /// Returns the request that looks at the object, if a response says that it exists and an earlier request
    /// may have made it; else `nil`.
    func look(after head: ResponseHead) -> Hop? {
        guard head.status == 412, attempt.spec.isSentToStore, attempt.spec.destination?.ifExists == .fail,
            exchange.hop.sendsBody, bodyRequestCount > 1 || attempt.number > 1
        else { return nil }
        let look = MultipartRequest(kind: .look)
        var hop = exchange.hop
        (hop.method, hop.sendsBody) = (look.method, look.sendsBody)
        let correction = hop.store?.value.correction ?? StoreCorrection()
        hop.store = Boxed(StoreHop(correction: correction, request: look))
        return hop
    }

    /// Returns what the look has found; `nil` if the response tells nothing about the object.
    func verdict(ofLook head: ResponseHead) -> AttemptMachine.HeadVerdict? {
        guard head.status == 200 || head.status == 404 else { return nil }
        return head.status == 200 && isOwn(head) ? .accept : .refuse(.objectExists, retryAfter: nil)
    }

    private func isOwn(_ head: ResponseHead) -> Bool {
        guard let payload = body.source?.payload, head.contentLength == payload.byteCount else {
            return false
        }
        if let field = payload.checksumField { return head.first(field.name) == field.value }
        return payload.md5 != nil && head.first("etag").flatMap { StoreTag($0).digest } == payload.md5
    }
}

extension TransferError {
    fileprivate static let objectExists = TransferError(
        .destinationExists, "Another object with this key exists (status 412).", phase: .finishing,
        isRetryable: false)
}
