package import FerryCore
internal import HTTPServer

/// Stores the transfer limits of the service as a whole.
package protocol LimitStore: Sendable {
    /// Replies with the current limits.
    func limits(reply: @escaping Reply<TransferLimits>)
    /// Changes the limits on every node. `isAllowed` gets the limits before the change; if it returns
    /// `false`, the result is `stale`. The store may call both functions more than once.
    func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>)
}

/// Shows and changes the transfer limits.
final class LimitHandlers: Sendable {
    private let store: any LimitStore

    init(_ store: any LimitStore) { self.store = store }

    /// `GET /v1/admin/limits`
    func read(_ request: RequestContext) { store.limits(reply: request.onSuccess { send($0, request) }) }

    /// `PATCH /v1/admin/limits`: a merge patch.
    func change(_ request: RequestContext) throws(Problem) {
        let patch = try request.mergePatch()
        _ = try valid(try TransferLimits().merging(patch))
        let isAllowed = request.changeCondition
        store.changeLimits(
            // The merge succeeds: whether a patch is valid does not depend on the limits that it changes.
            if: { isAllowed($0.json) }, { (try? $0.merging(patch)) ?? $0 },
            reply: request.onSuccess { send($0, request) })
    }
}

private func send(_ limits: TransferLimits, _ request: RequestContext) {
    let json = limits.json
    request.send(200, tag: entityTag(changeable: json, shown: json)) { json }
}
