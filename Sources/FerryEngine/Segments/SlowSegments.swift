import FerryCore

/// The slowest connection decides when a file is complete. A connection without progress is given up long
/// before the job's timeout if that costs nothing: no other bytes are left to fetch, or there is a mirror.
extension PartExchanges {
    /// Called once a second, when all useful connections are in use: gives up at most one that makes no
    /// progress.
    func endStalledPart() {
        guard stalledPartCount < max(attempt.spec.segmentCountMax, sources.count),
            let part = parts.values.first(where: { isIdle($0) && (isLast($0) || hasSubstitute($0)) })
        else { return }
        stalledPartCount += 1
        part.fail(
            .stopped(
                TransferError(
                    .timedOut, "No byte moved, and there was another connection or mirror to ask.",
                    phase: part.exchange.phase, isRetryable: true)))
    }

    private func isIdle(_ part: SegmentPart) -> Bool {
        part.exchange.idleTime > Int64(context.stallSeconds * 1e9)
    }

    /// Whether the rest of a part is all that is left to fetch. A part without a response may only be slow,
    /// so it does not count.
    private func isLast(_ part: SegmentPart) -> Bool {
        part.asked != nil && part.receivedByteCount > 0 && canGoOn(after: part)
            && parts.count < attempt.spec.segmentCountMax && plan?.hasFree == false
    }

    /// Whether another source can be asked for all missing bytes, and nothing is lost if it does not have
    /// them.
    private func hasSubstitute(_ part: SegmentPart) -> Bool {
        guard parts.count == 1, let other = sources.substitute(for: part.source, target) else { return false }
        return !part.hasHead || canGoOn(after: part) || asksForRanges && sources[other].givesRanges == true
    }

    /// Whether the part's rest can be requested again. A source that has refused a connection may refuse the
    /// next one too.
    private func canGoOn(after part: SegmentPart) -> Bool {
        let source = sources[part.source]
        return source.givesRanges == true && source.partCountMax == Limits.segmentCountMax && asksForRanges
    }

    /// Whether the missing bytes can be requested as ranges.
    var asksForRanges: Bool {
        guard let target, target.total != nil else { return false }
        return target.validator != nil || hasDigest || goesByLength
    }
}
