import Curl
import FerryCore

/// Continues the bytes of an earlier attempt, leaves bytes to a later one, and restarts the file.
extension PartExchanges {
    func sinkOpened(_ failure: TransferError?) {
        running.prepare { () throws(TransferError) in
            if let earlier = content?.earlier, !(try goOn(from: earlier)) { _ = content?.drop() }
            if let failure { throw failure }
            running.handle(.prepared)
        }
    }

    /// Takes the bytes as done. Returns `false` if no request can verify them. Throws if there is no space
    /// for the rest; the bytes then still count.
    private func goOn(from earlier: EarlierBytes) throws(TransferError) -> Bool {
        let record = earlier.record
        guard let total = record.total, record.codings.isEmpty,
            record.validator != nil || hasDigest || mayGoByLength
        else { return false }
        take(earlier, total)
        try content?.resume(contentPlan(record.announced))
        return true
    }

    private func take(_ earlier: EarlierBytes, _ total: Int64) {
        let record = earlier.record
        let plan = SegmentPlan(total: total, done: earlier.ranges.ranges)
        target = Target(total: total, validator: record.validator, lead: nil, mimeType: record.mimeType)
        if let validator = record.validator {
            sources.expect(validator, of: record.source, isRenewed: attempt.spec.request.original != nil)
        }
        self.plan = plan
        holdsEarlierBytes = true
        running.foundByteCount = plan.doneByteCount
        earlierSource = record.source
        progress.resume(at: plan.doneByteCount)
        progress.expect(toReceive: total)
        if total >= EngineLimits.bulkByteCountMin { running.becomeBulk() }
    }

    /// Whether the job accepts an equal length as proof of the same file.
    private var mayGoByLength: Bool { attempt.spec.retry.resumesWithoutValidator }

    /// Whether only the length proves that the fetched bytes belong to the earlier ones.
    var goesByLength: Bool { mayGoByLength && holdsEarlierBytes && target?.validator == nil && !hasDigest }

    /// Lets a later attempt continue the new file, if the response allows it.
    func record(_ url: WebURL, _ announced: [ExpectedDigest]) {
        guard PartialRecord.isPossible(attempt.spec), let target, let total = target.total,
            target.validator != nil || hasDigest || mayGoByLength
        else { return }
        var record = PartialRecord(
            identity: PartialRecord.identity(of: attempt.spec.request), source: PartialRecord.source(of: url),
            validator: target.validator, total: total)
        record.isSequential = false
        record.describe(target.mimeType, announced)
        content?.becomeResumable(record)
        recorded = (now, 0)
    }

    /// From time to time writes into the record which ranges are done.
    func recordProgress(_ now: Int64) {
        guard isFetching, let content, content.isBegun, let plan,
            now - recorded.at >= EngineLimits.recordInterval,
            plan.doneByteCount - recorded.byteCount >= EngineLimits.recordedByteCountMin
        else { return }
        do throws(TransferError) { try content.flush() } catch { return fail(error) }
        recorded = (now, plan.doneByteCount)
        content.checkpoint(ByteRanges(plan.doneRanges))
    }

    // MARK: Waiting

    var activity: ExchangeActivity {
        ExchangeActivity(
            idleTime: isFetching ? parts.values.map(\.exchange.idleTime).min() ?? 0 : 0,
            isConnecting: isConnecting,
            waitsForServer: isFetching && parts.values.contains(where: \.exchange.isReading),
            waitsForPlace: !waitForDisk.isEmpty || isClearing)
    }

    private var isConnecting: Bool { parts.values.allSatisfy { !$0.exchange.mayHaveReached } }

    var unansweredScope: RequestScope? {
        guard !isConnecting, plan == nil, attempt.spec.mirrors.isEmpty, !attempt.hasOwnProxy,
            let part = parts.values.first, !part.hasHead
        else { return nil }
        return attempt.scope(of: part.hop.url)
    }

    /// Resumes reading, as file threads are no longer far behind.
    func placeCaughtUp() {
        guard content?.hasCaughtUp ?? false else { return }
        let waiting = waitForDisk
        waitForDisk = []
        for part in waiting { part.exchange.resume() }
    }

    // MARK: Restart

    /// Decides whether wrong bytes can be fetched again. If several sources or an earlier attempt provided
    /// them, one source has to provide all bytes instead. If several responses of one source did, it is asked
    /// once more, for one stream. Otherwise the source is not used any more.
    func mayFetchAgain(after error: TransferError) -> Bool {
        guard error.code == .digestMismatch || error.code == .sizeMismatch else { return false }
        if holdsEarlierBytes || suppliers.count > 1 && sources.mayMix {
            sources.mayMix = false
        } else if isJoined, !hasFetchedAgain {
            hasFetchedAgain = true
            for index in suppliers { sources.refusesRanges(index) }
        } else {
            for index in suppliers {
                sources.exclude(index, error)
                note(index) { [now] in $0.failed(weight: 4, now: now) }
            }
        }
        guard sources.hasAny else { return false }
        forgetFile()
        return true
    }

    /// Discards all bytes and requests the file from byte 0, a limited number of times.
    func restart() {
        restartCount += 1
        guard restartCount <= EngineLimits.restartCountMax + sources.count, sources.hasAny else {
            return giveUp()
        }
        forgetFile()
        guard let content, content.isBegun else { return contentRemoved() }
        isClearing = true
        let (key, onLoop) = (running.key, loop.runner)
        content.discard { onLoop { $0.take(.contentRemoved, for: key) } }
    }
}
