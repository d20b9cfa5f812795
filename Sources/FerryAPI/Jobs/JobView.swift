internal import FerryCore

/// Writes jobs as responses show them: with the progress of their attempts, and with the state of the service
/// that explains why a job is queued.
struct JobView: Sendable {
    private let queue: @Sendable () -> QueueConditions
    let progress: JobProgress

    init(_ ports: APIPorts) {
        progress = JobProgress(ports)
        queue = ports.queue
    }

    /// Writes a job with progress that was read before.
    func write(
        _ record: JobRecord, _ reading: JobProgress.Reading, for disclosure: Disclosure,
        into writer: inout JSONWriter
    ) { reading.write(record, into: &writer, queue: queue(), for: disclosure) }

    /// Like `write`, for the members that the client has selected; `nil` for all.
    func write(
        _ record: JobRecord, _ reading: JobProgress.Reading, _ selection: MemberSelection?,
        for disclosure: Disclosure, into writer: inout JSONWriter
    ) {
        guard let selection else { return write(record, reading, for: disclosure, into: &writer) }
        var whole = JSONWriter(reservingCapacity: record.storedSpec.json.count + 1_024)
        write(record, reading, for: disclosure, into: &whole)
        do throws(JSON.SyntaxError) {
            try selection.write(whole.bytes, into: &writer)
        } catch {
            // The stored fields are damaged, and shown as they are.
            writer.raw(whole.bytes)
        }
    }

    /// Sends a job with its entity tag.
    func send(
        _ record: JobRecord, _ status: Int, to request: RequestContext,
        _ extra: [(name: String, value: String)] = []
    ) {
        progress.read(CollectionOfOne(record)) { reading in
            request.send(status, tag: entityTag(revision: record.revision), extra) {
                var writer = JSONWriter(reservingCapacity: record.storedSpec.json.count + 1_024)
                write(record, reading, for: request.disclosure, into: &writer)
                return writer.bytes
            }
        }
    }

    /// Sends a job that its request has created. `isReplay`: an earlier request with the same key has created
    /// it. `isNew`: `false` if the job existed before and has the unique key of the submitted one. `waited`:
    /// seconds that `Prefer: wait` asked for, if the response waited.
    func sendCreated(
        _ record: JobRecord, isReplay: Bool, isNew: Bool = true, to request: RequestContext,
        waited: Double? = nil
    ) {
        let location = [(name: "Location", value: "/v1/jobs/\(record.id)")]
        send(
            record, isNew ? 201 : 200, to: request,
            location + (waited.map(appliedWait) ?? []) + (isReplay ? replayed : []))
    }
}

/// The response field that names the preference `wait` (RFC 7240 §3).
func appliedWait(_ seconds: Double) -> [(name: String, value: String)] {
    [("Preference-Applied", "wait=\(Int(seconds))")]
}

/// The response field of a request that repeats an earlier one with the same `Idempotency-Key`.
let replayed: [(name: String, value: String)] = [("Idempotency-Replayed", "true")]
