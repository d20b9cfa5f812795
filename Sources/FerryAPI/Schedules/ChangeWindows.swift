package import FerryCore
internal import HTTPServer

/// When the service has time for what may wait, and other rates.
package protocol WindowStore: Sendable {
    func windows(reply: @escaping Reply<OffPeakWindows>)
    /// On every node. `change` may be asked more than once; what it throws is the inner failure. `isAllowed`
    /// as in `LimitStore`.
    func changeWindows(
        if isAllowed: @escaping @Sendable (OffPeakWindows) -> Bool,
        _ change: @escaping @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows,
        reply: @escaping Reply<Result<OffPeakWindows, InvalidFields>>)
}

extension API {
    /// `GET /v1/admin/windows`
    func readWindows(_ call: RequestContext) {
        ports.windows.windows { [self] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let windows): sendWindows(windows, call)
            }
        }
    }

    /// `PATCH /v1/admin/windows`: a merge patch.
    func changeWindows(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let patch = try call.mergePatch()
            let zones = ports.zones
            let change: @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows = {
                windows throws(InvalidFields) in
                try windows.merging(patch, zones)
            }
            let isAllowed = call.changeCondition
            ports.windows.changeWindows(if: { isAllowed($0.json) }, change) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(.failure(let invalid)): call.fail(Problem(invalid))
                case .success(.success(let windows)): sendWindows(windows, call)
                }
            }
        }
    }

    private func sendWindows(_ windows: OffPeakWindows, _ call: RequestContext) {
        let view = windows.view(at: ports.clock.now(), ports.zones)
        call.send(200, tag: entityTag(changeable: windows.json, shown: view)) { view }
    }
}
