/// Bytes of the unfinished jobs of a group.
public struct UnfinishedBytes: Sendable, Equatable {
    public var received: Int64 = 0
    public var sent: Int64 = 0
    /// Bytes of the whole bodies, or `nil` if those of a job are not known.
    public var expectedToReceive: Int64?
    public var expectedToSend: Int64?

    /// Creates the sum of no jobs. `isWhole`: `false` if not all jobs will be added.
    public init(isWhole: Bool) {
        if isWhole { (expectedToReceive, expectedToSend) = (0, 0) }
    }

    /// Adds a job. `progress`: that of its running attempt, or `nil`.
    public mutating func add(_ job: JobRecord, _ progress: TransferProgress?) {
        let known = progress ?? job.partialDownload?.progress ?? TransferProgress()
        received += known.bytesReceived
        sent += known.bytesSent
        guard let spec = job.spec else {
            (expectedToReceive, expectedToSend) = (nil, nil)
            return
        }
        // The response to an upload is not the file, and the bodies of other requests are small.
        let toReceive =
            known.bytesExpectedToReceive ?? spec.schedule.expectedBytesToReceive
            ?? (spec.kind == .upload ? 0 : nil)
        let toSend =
            known.bytesExpectedToSend ?? spec.schedule.expectedBytesToSend ?? (spec.kind == .upload ? nil : 0)
        expectedToReceive = expectedToReceive.flatMap { sum in
            toReceive.map { sum + max($0, known.bytesReceived) }
        }
        expectedToSend = expectedToSend.flatMap { sum in toSend.map { sum + max($0, known.bytesSent) } }
    }
}

/// Progress of a group, as it is shown.
public struct JobGroupProgress: ShownObject, Equatable {
    public static let summary =
        "Progress of a group: bytes of succeeded jobs and, if one group is read, of unfinished ones."
    public static let schemaName = "JobGroupProgress"

    private let group: JobGroup

    init(_ group: JobGroup) { self.group = group }

    private var unfinishedCount: Int64 { group.counts.unfinished }
    private var isRunning: Bool { group.state != .finished }
    private var bytesReceived: Int64 { group.bytesReceived + (group.unfinishedBytes?.received ?? 0) }
    private var bytesSent: Int64 { group.bytesSent + (group.unfinishedBytes?.sent ?? 0) }
    private var expectedToReceive: Int64? {
        unfinishedCount == 0
            ? bytesReceived : group.unfinishedBytes?.expectedToReceive.map { group.bytesReceived + $0 }
    }
    private var expectedToSend: Int64? {
        unfinishedCount == 0 ? bytesSent : group.unfinishedBytes?.expectedToSend.map { group.bytesSent + $0 }
    }
    private var fraction: Double? {
        let total = unfinishedCount + group.counts.ended
        return total == 0 ? nil : Double(group.counts.ended) / Double(total)
    }
    private var secondsRemaining: Double? {
        if unfinishedCount == 0 { return 0 }
        return group.jobsPerSecond > 0 ? Double(unfinishedCount) / group.jobsPerSecond : nil
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "bytes_received", \.bytesReceived, "Bytes of the received files and bodies.", [.minimum(0)])
        list.member(
            "bytes_expected_to_receive", \.expectedToReceive,
            "The same of all jobs when they have ended, or null until all are known.")
        list.member("bytes_sent", \.bytesSent, "Bytes of the sent files and bodies.", [.minimum(0)])
        list.member(
            "bytes_expected_to_send", \.expectedToSend,
            "The same of all jobs when they have ended, or null until all are known.")
        list.member(
            "fraction_completed", \.fraction,
            "Ended jobs of all jobs, from 0 to 1, or null for a group without jobs.")
        list.member(
            "bytes_per_second", { $0.isRunning ? $0.group.bytesPerSecond : 0 },
            "Bytes of the jobs that ended in the last minute, in bytes per second; 0 after the end.")
        list.member(
            "seconds_remaining", \.secondsRemaining,
            "Estimated seconds until the end, from the number of jobs that ended in the last minute, or null "
                + "if none did.")
    }
}
