import Curl
import FerryCore

/// Answers whose parts take each other's place.
extension LiveTransfer {
    func receive(_ bytes: UnsafeRawBufferPointer, _ parts: ReplacedParts) -> BodyVerdict {
        guard mayMove(bytes.count, .receiving) else { return .pause }
        do throws(TransferError) {
            try parts.take(bytes)
        } catch {
            handle(.bodyRefused(error))
            return .abort
        }
        progress.set(received: parts.byteCount)
        meter?.received(bytes.count)
        context.metrics.received(bytes.count)
        return .proceed
    }

    /// The last whole part is the job's body.
    func storeLast(of parts: ReplacedParts) {
        do throws(TransferError) {
            let part = try parts.finish()
            let digests = Digests(
                attempt.spec.integrity,
                isRepeatable: RequestBuilder.isRepeatable(attempt.spec, method: hop.method))
            digests.update(part.bytes)
            var result = TransferResult(
                path: nil, size: Int64(part.bytes.count), sha256: try digests.finish(), body: part.bytes,
                isKept: false, verified: digests.verification(attempt.spec.integrity, isDelimited: true))
            result.parts = .init(count: parts.count, mimeType: part.mimeType)
            handle(.stored(result))
        } catch {
            handle(.storageFailed(error))
        }
    }
}
