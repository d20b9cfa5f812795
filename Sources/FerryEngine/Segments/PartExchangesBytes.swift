import Curl
import FerryCore

/// Received bytes, and the end of parts.
extension PartExchanges {
    func take(_ bytes: UnsafeRawBufferPointer, of part: SegmentPart) -> BodyVerdict {
        guard let content, content.isBegun, let rest = plan?.rest(of: part.id),
            let limit = plan?.limit(of: part.id)
        else {
            part.cut()
            return .abort
        }
        if content.isFarBehind {
            waitForDisk.append(part)
            return .pause
        }
        guard part.exchange.mayMove(bytes.count, .receiving) else { return .pause }
        let skipped = Int(min(part.skip, Int64(bytes.count)))
        part.skip -= Int64(skipped)
        let wanted = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(skipped).prefix(rest.count))
        do throws(TransferError) {
            try checkLength(rest.lowerBound + Int64(wanted.count))
            try content.append(wanted, at: rest.lowerBound)
        } catch {
            fail(error)
            return .abort
        }
        _ = plan?.advance(part.id, by: wanted.count)
        suppliers.insert(part.source)
        context.metrics.received(wanted.count)
        progress.set(received: plan?.doneByteCount ?? 0)
        content.advance(to: plan?.prefix ?? 0)
        let end = rest.lowerBound + Int64(wanted.count)
        part.took(wanted.count, until: end)
        if part.written.count >= EngineLimits.partWriteBehindByteCount {
            do throws(TransferError) { try content.flush() } catch {
                fail(error)
                return .abort
            }
            tellDisk(part)
        }
        // At the end of the requested range libcurl keeps the connection. If the part ends before it, more
        // bytes would come.
        if end == rest.upperBound, end < limit || skipped + wanted.count < bytes.count {
            part.cut()
            return .abort
        }
        return .proceed
    }

    /// Throws if a body of unknown length becomes longer than the job accepts.
    private func checkLength(_ byteCount: Int64) throws(TransferError) {
        guard byteCount <= attempt.spec.accept.byteCountMax ?? .max else {
            throw .longerThanAccepted(.receiving)
        }
    }

    private func tellDisk(_ part: SegmentPart) {
        content?.wrote(part.written)
        part.written = part.written.upperBound..<part.written.upperBound
    }

    /// Whether the file's end is known without the end of the connection.
    var hasKnownEnd: Bool {
        plan?.total != nil || attempt.spec.integrity.size != nil || content?.digests?.isProof ?? false
    }

    /// The part's response has ended, or all its wanted bytes have come.
    func ended(_ part: SegmentPart) {
        // The only part of a file of unknown length: libcurl has reported its end.
        if plan?.total == nil, plan?.rest(of: part.id) != nil { plan?.finish() }
        if part.isShort || plan?.rest(of: part.id) != nil { return failed(part, .broken(.shortBody)) }
        leave(part)
        sources.wasUseful(part.source)
        fill()
    }

    /// Removes a part that has ended, and measures its source.
    private func leave(_ part: SegmentPart) {
        parts[part.id] = nil
        disconnect(part)
        tellDisk(part)
        plan?.end(part.id)
        guard part.pacing == nil, part.receivedByteCount > 0 else { return }
        measure(part)
        let seconds = Double(part.receivingTime(now: now) ?? 0) / 1e9
        note(part.source) { [now] in $0.delivered(part.receivedByteCount, inSeconds: seconds, now: now) }
    }

    /// Measures the speed of one connection to the part's source.
    func measure(_ part: SegmentPart) {
        guard part.pacing == nil, let time = part.receivingTime(now: now), time >= 100_000_000 else { return }
        sources.measured(part.source, Double(part.receivedByteCount) * 1e9 / Double(time))
    }

    func failed(_ part: SegmentPart, _ failure: PartFailure) {
        leave(part)
        // The job has another request by now.
        guard part.renewalCount == sources[part.source].renewalCount else { return fill() }
        let running = runningBySource[part.source] ?? 0
        switch failure {
        case .broken(let error):
            if makesProgress(part) {
                sources.progressed(part.source, error)
            } else {
                sources.failed(part.source, error, isRefusal: false, running: running)
                note(part.source) { [now] in $0.failed(now: now) }
            }
        case .stopped(let error):
            sources.stopped(part.source, error)
            note(part.source) { [now] in $0.failed(now: now) }
        case .refused(let error, let retryAfter):
            sources.failed(part.source, error, retryAfter: retryAfter, isRefusal: true, running: running)
            // A server that refuses a further connection while others run has not failed.
            if running == 0 { note(part.source) { [now] in $0.failed(now: now) } }
        case .urlExpired(let question):
            sources.expired(part.source, question, running: running)
            if running == 0 { note(part.source) { [now] in $0.failed(now: now) } }
        case .refusesRange(let error):
            // It may refuse the further connection, or every range.
            if running > 0 {
                sources.failed(part.source, error, isRefusal: true, running: running)
            } else {
                rangesAreRefused = true
                sources.refusesRanges(part.source)
            }
        case .redirectedLater(let hop, let error, let delay):
            sources.redirected(part.source, later: hop, error, after: delay, running: running)
        case .givesNoRanges: sources.refusesRanges(part.source)
        case .ignoresIfRange: sources[part.source].ignoresIfRange = true
        case .beginsAnew:
            rangesAreRefused = false
            return restart()
        case .changed:
            sources.changed(part.source)
        case .held:
            sources[part.source].heldUntil = now + EngineLimits.refusalPause
        }
        fill()
    }

    /// Returns whether a broken part has brought bytes that a later one can continue. After few bytes the
    /// source is asked again only after a delay.
    private func makesProgress(_ part: SegmentPart) -> Bool {
        guard part.receivedByteCount > 0, asksForRanges else { return false }
        guard part.receivedByteCount < EngineLimits.progressByteCountMin else {
            smallStepCount = 0
            return true
        }
        smallStepCount += 1
        let delay = RetryPolicy.delay(
            attempt.spec.retry, after: smallStepCount, jitter: .random(in: 0...1))
        guard delay <= EngineLimits.slotPauseMax else { return false }
        let pause = Int64(delay * 1e9)
        sources[part.source].heldUntil = now + pause
        hold = nil
        loop.multi.after(nanoseconds: pause) { [weak self] in self?.fill() }
        return true
    }
}
