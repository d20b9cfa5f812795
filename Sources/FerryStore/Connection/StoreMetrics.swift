package import FerryCore
import Synchronization

/// Counters of the store. Any thread.
package final class StoreMetrics: Sendable {
    /// The counters at one moment: sums since the start, durations in seconds.
    package struct Snapshot: Sendable, Equatable {
        package var submitBatches: Int64
        package var submittedJobs: Int64
        package var leasedAtOnceJobs: Int64
        package var submitSeconds: Double
        /// Jobs that were refused because too many submissions waited, or (`surplusJobs`) because their
        /// tenant had too many jobs.
        package var overloadedJobs: Int64
        package var surplusJobs: Int64
        package var dispatchBatches: Int64
        package var recordedResults: Int64
        package var claimedJobs: Int64
        package var dispatchSeconds: Double
        package var reconnects: Int64
        /// Results that came after their lease was lost.
        package var fencedResults: Int64
        /// Jobs taken from dead nodes, and leases of this node that its process did not know.
        package var reclaimedJobs: Int64
        /// Jobs of schedules, and (the next three) occurrences without a job.
        package var scheduledJobs: Int64
        package var missedOccurrences: Int64
        package var skippedOccurrences: Int64
        package var surplusOccurrences: Int64
        /// Discretionary jobs that began before their latest start.
        package var discretionaryStarts: Int64
        /// Age of the oldest transaction that keeps dead rows from being removed, at the last sweep.
        package var oldestTransactionSeconds: Double
        /// Finished jobs that were removed after their retention; estimated for whole partitions.
        package var removedJobs: Int64
        /// Acknowledged jobs.
        package var acknowledgedJobs: Int64
        /// Reminders of jobs that are not acknowledged, including the last one of each job.
        package var reminders: Int64
        /// Abandoned uploads that their stores have removed, and those that stay there: a day of tries has
        /// failed.
        package var removedUploads: Int64
        package var givenUpUploads: Int64
        /// Dead rows of the table `jobs` at the last sweep.
        package var deadRowCount: Int64
        /// Events that this node's relay has numbered.
        package var numberedEvents: Int64
        /// Rows of the inbox that the relay could not read and has set aside.
        package var rejectedEvents: Int64
        /// Age of the oldest event in the relay's last transaction; 0 if none waited.
        package var relayLagSeconds: Double
        /// Attempts that used up no attempt because their origin was unreachable.
        package var connectivityWaits: Int64
        package var hostProbes: Int64
        /// Decisions of host control, by kind.
        package var hostDecisions: [HostDecision.Kind: Int64]
        /// Origins of which host control knows something, and (`hostsUnreachable`) unreachable ones.
        package var hostsKnown = 0
        package var hostsUnreachable = 0
    }

    let submitBatches = Atomic<Int64>(0)
    let submittedJobs = Atomic<Int64>(0)
    let leasedAtOnceJobs = Atomic<Int64>(0)
    let submitNanoseconds = Atomic<Int64>(0)
    let overloadedJobs = Atomic<Int64>(0)
    let surplusJobs = Atomic<Int64>(0)
    let dispatchBatches = Atomic<Int64>(0)
    let recordedResults = Atomic<Int64>(0)
    let claimedJobs = Atomic<Int64>(0)
    let dispatchNanoseconds = Atomic<Int64>(0)
    let reconnects = Atomic<Int64>(0)
    let fencedResults = Atomic<Int64>(0)
    let reclaimedJobs = Atomic<Int64>(0)
    let scheduledJobs = Atomic<Int64>(0)
    let missedOccurrences = Atomic<Int64>(0)
    let skippedOccurrences = Atomic<Int64>(0)
    let surplusOccurrences = Atomic<Int64>(0)
    let discretionaryStarts = Atomic<Int64>(0)
    let oldestTransactionMilliseconds = Atomic<Int64>(0)
    let removedJobs = Atomic<Int64>(0)
    let acknowledgedJobs = Atomic<Int64>(0)
    let reminders = Atomic<Int64>(0)
    let removedUploads = Atomic<Int64>(0)
    let givenUpUploads = Atomic<Int64>(0)
    let deadRows = Atomic<Int64>(0)
    let numberedEvents = Atomic<Int64>(0)
    let rejectedEvents = Atomic<Int64>(0)
    let relayLagMicroseconds = Atomic<Int64>(0)
    let connectivityWaits = Atomic<Int64>(0)
    let hostProbes = Atomic<Int64>(0)
    private let hostDecisions = Mutex<[HostDecision.Kind: Int64]>([:])
    /// Duration of the last heartbeat; −1 before the first.
    let roundTripNanoseconds = Atomic<Int64>(-1)

    package var snapshot: Snapshot {
        Snapshot(
            submitBatches: submitBatches.load(ordering: .relaxed),
            submittedJobs: submittedJobs.load(ordering: .relaxed),
            leasedAtOnceJobs: leasedAtOnceJobs.load(ordering: .relaxed),
            submitSeconds: Double(submitNanoseconds.load(ordering: .relaxed)) / 1e9,
            overloadedJobs: overloadedJobs.load(ordering: .relaxed),
            surplusJobs: surplusJobs.load(ordering: .relaxed),
            dispatchBatches: dispatchBatches.load(ordering: .relaxed),
            recordedResults: recordedResults.load(ordering: .relaxed),
            claimedJobs: claimedJobs.load(ordering: .relaxed),
            dispatchSeconds: Double(dispatchNanoseconds.load(ordering: .relaxed)) / 1e9,
            reconnects: reconnects.load(ordering: .relaxed),
            fencedResults: fencedResults.load(ordering: .relaxed),
            reclaimedJobs: reclaimedJobs.load(ordering: .relaxed),
            scheduledJobs: scheduledJobs.load(ordering: .relaxed),
            missedOccurrences: missedOccurrences.load(ordering: .relaxed),
            skippedOccurrences: skippedOccurrences.load(ordering: .relaxed),
            surplusOccurrences: surplusOccurrences.load(ordering: .relaxed),
            discretionaryStarts: discretionaryStarts.load(ordering: .relaxed),
            oldestTransactionSeconds: Double(oldestTransactionMilliseconds.load(ordering: .relaxed)) / 1e3,
            removedJobs: removedJobs.load(ordering: .relaxed),
            acknowledgedJobs: acknowledgedJobs.load(ordering: .relaxed),
            reminders: reminders.load(ordering: .relaxed),
            removedUploads: removedUploads.load(ordering: .relaxed),
            givenUpUploads: givenUpUploads.load(ordering: .relaxed),
            deadRowCount: deadRows.load(ordering: .relaxed),
            numberedEvents: numberedEvents.load(ordering: .relaxed),
            rejectedEvents: rejectedEvents.load(ordering: .relaxed),
            relayLagSeconds: Double(relayLagMicroseconds.load(ordering: .relaxed)) / 1e6,
            connectivityWaits: connectivityWaits.load(ordering: .relaxed),
            hostProbes: hostProbes.load(ordering: .relaxed), hostDecisions: hostDecisions.withLock { $0 })
    }

    func hostDecided(_ kind: HostDecision.Kind) { hostDecisions.withLock { $0[kind, default: 0] += 1 } }
}
