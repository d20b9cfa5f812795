import Curl
import FerryCore

/// Choice of requests and sources.
extension SegmentedTransfer {
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
        if isHeld { waitForHosts() } else { restart() }
    }

    /// Sends the first request, for the whole file. If parts are wanted, as a range, so that the response
    /// tells whether the server serves ranges.
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
extension SegmentedTransfer {
    enum HeadJudgement {
        case body
        case follow(Hop)
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
        var judged = head
        if part.asked != nil {
            // The file is judged as a whole. It comes in parts only because Ferry asked for ranges.
            if head.status == 206 {
                judged.status = 200
                // A 206 need not repeat the type (RFC 9110 §15.3.7).
                if head.first("content-type") == nil, let type = target?.mimeType {
                    judged.append("Content-Type", type)
                }
            }
            if head.status == 416 { return .failed(target == nil ? .givesNoRanges : .changed) }
        }
        let judge = ResponseJudge(spec: attempt.spec, egress: context.configuration.egress, isDecoded: false)
        switch judge.judge(judged, part.hop, expected: false, resumption: nil, now: context.clock.now()) {
        case .follow(let hop): return .follow(hop)
        case .refuse(let error, let retryAfter):
            // The type of the part is unknown; the response with the whole file will have it.
            let isUntyped = judged.mimeType == nil && target != nil
            if error.code == .unacceptableContentType, isUntyped { return .failed(.givesNoRanges) }
            if error.code == .unacceptableStatus { reportRefusal(head, of: part) }
            return .failed(.refused(error, retryAfter: retryAfter))
        // Jobs in parts ask no questions; the API refuses such jobs.
        case .resend, .resume, .restart, .ask: return .failed(.givesNoRanges)
        case .accept: break
        }
        sources[part.source].landing = part.hop
        if let failure = target == nil ? takeFirst(head, of: part) : takeRange(head, of: part) {
            return .failed(failure)
        }
        return writer == nil ? .stopped : .body
    }

    /// Reports a refusal at once: the attempt may take long to end.
    private func reportRefusal(_ head: ResponseHead, of part: SegmentPart) {
        guard let response = context.hostResponse(head, from: part.hop.url, to: attempt) else { return }
        context.report(response)
    }

    /// Takes the first response, which describes the file.
    private func takeFirst(_ head: ResponseHead, of part: SegmentPart) -> PartFailure? {
        let validator = head.contentCodings.isEmpty ? Validator(head) : nil
        var total = head.hasBody("GET") ? head.contentCodings.isEmpty ? head.contentLength : nil : 0
        var limit = total ?? .max
        var givesRanges = false
        if part.asked != nil, head.status == 206 {
            guard let range = ContentRange(head), range.first == 0, let whole = range.total else {
                return .givesNoRanges
            }
            givesRanges = validator != nil
            guard givesRanges || range.last + 1 == whole else { return .givesNoRanges }
            // The length in the head is that of the range.
            total = head.contentCodings.isEmpty ? whole : nil
            limit = total.map { _ in range.last + 1 } ?? .max
        } else if head.status == 206 {
            return .refused(.partInsteadOfWhole, retryAfter: nil)
        } else if part.asked == nil, !sources[part.source].isAskedPlainly {
            let units = head.all("accept-ranges").map { $0.lowercased() }
            givesRanges = units == ["bytes"] && validator != nil && total != nil
        }
        if let refusal = refusal(ofLength: total) { return .refused(refusal, retryAfter: nil) }
        if let validator { sources.learn(validator, of: part.source, at: part.hop.url) }
        sources[part.source].givesRanges = givesRanges
        target = Target(total: total, validator: validator, lead: part.source, mimeType: head.mimeType)
        show(head, from: part.hop.url)
        noteResumption(at: 0)
        let isWhole = head.status != 206 || ContentRange(head)?.isWhole ?? false
        let announced =
            [204, 205].contains(head.status) ? [] : head.announcedDigests(of: isWhole ? .whole : .continued)
        begin(total, announced, with: part, until: limit)
        return nil
    }

    private func refusal(ofLength total: Int64?) -> TransferError? {
        guard let total else { return nil }
        if total > attempt.spec.accept.byteCountMax ?? .max {
            return .longerThanAccepted(.waiting)
        }
        if let size = attempt.spec.integrity.size, size != total {
            return TransferError(
                .sizeMismatch, "The size is \(total) bytes instead of \(size).", phase: .waiting,
                isRetryable: true)
        }
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
        if total ?? 0 >= EngineLimits.bulkByteCountMin { becomeBulk() }
        do throws(TransferError) {
            try openWriter(announced)
            if let head { record(head.url, announced) }
        } catch {
            fail(error)
            return
        }
        fill()
    }

    /// Takes a later response, which must have exactly the requested range of the same file.
    private func takeRange(_ head: ResponseHead, of part: SegmentPart) -> PartFailure? {
        guard let target, let asked = part.asked else { return .givesNoRanges }
        let known = sources[part.source].validator
        guard head.status == 206 else { return known?.matches(head) ?? false ? .givesNoRanges : .changed }
        guard head.contentCodings.isEmpty, let range = ContentRange(head), range.first == asked.lowerBound,
            range.last < asked.upperBound
        else { return .givesNoRanges }
        guard range.total == target.total else { return .changed }
        if let failure = lackOfProof(head, of: part, target) { return failure }
        // The source that responded first has provided no byte.
        if self.head == nil
            || suppliers.isEmpty && !parts.values.contains(where: { $0.source == target.lead })
        {
            show(head, from: part.hop.url)
        }
        writer?.digests.expect(head.announcedDigests(of: .continued))
        part.isShort = range.last + 1 < asked.upperBound
        noteResumption(at: plan?.doneByteCount ?? 0)
        plan?.answered(part.id, until: range.last + 1)
        sources[part.source].givesRanges = true
        fill()
        return nil
    }

    /// Returns `nil` if the response proves that its bytes belong to the file. The status 206 alone does not:
    /// a server may not support `If-Range`.
    private func lackOfProof(
        _ head: ResponseHead, of part: SegmentPart, _ target: Target
    ) -> PartFailure? {
        let source = sources[part.source]
        if let known = source.validator {
            let isSamePlace = source.validatorPlace == PartialRecord.source(of: part.hop.url)
            return known.matches(head) || isSamePlace && known.isLeftOut(of: head) ? nil : .changed
        }
        if isTrusted(part) { return nil }
        guard let own = Validator(head) else { return .givesNoRanges }
        // A mirror's validator may differ if a digest proves the file.
        guard hasDigest || own == target.validator else { return .changed }
        sources.learn(own, of: part.source, at: part.hop.url)
        return nil
    }
}

/// Received bytes, and the end of parts.
extension SegmentedTransfer {
    func take(_ bytes: UnsafeRawBufferPointer, of part: SegmentPart) -> BodyVerdict {
        guard let writer, let rest = plan?.rest(of: part.id), let limit = plan?.limit(of: part.id) else {
            part.cut()
            return .abort
        }
        if writer.isFarBehind {
            waitForDisk.append(part)
            return .pause
        }
        guard part.mayMove(bytes.count) else { return .pause }
        let wanted = UnsafeRawBufferPointer(rebasing: bytes.prefix(rest.count))
        do throws(TransferError) {
            try checkLength(rest.lowerBound + Int64(wanted.count))
            try writer.append(wanted, at: rest.lowerBound)
        } catch {
            fail(error)
            return .abort
        }
        _ = plan?.advance(part.id, by: wanted.count)
        suppliers.insert(part.source)
        context.metrics.received(wanted.count)
        progress.set(received: plan?.doneByteCount ?? 0)
        writer.advance(to: plan?.prefix ?? 0)
        let end = rest.lowerBound + Int64(wanted.count)
        part.took(wanted.count, until: end)
        if part.written.count >= EngineLimits.partWriteBehindByteCount {
            do throws(TransferError) { try writer.flush() } catch {
                fail(error)
                return .abort
            }
            tellDisk(part)
        }
        // At the end of the requested range libcurl keeps the connection. If the part ends before it, more
        // bytes would come.
        if end == rest.upperBound, end < limit || wanted.count < bytes.count {
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
        writer?.wrote(part.written)
        part.written = part.written.upperBound..<part.written.upperBound
    }

    /// Whether the file's end is known without the end of the connection.
    var hasKnownEnd: Bool {
        plan?.total != nil || attempt.spec.integrity.size != nil || writer?.digests.isProof ?? false
    }

    /// The part's response has ended, or all its wanted bytes have come.
    func ended(_ part: SegmentPart) {
        // The only part of a file of unknown length: libcurl has reported its end.
        if plan?.total == nil, plan?.rest(of: part.id) != nil { plan?.finish() }
        let isTrifle = part.isShort && part.receivedByteCount < EngineLimits.partByteCountMin
        if isTrifle || plan?.rest(of: part.id) != nil {
            let error = TransferError(
                .incompleteBody, "The server sent less than it had announced.", phase: .receiving,
                isRetryable: true)
            return failed(part, .broken(error))
        }
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
        if part.receivedByteCount >= EngineLimits.partByteCountMin { sources.wasUseful(part.source) }
        let running = runningBySource[part.source] ?? 0
        switch failure {
        case .broken(let error):
            sources.failed(part.source, error, isRefusal: false, running: running)
            note(part.source) { [now] in $0.failed(now: now) }
        case .stopped(let error):
            sources.stopped(part.source, error)
            note(part.source) { [now] in $0.failed(now: now) }
        case .refused(let error, let retryAfter):
            sources.failed(part.source, error, retryAfter: retryAfter, isRefusal: true, running: running)
            // A server that refuses a further connection while others run has not failed.
            if running == 0 { note(part.source) { [now] in $0.failed(now: now) } }
        case .givesNoRanges:
            sources[part.source].isAskedPlainly = true
            sources[part.source].givesRanges = false
        case .changed:
            sources.changed(part.source)
        case .held:
            sources[part.source].heldUntil = now + EngineLimits.refusalPause
        }
        fill()
    }
}
