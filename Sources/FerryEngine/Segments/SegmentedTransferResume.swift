import Curl
import FerryCore

/// How a download in parts goes on from the bytes of an earlier attempt, leaves its own to a later one, and
/// begins its file anew.
extension SegmentedTransfer {
    func prepared(_ resumption: Resumption?) {
        do throws(TransferError) {
            if let resumption, !(try goOn(from: resumption)) {
                context.lane.send(.run { resumption.file.discard() })
            }
            try awaitRoom(resumption)
            handle(.prepared)
        } catch {
            handle(.preparationFailed(error))
        }
    }

    /// Takes the bytes as done. False: they cannot be asked about. Throws when there is no room for the rest;
    /// the bytes count all the same.
    private func goOn(from resumption: Resumption) throws(TransferError) -> Bool {
        let record = resumption.record
        guard let total = record.total, record.validator != nil || mayGoByLength, let destination,
            let place = try? destination.root.directory(destination.directory, making: false)
        else { return false }
        take(resumption, total)
        drain?.claim = try context.space.claim(at: place, expecting: total - resumption.byteCount)
        return true
    }

    private func take(_ resumption: Resumption, _ total: Int64) {
        let record = resumption.record
        let plan = SegmentPlan(total: total, done: resumption.ranges.ranges)
        target = Target(total: total, validator: record.validator, lead: nil, mimeType: record.mimeType)
        if let validator = record.validator {
            sources.expect(
                validator, of: record.source, isRenewed: attempt.spec.request.original != nil)
        }
        let drain = makeDrain(resumption.file, record.announced)
        drain.advance(to: plan.prefix)
        self.drain = drain
        self.plan = plan
        holdsEarlierBytes = true
        earlierSource = record.source
        progress.resume(at: plan.doneByteCount)
        progress.expect(toReceive: total)
        if total >= EngineLimits.bulkByteCountMin { becomeBulk() }
    }

    /// Whether the job takes a file of the same length for the same file.
    private var mayGoByLength: Bool { attempt.spec.retry.resumesWithoutValidator }

    /// Whether nothing but their length says that what is fetched belongs to the bytes that are there.
    var goesByLength: Bool { mayGoByLength && holdsEarlierBytes && target?.validator == nil && !hasDigest }

    /// Whether a range from there belongs to the bytes that are there, as far as the job wants to know: they
    /// came from there too.
    func isTrusted(_ part: SegmentPart) -> Bool {
        goesByLength && earlierSource == PartialRecord.source(of: part.hop.url)
    }

    /// Leaves what has come to a later attempt; what cannot be written is not there.
    func keepBytes() {
        guard let drain else { return }
        self.drain = nil
        do throws(TransferError) {
            try drain.flush()
            kept = drain
        } catch {
            if error.code == .storageFull { kept = drain } else { drain.discard() }
        }
    }

    /// Makes the new file one that a later attempt can go on from, if the answer allows it.
    func record(_ url: WebURL, _ announced: [ExpectedDigest]) {
        guard PartialRecord.isPossible(attempt.spec), let target, let total = target.total,
            target.validator != nil || mayGoByLength
        else { return }
        var record = PartialRecord(
            identity: PartialRecord.identity(of: attempt.spec.request), source: PartialRecord.source(of: url),
            validator: target.validator, total: total)
        record.isSequential = false
        record.describe(target.mimeType, announced)
        drain?.file.becomeResumable(record)
        recorded = (now, 0)
    }

    /// From time to time the record says which ranges have come.
    func recordProgress(_ now: Int64) {
        guard isFetching, let drain, let plan, now - recorded.at >= EngineLimits.recordInterval,
            plan.doneByteCount - recorded.byteCount >= EngineLimits.recordedByteCountMin
        else { return }
        do throws(TransferError) { try drain.flush() } catch { return fail(error) }
        recorded = (now, plan.doneByteCount)
        let (file, ranges) = (drain.file, ByteRanges(plan.doneRanges))
        let syncs = context.configuration.fileSync == .full
        context.lane.send(.run { file.checkpoint(syncs: syncs, ranges: ranges) })
    }

    /// Reports once a file thread has seen to the bytes that are kept.
    func report(_ outcome: AttemptResult.Outcome, keeping drain: SegmentWriter) {
        drain.stop()
        awaitedReport = outcome
        let (key, tell, leftovers) = (key, loop.teller, context.leftovers)
        let (file, ranges) = (drain.file, ByteRanges(plan?.doneRanges ?? []).subtracting(drain.lost))
        let syncs = context.configuration.fileSync == .full
        context.lane.send(
            .run {
                let leftover = ranges.isEmpty ? nil : file.keep(syncs: syncs, ranges: ranges)
                if let leftover { leftovers.add(leftover) } else { file.discard() }
                tell { $0.report(outcome, for: key, kept: leftover?.kept) }
            })
    }

    // MARK: Whom it waits for

    var isConnecting: Bool { parts.values.allSatisfy(\.isConnecting) }

    func silence(_ now: Int64) -> Int64 {
        isFetching ? parts.values.map { $0.idleTime(now: now) }.min() ?? 0 : 0
    }

    var unansweredScope: RequestScope? {
        guard !isConnecting, plan == nil, attempt.spec.mirrors.isEmpty, !attempt.hasOwnProxy,
            let part = parts.values.first, !part.hasHead
        else { return nil }
        return attempt.scope(of: part.hop.url)
    }

    var waitsForDisk: Bool {
        machine.waitsForDisk || !waitForDisk.isEmpty || isClearing || awaitedReport != nil
    }

    func outwait(_ error: TransferError) {
        if let outcome = awaitedReport { return report(outcome, kept: nil) }
        guard publication?.revoke() ?? true else { return }
        handle(.outwaited(error))
    }

    func digestCaughtUp() {
        guard drain?.hasCaughtUp ?? false else { return }
        let waiting = waitForDisk
        waitForDisk = []
        for part in waiting { part.resume() }
    }

    // MARK: Beginning anew

    /// Whether bytes that turned out wrong can be had from somebody else: whoever gave them is asked no more,
    /// and if several did, or an earlier attempt, one shall give all.
    func mayFetchAgain(after error: TransferError) -> Bool {
        guard error.code == .digestMismatch || error.code == .sizeMismatch else { return false }
        if holdsEarlierBytes || suppliers.count > 1 && sources.mayMix {
            sources.mayMix = false
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

    /// Throws away what has come and asks for the file from its beginning; at most so often.
    func restart() {
        restartCount += 1
        guard restartCount <= EngineLimits.restartCountMax + sources.count, sources.hasAny else {
            return giveUp()
        }
        let useless = drain
        forgetFile()
        guard let useless else { return cleared() }
        isClearing = true
        let (key, tell) = (key, loop.teller)
        useless.discard { tell { $0.cleared(key) } }
    }
}
