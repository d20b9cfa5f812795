import Curl
import FerryCore

/// A response whose body the job takes: where its bytes go, and which digests they must have. Also a response
/// that rejects an upload, whose body is stored as that of an accepted one. A pure value.
struct AcceptedResponse {
    let head: ResponseHead
    let hop: Hop
    /// Whether the body is decoded.
    let isDecoded: Bool
    /// Where the bytes of the body belong.
    let body: ResponseTable.Body
    /// The bytes of an earlier attempt that the body continues; `nil` if the file begins with it.
    let resumption: Resumption?
    /// What a later attempt needs to continue the file; `nil` if none can, or the body leaves no file
    /// (`mayLeaveFile`).
    var record: PartialRecord?
    /// Whether the response rejects an upload: its body is not the job's content while the job runs.
    var isRejection = false

    /// Bytes of the whole file; `nil` if that is unknown.
    var length: Int64? { head.hasBody(hop.method) ? body.total : 0 }

    /// The bytes that the body continues, and the length of the whole file.
    private var continued: (resumption: Resumption, total: Int64)? {
        guard let resumption, let total = body.total else { return nil }
        return (resumption, total)
    }

    /// Makes the writer of the body. `destination`: of a job that names one, and of any download.
    /// `expectedSpace`: for a body of unknown length. `isPaced`: whether a limit on speed holds.
    func writer(
        for attempt: Attempt, _ progress: ProgressMeter, to destination: Destination?,
        expectedSpace: StorageClaim?, isPaced: Bool,
        on loop: EngineLoop
    ) throws(TransferError) -> BodyWriter {
        let (key, onLoop, context, length) = (AttemptKey(attempt), loop.runner, loop.context, length)
        let gathering = gathering(attempt, isPaced: isPaced, loop)
        let plan = BodyWriter.Plan(
            memoryLimit: !attempt.spec.storesFile
                ? Limits.inlineBodyByteCountMax
                : gathering == nil ? context.configuration.memoryByteCountMax : Int(length ?? 0),
            gathering: gathering,
            byteCountMax: attempt.spec.accept.byteCountMax,
            fileByteCount: length ?? attempt.spec.expectedFileByteCount,
            estimatedBy: length == nil ? attempt.tenant : nil, expectedSpace: expectedSpace,
            space: context.space,
            destination: { () throws(TransferError) -> Destination in
                if let destination { return destination }
                return try context.destination(of: attempt)
            },
            digests: Digests(
                attempt.spec.receivedIntegrity,
                // A server may announce those of the bytes that it was sent.
                announced: attempt.spec.kind == .upload ? [] : announcedDigests,
                isRepeatable: attempt.spec.isRepeatable(hop.method)),
            makeTail: { [fileThreads = context.fileThreads, syncs = context.syncs] file, digests in
                let bytes = DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: syncs)
                return DigestTail(bytes, digests, fileThreads: fileThreads) { onLoop { $0.resume(key) } }
            }, opened: recorder(attempt.spec, context),
            content: isRejection
                ? nil
                : FollowableContent(job: attempt.job, progress: progress, followers: context.followers),
            allowance: context.allowance(of: attempt))
        let writer: BodyWriter
        if let continued {
            writer = try BodyWriter(plan, resuming: continued.resumption.file, total: continued.total)
        } else {
            writer = try BodyWriter(plan, expected: length)
            if head.status == 206, let total = body.total { try writer.expect(total: total) }
        }
        if continued != nil || length ?? 0 >= EngineLimits.recordedByteCountMin {
            writer.recorded.at = loop.multi.now
        }
        if length ?? .max >= EngineLimits.bulkByteCountMin { writer.stage = loop.stage }
        return writer
    }

    /// The digests that the server has announced for the bytes that are hashed: all of a continued file.
    private var announcedDigests: [ExpectedDigest] {
        // Without a body they are about the one that another request would have got.
        if hop.method == "HEAD" || [204, 205, 304].contains(head.status) { return [] }
        if let record = continued?.resumption.record {
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
    ) -> BodyWriter.Gathering? {
        let context = loop.context
        guard continued == nil else { return nil }
        if !attempt.spec.storesFile {
            return context.gathering.claim(0).map {
                BodyWriter.Gathering(
                    claim: $0, since: loop.multi.now,
                    stayingByteCount: context.configuration.memoryByteCountMax, needsNoFile: true)
            }
        }
        guard attempt.spec.kind == .download, let length, length <= EngineLimits.gatheredBodyByteCountMax,
            length > Int64(context.configuration.memoryByteCountMax), !isPaced, !loop.isCrowded,
            attempt.spec.isRepeatable(hop.method), let claim = context.gathering.claim(Int(length))
        else { return nil }
        return BodyWriter.Gathering(claim: claim, since: loop.multi.now)
    }

    /// Whether the body may make a file that a later attempt can continue: it is not small, and continues no
    /// file that has a record.
    func mayLeaveFile(_ spec: JobSpec, _ context: EngineContext) -> Bool {
        continued == nil && spec.kind == .download
            && length ?? .max > Int64(context.configuration.memoryByteCountMax)
    }

    /// Makes a new file one that a later attempt can continue; `nil` if the body leaves none.
    private func recorder(_ spec: JobSpec, _ context: EngineContext) -> ((PartialFile) -> Void)? {
        guard mayLeaveFile(spec, context) else { return nil }
        return { [record, length, fileThreads = context.fileThreads] file in
            guard let record else { return }
            file.becomeResumable(record)
            if let length, length >= EngineLimits.recordedByteCountMin {
                fileThreads.send(.run { file.checkpoint(syncs: false) })
            }
        }
    }
}
