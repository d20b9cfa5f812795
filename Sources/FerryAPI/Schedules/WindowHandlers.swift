package import FerryCore
internal import HTTPServer

/// Stores the off-peak windows: times at which discretionary jobs begin and other rates apply.
package protocol WindowStore: Sendable {
    /// Replies with the current windows.
    func windows(reply: @escaping Reply<OffPeakWindows>)
    /// Changes the windows on every node. The store may call `change` more than once; what it throws is the
    /// inner failure. `isAllowed` as in `LimitStore`.
    func changeWindows(
        if isAllowed: @escaping @Sendable (OffPeakWindows) -> Bool,
        _ change: @escaping @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows,
        reply: @escaping Reply<Result<OffPeakWindows, InvalidFields>>)
}

/// Shows and changes the off-peak windows.
final class WindowHandlers: Sendable {
    private let store: any WindowStore
    private let zones: any TimeZoneSource
    private let clock: any WallClock

    init(_ ports: APIPorts) {
        store = ports.store.windows
        zones = ports.zones
        clock = ports.clock
    }

    /// `GET /v1/admin/windows`
    func read(_ request: RequestContext) {
        store.windows(reply: request.onSuccess { [self] windows in send(windows, request) })
    }

    /// `PATCH /v1/admin/windows`: a merge patch.
    func change(_ request: RequestContext) throws(Problem) {
        let patch = try request.mergePatch()
        let isAllowed = request.changeCondition
        let zones = zones
        let change: @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows = {
            windows throws(InvalidFields) in
            try windows.merging(patch, FieldContext(zones: zones))
        }
        store.changeWindows(
            if: { isAllowed($0.json) }, change,
            reply: request.onValid { [self] windows in send(windows, request) })
    }

    private func send(_ windows: OffPeakWindows, _ request: RequestContext) {
        let view = windows.view(at: clock.now(), zones)
        request.send(200, tag: entityTag(changeable: windows.json, shown: view)) { view }
    }
}
