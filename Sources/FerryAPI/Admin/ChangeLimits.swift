package import FerryCore
internal import HTTPServer

/// How fast the service may be as a whole.
package protocol LimitStore: Sendable {
    func limits(reply: @escaping Reply<TransferLimits>)
    /// On every node. `change` and `isAllowed`, which is asked of what they are like before, may be asked
    /// more than once; where that says no, it is `stale`.
    func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>)
}

extension API {
    /// `GET /v1/admin/limits`
    func readLimits(_ call: RequestContext) {
        ports.limits.limits { answer($0, call) }
    }

    /// `PATCH /v1/admin/limits`: a merge patch.
    func changeLimits(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let patch = try call.mergePatch()
            do throws(InvalidFields) {
                _ = try TransferLimits().merging(patch)
            } catch {
                throw Problem(error)
            }
            // Found right above, whatever it is merged into.
            let isAllowed = call.changeCondition
            ports.limits.changeLimits(if: { isAllowed($0.json) }, { (try? $0.merging(patch)) ?? $0 }) {
                answer($0, call)
            }
        }
    }
}

private func answer(_ result: Result<TransferLimits, StoreError>, _ call: RequestContext) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let limits):
        let json = limits.json
        call.send(200, tag: entityTag(changeable: json, shown: json)) { json }
    }
}
