/// What holds back jobs that may wait for a good moment, as it was seen lately.
package struct DiscretionaryOutlook: Sendable, Equatable {
    /// Why one of them does not start; `until`: when that is over, nil when nobody can say.
    package enum Hold: Sendable, Equatable {
        /// No window for it is open.
        case window(until: Timestamp?)
        /// Those that are open have no room for its bytes.
        case budget(until: Timestamp?)
        /// It could start on a node that is not busy.
        case capacity
    }

    private struct Window: Sendable, Equatable {
        /// Of the opening that it is in.
        var closesAt: Timestamp?
        var opensNextAt: Timestamp?
        /// The largest job that it has room for; nil: any.
        var byteCountMax: Int64?
    }

    private var windows: [Window]

    /// `usage`: what was started in the openings.
    package init(
        _ windows: OffPeakWindows, usage: [String: Discretion.Release.Usage], at now: Timestamp,
        _ zones: some TimeZoneSource
    ) {
        self.windows = windows.discretionary.map { window in
            Window(
                closesAt: window.opening(at: now, zones)?.closesAt,
                opensNextAt: window.nextOpening(after: now, zones),
                byteCountMax: Discretion.Release.byteCountMax(
                    OffPeakWindows([window]), usage: usage, at: now, zones))
        }
    }

    /// `byteCount`: of the job; nil: nobody knows.
    package func hold(byteCount: Int64?, at now: Timestamp) -> Hold {
        guard !windows.isEmpty else { return .capacity }
        let open = windows.filter { $0.closesAt.map { $0 > now } ?? false }
        let next = windows.compactMap(\.opensNextAt).min()
        guard !open.isEmpty else { return .window(until: next) }
        let byteCount = byteCount ?? Discretion.unknownByteCount
        let hasRoom = open.contains { window in window.byteCountMax.map { byteCount <= $0 } ?? true }
        return hasRoom ? .capacity : .budget(until: next)
    }
}
