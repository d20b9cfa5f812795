import Curl
import FerryCore

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
            hasIfRange: part.asked != nil && validatorToSend(to: part.source) != nil,
            hasBegunAgain: part.hasBegunAgain)
        var judge = ResponseJudge(spec: attempt.spec, egress: context.egress, isDecoded: false)
        if context.sessions.hasCredentials {
            context.note(head, to: part.hop, of: attempt)
            if head.status == 401 || head.status == 407 {
                judge.answer = context.answering(head, part.hop, of: attempt)
            }
        }
        switch judge.judge(head, requested, known: knownFile(at: part.source), now: context.clock.now()) {
        case .follow(let hop, let delay): return .follow(hop, after: delay)
        case .beginAgain:
            part.hasBegunAgain = true
            return .follow(sources.ownHop(of: part.source, leaving: part.hop), after: 0)
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

    /// Knowledge of the file, for a response of that source.
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
