import FerryCore

/// The last bytes of a file come as late as the slowest connection brings them. One that has stopped, while
/// nothing else is left to do, is given up long before the job's timeout, and its rest asked for on another.
extension SegmentedTransfer {
    /// Once a second, when every connection that is worth one is used.
    func hurry() {
        guard hurryCount < attempt.spec.segmentCountMax, parts.count < attempt.spec.segmentCountMax,
            plan?.hasFree == false, asksForRanges, let part = parts.values.first(where: { isStuck($0) })
        else { return }
        hurryCount += 1
        part.fail(
            .broken(
                TransferError(
                    .timedOut, "No byte moved on one of several connections.", phase: .receiving,
                    isRetryable: true)))
    }

    /// Whether bytes have come that were asked for as a range, and no more do. One that has not been answered
    /// may take its time.
    private func isStuck(_ part: SegmentPart) -> Bool {
        part.asked != nil && part.receivedByteCount > 0 && sources[part.source].givesRanges == true
            && part.idleTime(now: now) > Int64(context.configuration.silencePatience * 1e9)
    }

    /// Whether what is missing can be asked for as ranges.
    var asksForRanges: Bool {
        guard let target, target.total != nil else { return false }
        return target.validator != nil || hasDigest || goesByLength
    }
}
