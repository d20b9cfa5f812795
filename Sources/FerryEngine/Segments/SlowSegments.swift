import FerryCore

/// A file comes as late as the slowest connection brings it. One that stopped is given up long before the
/// job's timeout when that costs nothing: nothing else is left to do, or there is a mirror to ask.
extension SegmentedTransfer {
    /// Once a second, when every connection that is worth one is used.
    func hurry() {
        guard hurryCount < max(attempt.spec.segmentCountMax, sources.count),
            let part = parts.values.first(where: { isIdle($0) && (isLast($0) || hasSubstitute($0)) })
        else { return }
        hurryCount += 1
        part.fail(
            .stopped(
                TransferError(
                    .timedOut, "No byte moved, and there was another connection or mirror to ask.",
                    phase: part.phase, isRetryable: true)))
    }

    private func isIdle(_ part: SegmentPart) -> Bool {
        part.idleTime(now: now) > Int64(context.configuration.silencePatience * 1e9)
    }

    /// Whether a part that gets nothing more is what the others have left. One that has not been answered may
    /// take its time.
    private func isLast(_ part: SegmentPart) -> Bool {
        part.asked != nil && part.receivedByteCount > 0 && canGoOn(after: part)
            && parts.count < attempt.spec.segmentCountMax && plan?.hasFree == false
    }

    /// Whether somebody else can be asked for all that is missing, and nothing is lost if he has not got it.
    private func hasSubstitute(_ part: SegmentPart) -> Bool {
        guard parts.count == 1, let other = sources.substitute(for: part.source, target) else { return false }
        return !part.hasHead || canGoOn(after: part) || asksForRanges && sources[other].givesRanges == true
    }

    /// Who has refused connections may refuse the next one for good.
    private func canGoOn(after part: SegmentPart) -> Bool {
        let source = sources[part.source]
        return source.givesRanges == true && source.partCountMax == Limits.segmentCountMax && asksForRanges
    }

    /// Whether what is missing can be asked for as ranges.
    var asksForRanges: Bool {
        guard let target, target.total != nil else { return false }
        return target.validator != nil || hasDigest || goesByLength
    }
}
