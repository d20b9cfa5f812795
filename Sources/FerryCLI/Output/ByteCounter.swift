package import FerryCore

/// Bytes of a transfer as a line shows them. The count goes backwards only if the transfer begins again.
package struct ByteCounter {
    /// Bytes to show.
    package private(set) var byteCount: Int64 = 0
    /// `true` from a new beginning until as many bytes have moved as before it.
    package var hasBegunAgain: Bool { byteCount < largest }
    /// Largest count that was shown.
    private var largest: Int64 = 0

    /// Creates a counter that shows 0 bytes.
    package init() {}

    /// Takes the bytes of a running job's progress.
    ///
    /// - An attempt has no bytes until its response begins, and the progress of a node that does not answer
    ///   is unknown: the count stays.
    /// - An attempt that resumes may repeat bytes that were not kept: the count stays until they are passed.
    package mutating func take(_ progress: JSON, isUpload: Bool) {
        let new = progress[isUpload ? "bytes_sent" : "bytes_received"]?.integer ?? 0
        guard new > 0, progress["unavailable"] == nil else { return }
        let isResumed = (progress["resumed_at_offset"]?.integer ?? 0) > 0
        byteCount = isResumed ? max(byteCount, new) : new
        largest = max(largest, byteCount)
    }
}
