import Curl
import FerryCore

/// A response whose body the job takes: where its bytes go, and which digests they must have. Also a response
/// that rejects an upload, whose body is stored as that of an accepted one. A pure value.
struct AcceptedResponse {
    let head: ResponseHead
    let hop: Hop
    /// Whether the body is decoded.
    let isDecoded: Bool
    /// Part of the file to which the bytes of the body belong.
    let body: ResponseTable.Body
    /// The bytes of an earlier attempt that the body continues; `nil` if the file begins with it.
    let earlier: EarlierBytes?
    /// Record with which a later attempt continues the file; `nil` if none can, or the body leaves no file
    /// (`mayLeaveFile`).
    var record: PartialRecord?
    /// Whether the response rejects an upload: its body is not the job's content while the job runs.
    var isRejection = false

    /// Bytes of the whole file; `nil` if that is unknown.
    var length: Int64? { head.hasBody(hop.method) ? body.total : 0 }

    /// The bytes that the body continues, and the length of the whole file.
    private var continued: (earlier: EarlierBytes, total: Int64)? {
        guard let earlier, let total = body.total else { return nil }
        return (earlier, total)
    }

    /// Begins the content in a sink, or continues the bytes that are there. `isPaced`: whether a limit on
    /// speed holds.
    func begin(
        in sink: any StreamSink, for attempt: Attempt, _ progress: ProgressMeter, isPaced: Bool,
        on loop: EngineLoop
    ) throws(TransferError) {
        let plan = plan(for: attempt, progress, isPaced: isPaced, on: loop)
        if let continued { return try sink.resume(plan, total: continued.total) }
        try sink.begin(plan)
        if head.status == 206, let total = body.total { try sink.expect(total: total) }
    }

    private func plan(
        for attempt: Attempt, _ progress: ProgressMeter, isPaced: Bool, on loop: EngineLoop
    ) -> ContentPlan {
        let (context, length) = (loop.context, length)
        let gathering = gathering(attempt, isPaced: isPaced, loop)
        return ContentPlan(
            memoryLimit: !attempt.spec.storesFile
                ? Limits.inlineBodyByteCountMax
                : gathering == nil ? context.configuration.memoryByteCountMax : Int(length ?? 0),
            gathering: gathering, byteCountMax: attempt.spec.accept.byteCountMax, length: length,
            expectedByteCount: length ?? attempt.spec.expectedFileByteCount,
            estimatedBy: length == nil ? attempt.tenant : nil,
            digests: Digests(
                attempt.spec.receivedIntegrity,
                // A server may announce those of the bytes that it was sent.
                announced: attempt.spec.kind == .upload ? [] : announcedDigests,
                isRepeatable: attempt.spec.isRepeatable(hop.method)),
            record: record,
            content: isRejection
                ? nil
                : FollowableContent(job: attempt.job, progress: progress, followers: context.followers),
            allowance: context.allowance(of: attempt))
    }

    /// The digests that the server has announced for the bytes that are hashed: all of a continued file.
    private var announcedDigests: [ExpectedDigest] {
        // Without a body they are about the one that another request would have got.
        if hop.method == "HEAD" || [204, 205, 304].contains(head.status) { return [] }
        if let record = continued?.earlier.record {
            return record.announced + head.announcedDigests(of: .continued)
        }
        if isDecoded { return head.announcedDigests(of: .decoded) }
        guard head.status == 206 else { return head.announcedDigests(of: .whole) }
        return head.announcedDigests(of: body.end == body.total ? .part : .continued)
    }

    /// Reserves memory for a body that is neither small nor large, if the transfer is likely to be fast, and
    /// for one whose result the database stores. `nil`: the body does not gather in memory.
    private func gathering(
        _ attempt: Attempt, isPaced: Bool, _ loop: EngineLoop
    ) -> Gathering? {
        let context = loop.context
        guard continued == nil else { return nil }
        if !attempt.spec.storesFile {
            return context.gathering.claim(0).map {
                Gathering(
                    claim: $0, since: loop.multi.now,
                    stayingByteCount: context.configuration.memoryByteCountMax, needsNoFile: true)
            }
        }
        guard attempt.spec.kind == .download, let length, length <= EngineLimits.gatheredBodyByteCountMax,
            length > Int64(context.configuration.memoryByteCountMax), !isPaced, !loop.isCrowded,
            attempt.spec.isRepeatable(hop.method), let claim = context.gathering.claim(Int(length))
        else { return nil }
        return Gathering(claim: claim, since: loop.multi.now)
    }

    /// Whether the body may make a file that a later attempt can continue: it is not small, and continues no
    /// file that has a record.
    func mayLeaveFile(_ spec: JobSpec, _ context: EngineContext) -> Bool {
        continued == nil && spec.kind == .download
            && length ?? .max > Int64(context.configuration.memoryByteCountMax)
    }
}
