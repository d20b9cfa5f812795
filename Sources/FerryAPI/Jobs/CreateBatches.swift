internal import FerryCore
internal import HTTPServer

/// One document a line, by whatever name.
private let lineTypes = ["application/x-ndjson", "application/ndjson", "application/jsonl"]

extension API {
    /// `POST /v1/jobs/batch`: all or nothing.
    func submitJobs(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            try call.needMediaType(["application/json"] + lineTypes)
            let idempotency = try idempotency(call)
            let work: @Sendable () -> Void = { [self] in
                call.answering { () throws(Problem) in try submitBatch(call, idempotency) }
            }
            // A hundred jobs take a millisecond; more would hold up everyone else on this thread.
            if call.request.body.count > 131_072 { batches.run(work) } else { work() }
        }
    }

    private func submitBatch(_ call: RequestContext, _ idempotency: Submission.Idempotency?) throws(Problem) {
        let documents = try documents(call)
        guard (1...Limits.batchJobCountMax).contains(documents.count) else {
            throw Problem(
                InvalidFields(
                    "#/jobs", documents.isEmpty ? "invalid_value" : "too_many",
                    "A batch has 1 to \(Limits.batchJobCountMax) jobs, this one \(documents.count)."))
        }
        let trace = traceContext(call.fields)
        let sessions = scope(call)
        var jobs: [NewJob] = []
        jobs.reserveCapacity(documents.count)
        var errors: [FieldError] = []
        let earlier = EarlierJobs()
        for (index, document) in documents.enumerated() {
            do throws(InvalidFields) {
                let job = try validate(document, at: "#/jobs/\(index)", call, sessions) { earlier[$0] }
                // After an error nothing is submitted, and any identifier will do.
                if errors.isEmpty { jobs.append(newJob(job, call, trace: trace, retryOf: nil)) }
                earlier.identifiers.append(errors.isEmpty ? jobs[index].id : identifiers.make())
            } catch {
                earlier.identifiers.append(identifiers.make())
                errors += error.errors
                if errors.count >= ValidationErrors.countMax { break }
            }
        }
        guard errors.isEmpty else {
            let invalid = InvalidFields(Array(errors.prefix(ValidationErrors.countMax)))
            return unlessKnown(idempotency, call, then: { sendBatch($0, call) }) {
                call.fail(Problem(invalid))
            }
        }
        afterReferences(of: jobs, call, idempotency, place: { "#/jobs/\($0)" }) { [self, jobs] in
            ports.intake.submit(
                Submission(jobs: jobs, idempotency: idempotency, sessionEpoch: sessions.snapshot.epoch) {
                    [self] result in
                    switch result {
                    case .failure(.sessionsChanged): batches.run { [self] in submitJobs(call) }
                    case .failure(let error): call.fail(error)
                    case .success(let accepted): sendBatch(accepted, call)
                    }
                })
        }
    }

    private func documents(_ call: RequestContext) throws(Problem) -> [JSON] {
        if try isMediaType(call.fields, lineTypes) { return try lines(call) }
        let complaints = ValidationErrors()
        var jobs: [JSON]?
        if var fields = FieldReader(try call.parse(call.request.body), at: "#", complaints) {
            if !fields.has("jobs") { fields.complain("jobs", "required", "A batch needs jobs.") }
            jobs = fields.array("jobs", countMax: Limits.batchJobCountMax)
            fields.finish()
        }
        guard complaints.isEmpty, let jobs else { throw Problem(InvalidFields(complaints.errors)) }
        return jobs
    }

    /// One document a line; empty lines do not count. One document too many is read, and nothing after it.
    private func lines(_ call: RequestContext) throws(Problem) -> [JSON] {
        var documents: [JSON] = []
        var valuesLeft = JSON.valueCountMax
        var lines = Lines(call.request.body)
        while documents.count <= Limits.batchJobCountMax, let line = lines.next() {
            documents.append(try call.parse(Array(line), line: lines.number, valuesLeft: &valuesLeft))
        }
        return documents
    }
}

/// The lines of a text that are not empty, one at a time: empty ones cost no memory.
private struct Lines {
    private let text: [UInt8]
    private var index = 0
    /// Of the last one, among all lines, from 1.
    private(set) var number = 0

    init(_ text: [UInt8]) { self.text = text }

    mutating func next() -> ArraySlice<UInt8>? {
        var start = index
        var isEmpty = true
        while index < text.count {
            let byte = text[index]
            index += 1
            switch byte {
            case UInt8(ascii: "\n"):
                number += 1
                if !isEmpty { return text[start..<(index - 1)] }
                start = index
            case 0x20, 0x09, 0x0D: break
            default: isEmpty = false
            }
        }
        guard !isEmpty else { return nil }
        number += 1
        return text[start...]
    }
}

/// The identifiers of the jobs of a batch that have been read.
private final class EarlierJobs {
    var identifiers: [JobID] = []

    subscript(place: Int) -> JobID? { identifiers.indices.contains(place) ? identifiers[place] : nil }
}

private func sendBatch(_ accepted: Submission.Accepted, _ call: RequestContext) {
    var writer = JSONWriter(reservingCapacity: 64 * accepted.jobs.count + 16)
    writer.beginObject()
    writer.name("data")
    writer.beginArray()
    for job in accepted.jobs {
        writer.beginObject()
        writer.member("id", job.id)
        writer.member("state", job.state.rawValue)
        writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    call.send(201, json: writer.bytes, accepted.isReplay ? [("Idempotency-Replayed", "true")] : [])
}
