import FerryCore
import Sys

/// The upload of one file: stages the file if it is large, submits the job, and waits for its end.
struct PutJob {
    /// A job that the service has accepted, and that has ended if the command waits.
    struct Outcome: Sendable {
        let job: ServiceClient.Response
        /// The staged upload with the bytes of the file; `nil` for others.
        let uploadID: String?
    }

    let plan: PutPlan
    let target: PutTarget
    let row: ProgressRow
    let interruption: PutInterruption

    /// Sends the local file of the target.
    func send() throws(ClientFailure) -> Outcome {
        let file = try OutgoingFile(target.file, byteCountMax: PutPlan.inlineByteCountMax)
        switch file.content {
        case .whole(let bytes): return try send(.init("base64", .string(Base64.encode(bytes))))
        case .large(let version): return try send(file, version)
        case .stream(let first): return try send(file, beginning: first)
        }
    }

    /// Sends bytes that are in the request, or that the service has. `source`: member of `source`.
    func send(_ source: JSON.Member) throws(ClientFailure) -> Outcome {
        let response = try post(
            plan.body(url: target.url, source: source, file: target.name),
            key: plan.idempotencyKey ?? PutPlan.randomKey(), wait: plan.submissionWait
        ).response
        return Outcome(job: try ended(response), uploadID: nil)
    }

    // MARK: Staged files

    private func send(
        _ file: OutgoingFile, _ version: OutgoingFile.Version
    ) throws(ClientFailure) -> Outcome {
        let name = file.stagingName(version, url: target.url)
        let progress = StagingProgress(row, byteCount: version.byteCount)
        var upload = StagedUpload(plan.service, name: name, outage: Outage(plan.contact), sent: progress.note)
        var failure: ClientFailure?
        let bytes = StagedUpload.Bytes(first: 0, end: version.byteCount, isLast: true) { offset, buffer in
            let count = file.copy(from: offset, into: buffer)
            if count <= 0 { failure = count < 0 ? LocalFile.failure(file.path) : file.changed }
            return count
        }
        do throws(ClientFailure) {
            try upload.add(bytes) { failure }
            try file.check(is: version)
        } catch {
            // No later run sends this version of the file.
            if failure != nil || error == file.changed { plan.removeUpload(upload.id ?? name) }
            throw named(error, file, version.byteCount)
        }
        let id = upload.id ?? name
        let body = plan.body(url: target.url, source: .init("upload", .string(name)), file: target.name)
        let job =
            if let key = plan.idempotencyKey {
                try post(body, key: key, wait: nil).response
            } else {
                try submit(body, uploadID: id)
            }
        return Outcome(job: try ended(job), uploadID: id)
    }

    /// Submits the job of a staged upload, unless an earlier run of the command has done so.
    ///
    /// The key depends on the identifier of the upload, which is removed when a command has succeeded, and on
    /// the jobs that earlier runs have submitted and that are done with.
    private func submit(_ body: [UInt8], uploadID: String) throws(ClientFailure) -> ServiceClient.Response {
        var key = PutPlan.key([Array(uploadID.utf8), body, [plan.waits ? 1 : 0]])
        while true {
            let (response, isRepeated) = try post(body, key: key, wait: nil)
            guard response.isReplay, !isRepeated else { return response }
            let id = try identifier(of: response.json)
            if let job = try find(id), isOpen(job.json) { return job }
            key = PutPlan.key([Array(key.utf8), Array(id.utf8)])
        }
    }

    /// Returns `true` if the job has not ended, or has succeeded and no command has reported it.
    private func isOpen(_ job: JSON) -> Bool {
        !hasEnded(job) || plan.waits && job["state"]?.string == JobState.succeeded.rawValue
    }

    private func send(_ file: OutgoingFile, beginning first: [UInt8]) throws(ClientFailure) -> Outcome {
        let name = PutPlan.randomKey()
        let progress = StagingProgress(row, byteCount: nil)
        var upload = StagedUpload(plan.service, name: name, outage: Outage(plan.contact), sent: progress.note)
        var piece = first
        var begin: Int64 = 0
        do throws(ClientFailure) {
            while true {
                let wanted = PutPlan.pieceByteCount - piece.count
                let more = try file.next(wanted)
                piece += more
                let (kept, start) = (piece, begin)
                let bytes = StagedUpload.Bytes(
                    first: start, end: start + Int64(kept.count), isLast: more.count < wanted
                ) { offset, buffer in
                    let rest = kept[Int(offset - start)...].prefix(buffer.count)
                    buffer.copyBytes(from: rest)
                    return rest.count
                }
                try upload.add(bytes) { nil }
                if bytes.isLast { break }
                begin = bytes.end
                piece = []
            }
        } catch {
            plan.removeUpload(name)
            throw named(error, file, begin + Int64(piece.count))
        }
        do throws(ClientFailure) {
            let outcome = try send(.init("upload", .string(name)))
            return Outcome(job: outcome.job, uploadID: upload.id)
        } catch {
            // The service has refused the job, so that nothing needs the upload. After other failures, a job
            // may exist.
            if error.kind == .usage { plan.removeUpload(name) }
            throw error
        }
    }

    /// Names the file in a refusal, such as of its size.
    private func named(_ failure: ClientFailure, _ file: OutgoingFile, _ size: Int64) -> ClientFailure {
        guard failure.kind == .usage else { return failure }
        return ClientFailure(
            .usage, "\(file.path.text) (\(byteCountText(size))) is refused: \(failure.description)")
    }

    // MARK: Jobs

    /// Submits a job, again if the service does not answer. `isRepeated`: `true` if it did not answer an
    /// earlier request, and so may have accepted the job then.
    private func post(
        _ body: [UInt8], key: String, wait: Int?
    ) throws(ClientFailure) -> (response: ServiceClient.Response, isRepeated: Bool) {
        var outage = Outage(plan.contact)
        var isRepeated = false
        while true {
            let raw: ServiceClient.RawResponse
            do throws(ClientFailure) {
                raw = try plan.service.perform(
                    "POST", "/v1/jobs", body: body, wait: wait, idempotencyKey: key)
            } catch {
                try outage.wait(after: error)
                isRepeated = true
                continue
            }
            if (200..<300).contains(raw.status) {
                outage.end()
                return (try plan.service.parsed(raw), isRepeated)
            }
            let failure = ServiceClient.failure(raw.status, raw.body)
            let code = (try? JSON.parse(raw.body))?["code"]?.string
            let isTemporary = raw.status == 429 || code == "idempotency_key_in_progress"
            if raw.status < 500 { plan.contact.note() }
            try outage.wait(after: failure, isTemporary: isTemporary)
            isRepeated = isRepeated || !isTemporary
        }
    }

    /// Returns the job, or `nil` if it was deleted.
    private func find(_ id: String) throws(ClientFailure) -> ServiceClient.Response? {
        var outage = Outage(plan.contact)
        while true {
            do throws(ClientFailure) {
                let raw = try plan.service.perform("GET", "/v1/jobs/\(percentEncoded(id))")
                return raw.status == 404 ? nil : try plan.service.parsed(raw)
            } catch {
                try outage.wait(after: error)
            }
        }
    }

    /// Waits for the end of an accepted job, if the command waits.
    private func ended(_ accepted: ServiceClient.Response) throws(ClientFailure) -> ServiceClient.Response {
        let id = try identifier(of: accepted.json)
        let isOver = !plan.waits || hasEnded(accepted.json)
        interruption.noteAccepted(id, isAwaited: !isOver)
        guard !isOver else { return accepted }
        defer { interruption.noteEnded(id) }
        let watch = JobWatch(service: plan.service, console: row.display.console, timeout: plan.timeout)
        return try watch.end(of: id, on: row)
    }
}

extension PutPlan {
    /// Removes a staged upload that no later run of the command needs, unless an unfinished job does. A
    /// failure leaves it to its retention.
    func removeUpload(_ upload: String) {
        _ = try? service.perform("DELETE", "/v1/uploads/\(upload)")
    }
}
