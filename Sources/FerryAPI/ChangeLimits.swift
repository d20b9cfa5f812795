package import FerryCore
internal import HTTPServer

/// How fast the service may be as a whole.
package protocol LimitStore: Sendable {
    func limits(reply: @escaping Reply<TransferLimits>)
    /// On every node. `change` may be asked more than once.
    func changeLimits(
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>)
}

extension API {
    /// `GET /v1/admin/limits`
    func readLimits(_ call: Call) {
        ports.limits.limits { answer($0, call) }
    }

    /// `PATCH /v1/admin/limits`: a merge patch.
    func changeLimits(_ call: Call) {
        call.answering { () throws(Problem) in
            let patch = try call.mergePatch()
            do throws(InvalidFields) {
                _ = try TransferLimits().merging(patch)
            } catch {
                throw Problem(error)
            }
            // Found right above, whatever it is merged into.
            ports.limits.changeLimits({ (try? $0.merging(patch)) ?? $0 }) { answer($0, call) }
        }
    }
}

private func answer(_ result: Result<TransferLimits, StoreError>, _ call: Call) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let limits): call.send(200, json: limits.json)
    }
}
