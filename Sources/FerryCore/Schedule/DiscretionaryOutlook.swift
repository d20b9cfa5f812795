/// Recent conditions that hold back discretionary jobs.
public struct DiscretionaryOutlook: Sendable, Equatable {
    /// Reason for which a discretionary job does not start; `until`: when the reason ends, or `nil` if not
    /// known.
    public enum Hold: Sendable, Equatable {
        /// No window for such jobs is open.
        case window(until: Timestamp?)
        /// The open windows have not enough budget for its bytes.
        case budget(until: Timestamp?)
        /// It waits for a node that is less busy.
        case capacity
    }

    private struct Window: Sendable, Equatable {
        /// End of the current opening, or `nil` if the window is closed.
        var closesAt: Timestamp?
        var opensNextAt: Timestamp?
        /// Bytes of the largest job that can start in it, or `nil` for no limit.
        var byteCountMax: Int64?
    }

    private var windows: [Window]

    /// Creates an outlook. `usage`: of the current openings.
    public init(
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

    /// Returns why a job does not start. `byteCount`: of the job, or `nil` if not known.
    public func hold(byteCount: Int64?, at now: Timestamp) -> Hold {
        guard !windows.isEmpty else { return .capacity }
        let open = windows.filter { $0.closesAt.map { $0 > now } ?? false }
        let next = windows.compactMap(\.opensNextAt).min()
        guard !open.isEmpty else { return .window(until: next) }
        let byteCount = byteCount ?? Discretion.unknownByteCount
        let hasBudget = open.contains { window in window.byteCountMax.map { byteCount <= $0 } ?? true }
        return hasBudget ? .capacity : .budget(until: next)
    }
}
