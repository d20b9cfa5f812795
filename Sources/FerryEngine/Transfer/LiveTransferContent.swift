import Curl
import FerryCore

/// What an answer's head says about its bytes: how they are coded, and what their digests are.
extension LiveTransfer {
    var receiveBufferSize: Int {
        if decoding != nil { return EngineLimits.codedReceiveBufferSize }
        if isBulk { return EngineLimits.bulkReceiveBufferSize }
        if loop.isRoomy { return EngineLimits.roomyReceiveBufferSize }
        return loop.isCrowded ? EngineLimits.crowdedReceiveBufferSize : EngineLimits.receiveBufferSize
    }

    /// Room for a body that is neither small nor large: of a transfer that is likely to be fast, or of one
    /// whose result the database keeps.
    func gathering(_ length: Int64?) -> BodyWriter.Gathering? {
        if attempt.spec.kind == .data {
            return context.gathering.claim(0).map {
                BodyWriter.Gathering(
                    claim: $0, since: loop.multi.now,
                    stayingByteCount: context.configuration.memoryByteCountMax, needsNoFile: true)
            }
        }
        guard attempt.spec.kind == .download, let length, length <= EngineLimits.gatheredBodyByteCountMax,
            length > Int64(context.configuration.memoryByteCountMax), pacing == nil, !loop.isCrowded,
            RequestBuilder.isRepeatable(attempt.spec, method: hop.method),
            let claim = context.gathering.claim(Int(length))
        else { return nil }
        return BodyWriter.Gathering(claim: claim, since: loop.multi.now)
    }

    /// What cannot be sent again has been answered: the status, a redirect and `Retry-After` count.
    var wantsWholeHead: Bool { !isRepeatable }

    /// Sends the same request once more after an answer with another coding, so that the body is stored as it
    /// is sent.
    func asksWithoutCodings(_ error: CurlError) -> Bool {
        guard error == .unaskedCoding, head == nil, decoding != nil, isRepeatable else { return false }
        decoding = nil
        handle(.head(.resend))
        handle(.transferEnded(nil))
        return true
    }

    /// `isContinued`: the answer is the rest of a file, all of which is hashed.
    func announced(_ head: ResponseHead, isDecoded: Bool, isContinued: Bool) -> [ExpectedDigest] {
        // Without a body they are about the one that another request would have got.
        if hop.method == "HEAD" || [204, 205, 304].contains(head.status) { return [] }
        if isContinued {
            return (resumption?.record.announced ?? []) + head.announcedDigests(of: .continued)
        }
        return head.announcedDigests(of: isDecoded ? .decoded : head.status == 206 ? .part : .whole)
    }

    /// libcurl would keep in memory what a pause refuses, and decode on; so all is taken, then reading
    /// pauses.
    func receive(
        decoded bytes: UnsafeRawBufferPointer, _ decoding: Decoding, _ drain: BodyWriter
    ) -> BodyVerdict {
        do throws(TransferError) {
            try decoding.take(bytes.count, turn: loop.multi.now)
            try drain.append(bytes)
        } catch {
            handle(.bodyRefused(error))
            return .abort
        }
        progress.set(received: drain.byteCount)
        meter?.received(bytes.count)
        context.metrics.received(bytes.count)
        charge(bytes.count)
        if drain.lag > EngineLimits.digestLagMax, !waitsForDigest {
            waitsForDigest = true
            transfer?.pauseReceiving()
        }
        return .proceed
    }
}
