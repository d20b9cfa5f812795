import FerryCore

/// An attempt in the hands of its loop: one stream (`LiveTransfer`), or parts and mirrors
/// (`SegmentedTransfer`). Loop thread only.
protocol RunningAttempt: AnyObject {
    func begin()
    func handle(_ event: AttemptMachine.Event)
    /// What earlier attempts have left was looked for.
    func prepared(_ resumption: Resumption?)
    func report(_ outcome: AttemptResult.Outcome, leavesBytes: Bool)
    /// File threads are no longer far behind.
    func digestCaughtUp()
    /// The job has another limit of its own, in bytes a second; nil: none.
    func changeRate(_ bytesPerSecond: Int64?)
    /// Limits that others share have changed.
    func limitsChanged()
    /// The attempt as far as it is.
    var snapshot: AttemptSnapshot { get }
    /// About once a second; `now` in monotonic nanoseconds, `seconds` since the last time.
    func secondPassed(_ now: Int64, _ seconds: Double)
}
