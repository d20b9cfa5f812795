import FerryCore
import TestThreads
import Testing

@testable import FerryStore

@Suite("Transitions after an attempt", .onOwnThread)
struct AttemptEndingTests {
    private func attempt(of job: NewJob, number: Int32 = 1, failedAttemptCount: Int32 = 0) -> Attempt {
        Attempt(
            job: job.id, number: number, failedAttemptCount: failedAttemptCount, revision: 7,
            tenant: job.tenant,
            createdAt: Timestamp(microseconds: 0), startedAt: Timestamp(microseconds: 5_000_000),
            spec: job.spec,
            storedSpec: job.storedSpec, secrets: JobSecrets(), payload: nil, origin: job.origin,
            scopePath: "/a", traceparent: nil,
            retryOf: nil, isCancelRequested: false)
    }

    private func ending(
        _ attempt: Attempt, _ outcome: AttemptResult.Outcome, at seconds: Int64 = 10
    ) -> AttemptEnding {
        AttemptEnding(
            result(attempt, outcome), node: TestNode.identifiers.make(),
            now: Timestamp(microseconds: seconds * 1_000_000), jitter: 0.5, .inverted)
    }

    private func events(of job: FinishedJob) -> [EventRecord] {
        var packed: [UInt8] = []
        job.packEvents(into: &packed)
        return EventRecord.unpack(packed).compactMap(\.record)
    }

    @Test("a success finishes the job with the next revision, and its webhook wants the event")
    func success() throws {
        let ended = ending(attempt(of: newJob(webhook: true)), FerryStoreTests.success)
        guard case .finish(let job) = ended else {
            Issue.record("\(ended)")
            return
        }
        #expect(job.record.state == .succeeded && job.record.revision == 8 && job.record.storedError == nil)
        #expect(job.isWanted)
        let event = try #require(events(of: job).first)
        #expect(event.type == .jobSucceeded && event.isWanted)
        #expect(event.state == .succeeded && event.revision == 8)
    }

    @Test("a retryable failure waits for a retry; the last one, and a permanent one, are final")
    func failures() {
        let job = newJob(attemptCountMax: 3, retryDelay: 10)
        guard
            case .change(let retry) = ending(attempt(of: job), failure()), retry.change.input == .retry
        else {
            Issue.record("no retry")
            return
        }
        #expect(retry.lease.revision == 7 && retry.change.failedAttemptCount == 1)
        #expect(retry.change.dueAt == Timestamp(microseconds: 20_000_000))
        #expect(retry.change.ended.flatMap { AttemptRecord(packed: $0, node: nil) }?.outcome == .failed)
        guard case .finish(let last) = ending(attempt(of: job, number: 5, failedAttemptCount: 2), failure()),
            case .finish(let hopeless) = ending(attempt(of: job), failure(isRetryable: false))
        else {
            Issue.record("no end")
            return
        }
        #expect(last.record.state == .failed && last.record.failedAttemptCount == 3)
        #expect(hopeless.record.state == .failed && !hopeless.isWanted)
        #expect(events(of: hopeless).map(\.type) == [.jobAttemptFailed, .jobFailed])
        #expect(
            events(of: hopeless)[0].detail == EventDetail(error: hopeless.record.storedError).packed)
    }

    @Test("the event of an attempt has the attempt's error, also when the job fails for another reason")
    func attemptError() throws {
        let job = newJob(timeoutForResource: 15, attemptCountMax: 3, retryDelay: 60)
        let refused = TransferError(.unacceptableStatus, "500.", phase: .waiting, isRetryable: true)
        guard case .finish(let ended) = ending(attempt(of: job), .failed(refused, retryAfter: nil)) else {
            Issue.record("it is tried again")
            return
        }
        #expect(ended.record.storedError != Stored(refused))
        let shown = try #require(ended.record.error)
        #expect(shown.code.choice == .resourceTimeout)
        let told = events(of: ended)
        #expect(told.map(\.type) == [.jobAttemptFailed, .jobFailed])
        #expect(told[0].detail == EventDetail(error: Stored(refused)).packed)
        let last = try #require(ended.lastAttempt.flatMap { AttemptRecord(packed: $0, node: nil) })
        #expect(last.error == Stored(refused))
        // What the database has refused is in none of them.
        guard case .finish(let simplified) = AttemptEnding.finish(ended).simplified else {
            Issue.record("it goes back to the queue")
            return
        }
        #expect(
            events(of: simplified)[0].detail == EventDetail(error: .unstorable).packed)
    }

    @Test("a job waits while the disk is full, any number of times, unless it has one attempt")
    func fullDisk() {
        let full = AttemptResult.Outcome.failed(
            TransferError(.storageFull, "Full.", phase: .receiving, isRetryable: true), retryAfter: nil)
        let tenth = attempt(of: newJob(attemptCountMax: 3, retryDelay: 10), number: 10, failedAttemptCount: 2)
        guard case .change(let retry) = ending(tenth, full), retry.change.input == .retry,
            case .finish(let once) = ending(attempt(of: newJob(attemptCountMax: 1)), full)
        else {
            Issue.record("it ends, or goes on")
            return
        }
        #expect(retry.change.failedAttemptCount == 2)
        #expect(retry.change.dueAt == Timestamp(microseconds: 20_000_000))
        #expect(once.record.state == .failed && once.record.failedAttemptCount == 1)
    }

    @Test("an attempt that ends because the node lost the database is not used up, even the only one")
    func lostNode() {
        let lost = AttemptResult.Outcome.failed(
            TransferError(.nodeLost, "Away.", phase: .finishing, isRetryable: true), retryAfter: nil)
        for count in [1, 3] {
            let last = attempt(
                of: newJob(attemptCountMax: count, retryDelay: 10), failedAttemptCount: Int32(count - 1))
            guard case .change(let retry) = ending(last, lost), retry.change.input == .retry else {
                Issue.record("it ends")
                return
            }
            #expect(retry.change.failedAttemptCount == Int32(count - 1))
            #expect(retry.change.dueAt == Timestamp(microseconds: 20_000_000))
        }
    }

    @Test("a released lease uses up no attempt")
    func release() {
        let given = attempt(of: newJob())
        guard case .change(let back) = ending(given, .released), back.change.input == .giveBack else {
            Issue.record("not released")
            return
        }
        #expect(back.lease.attempt == 1 && back.change.ended == nil, "it had not begun")
        #expect(back.change.hasBytes == nil && back.home == nil && back.change.failedAttemptCount == nil)
    }

    @Test("the end of a job is never before its start, whatever the clock shows")
    func clock() {
        guard case .finish(let job) = ending(attempt(of: newJob()), .cancelled, at: 1) else {
            Issue.record("not finished")
            return
        }
        #expect(job.record.state == .cancelled && job.record.finishedAt == Timestamp(microseconds: 5_000_000))
    }
}
