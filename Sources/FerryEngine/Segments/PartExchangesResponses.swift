import Curl
import FerryCore

/// Choice of requests and sources.
extension PartExchanges {
    /// Sends requests on all free connections, as far as there are bytes worth a request.
    func fill() {
        // A request that fails at once calls `fill` again.
        guard !isFilling else {
            mustFillAgain = true
            return
        }
        isFilling = true
        defer { isFilling = false }
        repeat {
            mustFillAgain = false
            if isFetching { fillOnce() }
        } while mustFillAgain
        giveBackSpares()
    }

    private func fillOnce() {
        guard target != nil else {
            if parts.isEmpty { askLead() }
            return
        }
        if plan?.isComplete ?? false { return complete() }
        var isHeld = false
        if asksForRanges { isHeld = askForRanges() }
        guard parts.isEmpty, isFetching, !mustFillAgain else { return }
        if isHeld { waitForHosts() } else if rangesAreRefused { askLead() } else { restart() }
    }

    /// Sends the first request, for the whole file. If parts are wanted, as a range, so that the response
    /// tells whether the server serves ranges. The bytes that are there stay until it has responded.
    private func askLead() {
        var closed: Set<Int> = []
        while let lead = sources.lead(except: closed) {
            guard let origin = connect(to: lead) else {
                closed.insert(lead)
                continue
            }
            let isPlain = attempt.spec.segmentCountMax == 1 || sources[lead].isAskedPlainly
            return makePart(lead, origin).begin(isPlain ? nil : 0..<Int64.max)
        }
        if closed.isEmpty { giveUp() } else { waitForHosts() }
    }

    /// Returns `true` if a source was left out because its host may not be used now.
    private func askForRanges() -> Bool {
        var made: [SegmentPart] = []
        var closed: Set<Int> = []
        while parts.count < attempt.spec.segmentCountMax, isWorthAPart,
            let source = sources.forRange(running: runningBySource, lead: target?.lead, except: closed)
        {
            guard let origin = connect(to: source) else {
                closed.insert(source)
                continue
            }
            _ = plan?.begin(lastPart + 1, halfMin: { halfMin($0) })
            made.append(makePart(source, origin))
        }
        // All ranges are divided before the first request, so that no part requests bytes of another.
        for part in made {
            if let rest = plan?.rest(of: part.id) { part.begin(rest) }
        }
        return !closed.isEmpty
    }

    /// Whether bytes are left that are worth one more request.
    private var isWorthAPart: Bool {
        var trial = plan
        return trial?.begin(lastPart + 1, halfMin: { halfMin($0) }) != nil
    }

    private func makePart(_ source: Int, _ scope: RequestScope) -> SegmentPart {
        lastPart += 1
        let part = SegmentPart(lastPart, of: self, source: source, sources[source].hop)
        part.connection = scope
        parts[lastPart] = part
        return part
    }

    private var runningBySource: [Int: Int] {
        parts.values.reduce(into: [:]) { $0[$1.source, default: 0] += 1 }
    }

    /// Returns how many bytes each half of a part's rest must have to be divided: what the part gets in a
    /// second, and at least a minimum.
    private func halfMin(_ id: SegmentPlan.Part) -> Int64 {
        guard let part = parts[id], part.hasBegun, part.pacing == nil else {
            return EngineLimits.partByteCountMin
        }
        let isLong = part.age(now: now) >= 1_000_000_000
        let least = isLong ? EngineLimits.slowPartByteCountMin : EngineLimits.partByteCountMin
        guard let time = part.receivingTime(now: now) else { return isLong ? least : .max }
        return max(least, part.receivedByteCount * 1_000 / max(1, time / 1_000_000))
    }
}

/// Judgement of responses.
extension PartExchanges {
    enum HeadJudgement {
        case body
        case follow(Hop, after: Double)
        case failed(PartFailure)
        /// The attempt has ended.
        case stopped
    }

    func judge(_ head: ResponseHead, of part: SegmentPart) -> HeadJudgement {
        note(part.source) { [now] in $0.answered(afterSeconds: Double(part.latency) / 1e9, now: now) }
        // 101: no other protocol was asked for (RFC 9110 §15.2.2).
        guard head.hasClearLength, head.status != 101 else {
            let error = TransferError(
                .responseInvalid, "The length of the server's answer is ambiguous, or it is none.",
                phase: .waiting, isRetryable: false)
            return .failed(.refused(error, retryAfter: nil))
        }
        let requested = ResponseTable.Requested(
            hop: part.hop, range: part.asked,
            hasIfRange: part.asked != nil && validatorToSend(to: part.source) != nil)
        let judge = ResponseJudge(spec: attempt.spec, egress: context.configuration.egress, isDecoded: false)
        switch judge.judge(head, requested, known: knownFile(at: part.source), now: context.clock.now()) {
        case .follow(let hop, let delay): return .follow(hop, after: delay)
        case .followLater(let hop, let error, let delay):
            return .failed(.redirectedLater(hop, error, after: delay))
        case .refuse(let error, let retryAfter), .wait(let error, let retryAfter):
            if error.code == .unacceptableStatus { reportRefusal(head, of: part) }
            return .failed(.refused(error, retryAfter: retryAfter))
        case .again(let change): return .failed(failure(change, head, of: part))
        // The API refuses jobs in parts that would ask about redirects or challenges.
        case .ask(let question):
            reportRefusal(head, of: part)
            return .failed(.urlExpired(question))
        case .take(let body): return take(body, head, of: part)
        }
    }

    private func take(
        _ body: ResponseTable.Body, _ head: ResponseHead, of part: SegmentPart
    ) -> HeadJudgement {
        var landing = part.hop
        // A nonce answers one request.
        landing.digest = nil
        if part.renewalCount == sources[part.source].renewalCount { sources[part.source].landing = landing }
        if let failure = target == nil ? takeFirst(body, head, of: part) : takeRange(body, head, of: part) {
            return .failed(failure)
        }
        return content?.isBegun == true ? .body : .stopped
    }

    /// What is known of the file for a response of that source.
    private func knownFile(at index: Int) -> KnownFile? {
        guard let target else { return nil }
        let source = sources[index]
        let validator = source.validator ?? target.validator
        return KnownFile(
            validator: validator, total: target.total,
            source: source.validatorPlace ?? (validator == nil ? earlierSource : nil),
            mimeType: target.mimeType)
    }

    private func failure(
        _ change: ResponseTable.Change, _ head: ResponseHead, of part: SegmentPart
    ) -> PartFailure {
        switch change {
        case .withoutIfRange: return .ignoresIfRange
        case .withoutRange(.changed): return .changed
        case .withoutRange(.refused):
            if target == nil { return .givesNoRanges }
            reportRefusal(head, of: part)
            let error = TransferError(
                .unacceptableStatus, "The server answered with status \(head.status).", phase: .waiting,
                isRetryable: true)
            return .refusesRange(error)
        case .withoutExpect, .withoutRange, .withoutCodings: return .givesNoRanges
        }
    }

    /// Reports a refusal at once: the attempt may take long to end.
    private func reportRefusal(_ head: ResponseHead, of part: SegmentPart) {
        guard let response = context.hostResponse(head, from: part.hop.url, to: attempt) else { return }
        context.report(response)
    }

    /// Takes the first response, which describes the file.
    private func takeFirst(
        _ body: ResponseTable.Body, _ head: ResponseHead, of part: SegmentPart
    ) -> PartFailure? {
        // A coded body is fetched as one stream.
        let isCoded = !head.contentCodings.isEmpty
        let validator = isCoded ? nil : Validator(head)
        let total = head.hasBody("GET") ? isCoded ? nil : body.total : 0
        let provesParts = validator != nil || attempt.spec.integrity.provesFile && !isCoded
        var givesRanges: Bool? = provesParts
        if head.status != 206 {
            let units = head.all("accept-ranges").map { $0.lowercased() }
            let mayGive =
                part.asked == nil && !sources[part.source].isAskedPlainly && provesParts && total != nil
            // A server need not announce that it serves ranges (RFC 9110 §14.3).
            givesRanges = mayGive && units.isEmpty ? nil : mayGive && units == ["bytes"]
        }
        if let validator { sources.learn(validator, of: part.source, at: part.hop.url) }
        sources[part.source].givesRanges = givesRanges
        target = Target(total: total, validator: validator, lead: part.source, mimeType: head.mimeType)
        show(head, from: part.hop.url)
        running.noteResumption(at: 0)
        let isWhole = head.status != 206 || body.end == body.total
        begin(
            total, head.announcedDigests(of: isWhole ? .whole : .continued), with: part,
            until: total.flatMap { _ in body.end } ?? .max)
        return nil
    }

    private func begin(
        _ total: Int64?, _ announced: [ExpectedDigest], with part: SegmentPart, until limit: Int64
    ) {
        var plan = SegmentPlan(total: total)
        _ = plan.begin(part.id) { _ in 0 }
        plan.answered(part.id, until: limit)
        self.plan = plan
        progress.expect(toReceive: total)
        if total ?? 0 >= EngineLimits.bulkByteCountMin { running.becomeBulk() }
        do throws(TransferError) {
            try beginContent(announced)
            if let head { record(head.url, announced) }
        } catch {
            fail(error)
            return
        }
        fill()
    }

    /// Takes a later response, which has the requested range of the same file, or at least its beginning.
    private func takeRange(
        _ body: ResponseTable.Body, _ head: ResponseHead, of part: SegmentPart
    ) -> PartFailure? {
        guard let asked = part.asked, body.continues, let end = body.end else {
            // The whole file.
            let isSame = part.asked != nil && sources[part.source].validator?.matches(head) ?? false
            return part.asked == nil ? .beginsAnew : isSame ? .givesNoRanges : .changed
        }
        if sources[part.source].validator == nil, let own = Validator(head) {
            sources.learn(own, of: part.source, at: part.hop.url)
        }
        // The source that responded first has provided no byte.
        if self.head == nil
            || suppliers.isEmpty && !parts.values.contains(where: { $0.source == target?.lead })
        {
            show(head, from: part.hop.url)
        }
        content?.digests?.expect(head.announcedDigests(of: .continued))
        isJoined = true
        part.isShort = end < asked.upperBound
        part.skip = body.skip
        running.noteResumption(at: plan?.doneByteCount ?? 0)
        plan?.answered(part.id, until: end)
        sources[part.source].givesRanges = true
        fill()
        return nil
    }
}

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
