import Curl
import FerryCore

/// Continues the bytes of an earlier attempt, leaves bytes to a later one, and restarts the file.
extension SegmentedTransfer {
    func prepared(_ resumption: Resumption?, _ failure: TransferError?) {
        prepare { () throws(TransferError) in
            if let resumption, !(try goOn(from: resumption)) {
                context.fileThreads.send(.run { resumption.file.discard() })
            }
            if let failure { throw failure }
            try needSpace(resumption)
            handle(.prepared)
        }
    }

    /// Takes the bytes as done. Returns `false` if no request can verify them. Throws if there is no space
    /// for the rest; the bytes then still count.
    private func goOn(from resumption: Resumption) throws(TransferError) -> Bool {
        let record = resumption.record
        guard let total = record.total, record.codings.isEmpty,
            record.validator != nil || hasDigest || mayGoByLength, let destination,
            let place = destination.openDirectory
        else { return false }
        take(resumption, total)
        try context.allowance(of: attempt)?.need(total)
        writer?.claim = try context.space.claim(at: place, expecting: total - resumption.byteCount)
        return true
    }

    private func take(_ resumption: Resumption, _ total: Int64) {
        let record = resumption.record
        let plan = SegmentPlan(total: total, done: resumption.ranges.ranges)
        target = Target(total: total, validator: record.validator, lead: nil, mimeType: record.mimeType)
        if let validator = record.validator {
            sources.expect(validator, of: record.source, isRenewed: attempt.spec.request.original != nil)
        }
        let writer = makeWriter(resumption.file, record.announced)
        writer.advance(to: plan.prefix)
        self.writer = writer
        self.plan = plan
        holdsEarlierBytes = true
        foundByteCount = plan.doneByteCount
        earlierSource = record.source
        progress.resume(at: plan.doneByteCount)
        progress.expect(toReceive: total)
        if total >= EngineLimits.bulkByteCountMin { becomeBulk() }
    }

    /// Whether the job accepts an equal length as proof of the same file.
    private var mayGoByLength: Bool { attempt.spec.retry.resumesWithoutValidator }

    /// Whether only the length proves that the fetched bytes belong to the earlier ones.
    var goesByLength: Bool { mayGoByLength && holdsEarlierBytes && target?.validator == nil && !hasDigest }

    /// Leaves the received bytes to a later attempt, except those that cannot be written.
    func keepBytes() {
        guard let writer else { return }
        self.writer = nil
        do throws(TransferError) {
            try writer.flush()
            partial = writer
        } catch {
            if error.code == .storageFull { partial = writer } else { writer.discard() }
        }
    }

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
        writer?.file.becomeResumable(record)
        recorded = (now, 0)
    }

    /// From time to time writes into the record which ranges are done.
    func recordProgress(_ now: Int64) {
        guard isFetching, let writer, let plan, now - recorded.at >= EngineLimits.recordInterval,
            plan.doneByteCount - recorded.byteCount >= EngineLimits.recordedByteCountMin
        else { return }
        do throws(TransferError) { try writer.flush() } catch { return fail(error) }
        recorded = (now, plan.doneByteCount)
        let (file, ranges) = (writer.file, ByteRanges(plan.doneRanges))
        context.fileThreads.send(
            .run { [syncs = context.syncs] in file.checkpoint(syncs: syncs, ranges: ranges) })
    }

    /// Reports the outcome as soon as a file thread has saved the bytes.
    func report(_ outcome: AttemptResult.Outcome, keeping writer: SegmentWriter) {
        writer.stop()
        awaitedReport = outcome
        let ranges = ByteRanges(plan?.doneRanges ?? []).subtracting(writer.lost)
        loop.save(writer.file, ranges: ranges, then: outcome, for: key)
    }

    // MARK: Waiting

    var isConnecting: Bool { parts.values.allSatisfy(\.isConnecting) }

    func idleTime(_ now: Int64) -> Int64 {
        isFetching ? parts.values.map { $0.idleTime(now: now) }.min() ?? 0 : 0
    }

    var waitsForServer: Bool { isFetching && parts.values.contains(where: \.isReading) }

    var unansweredScope: RequestScope? {
        guard !isConnecting, plan == nil, attempt.spec.mirrors.isEmpty, !attempt.hasOwnProxy,
            let part = parts.values.first, !part.hasHead
        else { return nil }
        return attempt.scope(of: part.hop.url)
    }

    var waitsForDisk: Bool {
        machine.waitsForDisk || !waitForDisk.isEmpty || isClearing || awaitedReport != nil
    }

    func giveUpOnDisk(_ error: TransferError) {
        if let outcome = awaitedReport { return report(outcome, partial: nil) }
        guard publication?.revoke() ?? true else { return }
        handle(.diskTimedOut(error))
    }

    func digestCaughtUp() {
        guard writer?.hasCaughtUp ?? false else { return }
        let waiting = waitForDisk
        waitForDisk = []
        for part in waiting { part.resume() }
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
        let useless = writer
        forgetFile()
        guard let useless else { return cleared() }
        isClearing = true
        let (key, onLoop) = (key, loop.runner)
        useless.discard { onLoop { $0.cleared(key) } }
    }
}
