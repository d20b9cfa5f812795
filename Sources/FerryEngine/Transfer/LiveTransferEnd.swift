import Curl
import FerryCore

/// What an attempt does once libcurl has seen the whole answer.
extension LiveTransfer {
    func store() {
        do throws(TransferError) {
            try source?.check()
        } catch {
            handle(.storageFailed(error))
            return
        }
        if attempt.spec.kind == .upload {
            storeUpload()
            return
        }
        if case .parts(let parts) = sink { return storeLast(of: parts) }
        guard case .drain(let drain) = sink else { return }
        do throws(TransferError) {
            try drain.checkEnd()
        } catch {
            handle(.storageFailed(error))
            return
        }
        guard attempt.spec.kind == .data, let body = drain.inMemory else {
            do throws(TransferError) {
                try publish(drain, to: drain.destination())
            } catch {
                handle(.storageFailed(error))
            }
            return
        }
        do throws(TransferError) {
            drain.digests.update(body)
            let sha256 = try drain.digests.finish()
            handle(
                .stored(
                    TransferResult(
                        path: nil, size: drain.byteCount, sha256: sha256, body: body, isKept: false,
                        verified: verification(drain.digests))))
        } catch {
            handle(.storageFailed(error))
        }
    }

    private func verification(_ digests: Digests) -> TransferResult.Verification {
        digests.verification(attempt.spec.integrity, isDelimited: head?.isDelimited(hop.method) ?? false)
    }

    private func publish(_ drain: BodyWriter, to destination: Destination) {
        sink = .none
        resumption = nil
        let (loop, digests, verification) = (loop, drain.digests, verification(drain.digests))
        let offset = progress.resumedAtOffset
        // The answer is over: nothing of the result but its outcome changes from here on.
        let ended = result(.released)
        let isInline =
            attempt.spec.kind == .data && drain.byteCount <= Int64(Limits.inlineBodyByteCountMax)
        publication = drain.publish(context.lane) { bytes in
            loop.publication(
                bytes, to: destination, digests, verification, ended, resumedAt: offset, isInline: isInline)
        }
    }

    private func storeUpload() {
        guard let source, source.isSent else {
            handle(
                .storageFailed(
                    TransferError(
                        .connectionLost, "The server answered before it had the whole body.", phase: .sending,
                        isRetryable: true)))
            return
        }
        let (key, tell, digests, verification) = (
            key, loop.teller, source.digests, verification(source.digests)
        )
        let size = source.subjectByteCount
        source.whenHashed { tail in
            let event: AttemptMachine.Event
            do throws(TransferError) {
                if let failure = tail?.failure { throw failure }
                event = .stored(
                    TransferResult(
                        path: nil, size: size, sha256: try digests.finish(), body: nil, isKept: false,
                        verified: verification))
            } catch {
                event = .storageFailed(error)
            }
            tell { $0.handle(event, for: key) }
        }
    }
}

/// What an attempt leaves behind.
extension LiveTransfer {
    func report(_ outcome: AttemptResult.Outcome, kept: PartialDownload? = nil) {
        leave()
        let outcome = settled(outcome)
        if case .failed(let error, _) = outcome { diagnostics = error.diagnostics ?? diagnostics }
        context.report(result(outcome, kept: kept))
    }

    var isConnecting: Bool { transfer != nil && !mayHaveReached }

    func silence(_ now: Int64) -> Int64 { transfer?.isPaused ?? true ? 0 : now - lastActivity }

    var unansweredScope: RequestScope? {
        mayHaveReached && head == nil && !attempt.hasOwnProxy ? attempt.scope(of: hop.url) : nil
    }

    var waitsForDisk: Bool { machine.waitsForDisk || waitsForDigest || awaitedReport != nil }

    func outwait(_ error: TransferError) {
        if let outcome = awaitedReport { return report(outcome) }
        guard publication?.revoke() ?? true else { return }
        handle(.outwaited(error))
    }

    func leave() {
        needSlot()
        if isBulk { context.bulk.ended(on: loop.index) }
        loop.ended(key)
    }

    func result(_ outcome: AttemptResult.Outcome, kept: PartialDownload? = nil) -> AttemptResult {
        var response = head?.response(from: hop.url)
        response?.bodyExcerpt = excerptText
        var result = AttemptResult(
            attempt: attempt, outcome: harmless(outcome), response: response,
            bytesReceived: progress.bytesReceived, bytesSent: progress.bytesSent, trace: trace,
            kept: kept, endedElsewhere: attempt.isElsewhere(hop) || diagnostics.isOwnShortage,
            answer: head.flatMap { context.hostAnswer($0, from: hop.url, to: attempt) }, home: home)
        result.lentSeconds = slot.lentSeconds
        return result
    }
}

extension Attempt {
    /// Whether a failure at this hop says nothing about the job's own host.
    fileprivate func isElsewhere(_ hop: Hop) -> Bool {
        hasOwnProxy || hop.redirectCount > 0 && hop.url.origin != origin
    }

    var hasOwnProxy: Bool { spec.request.connection?.proxy != nil }
}

extension EngineLoop {
    /// The publication of an attempt's bytes. Its result is reported when the file has its name, as `ended`
    /// with that outcome; what else becomes of it comes back as an event of that attempt. `isInline`: there
    /// will be no file.
    func publication(
        _ bytes: Publication.Bytes, to destination: Destination, _ digests: Digests,
        _ verified: TransferResult.Verification, _ ended: AttemptResult, resumedAt offset: Int64?,
        isInline: Bool = false
    ) -> Publication {
        let (state, context, key) = (state, context, AttemptKey(ended.attempt))
        return Publication(
            Publication.Plan(
                bytes: bytes, destination: destination, digests: digests, verified: verified,
                isInline: isInline, syncs: context.configuration.fileSync == .full, space: context.space,
                holdsLease: { context.lease.holdsLease(of: key.job, attempt: key.number) },
                leftovers: context.leftovers, loop: loop,
                report: { result in
                    let result = result.resumed(at: offset)
                    context.report(ended.with(.succeeded(result), at: context.clock.now()))
                },
                deliver: { multi, outcome in
                    let state = state.get(multi)
                    switch outcome {
                    case .stored: state.handle(.published, for: key)
                    case .failed(let error): state.handle(.storageFailed(error), for: key)
                    case .revoked(let bytes):
                        state.putAside(bytes, for: key)
                        state.handle(.revoked, for: key)
                    }
                }))
    }
}

extension Digests {
    /// `isDelimited`: whether the answer said where its body ends.
    func verification(_ integrity: JobSpec.Integrity, isDelimited: Bool) -> TransferResult.Verification {
        if isProof { return .digest }
        return integrity.size != nil || isDelimited ? .length : .none
    }
}

extension ResponseHead {
    /// What the client is shown of an answer from there.
    func response(from url: WebURL) -> TransferResponse {
        TransferResponse(
            status: status, url: url.string, headers: headers, mimeType: mimeType,
            suggestedFilename: suggestedFilename(self, url: url), expectedContentLength: contentLength)
    }
}

/// What ends an attempt that would otherwise wait for ever.
extension LiveTransfer {
    /// Once a second: nothing may wait for ever.
    func secondPassed(_ now: Int64, _ seconds: Double) {
        progress.measure(seconds: seconds)
        recordProgress(now)
        if case .drain(let drain) = sink {
            do throws(TransferError) {
                try drain.secondPassed(now)
            } catch {
                return handle(.bodyRefused(error))
            }
        }
        if now >= resourceDeadline {
            handle(.timedOut(attempt.overdue(phase)))
        } else if silence(now) > Int64(attempt.spec.request.timeoutForRequest * 1e9) {
            handle(
                .timedOut(
                    TransferError(
                        .timedOut, "No byte moved for \(attempt.spec.request.timeoutForRequest) seconds.",
                        phase: phase, isRetryable: true)))
        }
    }

    private var phase: TransferError.Phase {
        if head != nil { return .receiving }
        guard let info = transfer?.info, info.timings.preTransfer > 0 else { return .connecting }
        return hasSentBody ? .waiting : .sending
    }
}

extension TransferResult {
    fileprivate func resumed(at offset: Int64?) -> TransferResult {
        guard let offset else { return self }
        var result = self
        result.resumedAtOffset = offset
        return result
    }
}
