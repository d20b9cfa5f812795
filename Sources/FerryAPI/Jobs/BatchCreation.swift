internal import FerryCore
internal import HTTPServer

/// Media types of a body with one JSON text on each line.
private let lineTypes = ["application/x-ndjson", "application/ndjson", "application/jsonl"]

/// `POST /v1/jobs/batch`: accepts all jobs of a body, or none.
final class BatchCreation: Sendable {
    private let sink: any SubmissionSink
    private let identifiers: IdentifierGenerator
    private let validation: JobValidation
    private let factory: JobFactory
    private let references: JobReferenceCheck
    private let earlier: EarlierSubmissions
    private let batches: BatchThread

    init(
        _ sink: any SubmissionSink, _ identifiers: IdentifierGenerator, _ validation: JobValidation,
        _ factory: JobFactory, _ references: JobReferenceCheck, _ earlier: EarlierSubmissions,
        _ batches: BatchThread
    ) {
        self.sink = sink
        self.identifiers = identifiers
        self.validation = validation
        self.factory = factory
        self.references = references
        self.earlier = earlier
        self.batches = batches
    }

    /// `POST /v1/jobs/batch`
    func create(_ request: RequestContext) throws(Problem) {
        try request.needMediaType(["application/json"] + lineTypes)
        try batches.run(request) { [self] () throws(Problem) in try submit(request) }
    }

    private func submit(_ request: RequestContext) throws(Problem) {
        let batch = try batch(request)
        let documents = batch.jobs
        let key = try request.idempotency(batch.identity)
        guard (1...Limits.batchJobCountMax).contains(documents.count) else {
            throw Problem(
                InvalidFields(
                    "#/jobs", documents.isEmpty ? "invalid_value" : "too_many",
                    "A batch must have 1 to \(Limits.batchJobCountMax) jobs; this one has \(documents.count)."
                ))
        }
        let trace = traceContext(request.fields)
        let sessions = validation.sessions(of: request)
        var jobs: [NewJob] = []
        jobs.reserveCapacity(documents.count)
        var errors: [FieldError] = []
        let earlierJobs = EarlierJobs()
        for (index, document) in documents.enumerated() {
            do throws(InvalidFields) {
                var job = try validation.validate(document, at: "#/jobs/\(index)", request, sessions) {
                    earlierJobs[$0]
                }
                if job.spec.group == nil, document["group"] == nil { job.spec.group = batch.group }
                // After an error no job is submitted, and any identifier will do.
                if errors.isEmpty { jobs.append(factory.newJob(job, request, trace: trace)) }
                earlierJobs.identifiers.append(errors.isEmpty ? jobs[index].id : identifiers.make())
            } catch {
                earlierJobs.identifiers.append(identifiers.make())
                errors += error.errors
                if errors.count >= ValidationErrors.countMax { break }
            }
        }
        if errors.isEmpty { errors = BatchDestinations(jobs).conflicts { "#/jobs/\($0)" } }
        guard errors.isEmpty else {
            let invalid = InvalidFields(Array(errors.prefix(ValidationErrors.countMax)))
            return earlier.find(key, request, then: { sendBatch($0, request) }) {
                request.fail(Problem(invalid))
            }
        }
        references.resolveUploads(jobs, request, key, factory.secrets, place: { "#/jobs/\($0)" }) {
            [self] jobs in submit(jobs, batch, request, key, sessions)
        }
    }

    private func submit(
        _ jobs: [NewJob], _ batch: Batch, _ request: RequestContext, _ key: Submission.Idempotency?,
        _ sessions: SessionScope
    ) {
        references.check(jobs, request, key, place: { "#/jobs/\($0)" }) { [self, jobs] in
            sink.submit(
                Submission(
                    jobs: jobs, idempotency: key, closedGroup: batch.closesGroup ? batch.group : nil,
                    sessionEpoch: sessions.snapshot.epoch
                ) { [self] result in
                    switch result {
                    case .failure(.sessionsChanged):
                        batches.run { [self] in
                            request.run { () throws(Problem) in try create(request) }
                        }
                    case .failure(let error): request.fail(error)
                    case .success(let accepted): sendBatch(accepted, request)
                    }
                })
        }
    }

    /// The members of a body.
    private struct Batch: Sendable {
        var jobs: [JSONView]
        /// Group of the jobs that name none.
        var group: String?
        var closesGroup = false
        /// Documents that identify the request.
        var identity: [JSONView]
    }

    private func batch(_ request: RequestContext) throws(Problem) -> Batch {
        if try isMediaType(request.fields, lineTypes) {
            let lines = try lines(request)
            return Batch(jobs: lines, identity: lines)
        }
        let json = try request.parse(request.body)
        let body = try valid(try BatchRequest(body: json))
        let jobs = body.jobs.map(\.json)
        // Without a group, a batch has the identity of its jobs, as an NDJSON batch has.
        let identity = body.group == nil ? jobs : [json]
        return Batch(jobs: jobs, group: body.group, closesGroup: body.closesGroup, identity: identity)
    }

    /// Returns one document for each line that is not empty. Stops after one more document than allowed.
    private func lines(_ request: RequestContext) throws(Problem) -> [JSONView] {
        var documents: [JSONView] = []
        var valuesLeft = JSON.valueCountMax
        var lines = Lines(request.body)
        while documents.count <= Limits.batchJobCountMax, let line = lines.next() {
            documents.append(try request.parse(Array(line), line: lines.number, valuesLeft: &valuesLeft))
        }
        return documents
    }
}

/// The body of `POST /v1/jobs/batch`.
struct BatchRequest: FieldObject {
    static let summary = "Jobs that are accepted together or not at all."
    static let schemaName = "BatchRequest"
    fileprivate var jobs: [Job] = []
    fileprivate var group: String?
    fileprivate var closesGroup = false

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "jobs", &jobs,
            ListRule(0...Limits.batchJobCountMax, of: NoRule(), isUnique: false, documentsOne: true),
            .of(required: true), "The jobs. Either all are accepted, or none.")
        visitor.field(
            "group", &group, .groupName, .plain,
            "Group of the jobs that have no member group; null for none.")
        visitor.field(
            "close_group", &closesGroup, .plain,
            "Whether the group is closed with these jobs: later only retries of its jobs join it.")
    }

    mutating func check(_ body: FieldDecoder) {
        if closesGroup, group == nil {
            body.fail("close_group", "invalid_combination", "This needs group.")
        }
    }

    /// A job, which is validated apart.
    fileprivate struct Job: FieldValue {
        let json: JSONView

        static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
            Self(json: json)
        }
        // An invalid value is damage, for any reason.
        static func restore(_ json: JSON) -> Self? { (try? JSONView(json)).map(Self.init) }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(json) }
        static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/JobRequest")]
        }
    }
}

/// The lines of a text that are not empty, one at a time, so that empty lines use no memory.
private struct Lines {
    private let text: [UInt8]
    private var index = 0
    /// Number of the line that was returned last, from 1, empty lines included.
    private(set) var number = 0

    init(_ text: [UInt8]) {
        self.text = text
        if text.starts(with: JSON.byteOrderMark) { index = JSON.byteOrderMark.count }
    }

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

/// Identifiers of the jobs of a batch that have been read, by their index.
private final class EarlierJobs {
    var identifiers: [JobID] = []

    subscript(index: Int) -> JobID? { identifiers.indices.contains(index) ? identifiers[index] : nil }
}

/// Responds with the accepted jobs of a batch, or of a run of a schedule.
func sendBatch(_ accepted: Submission.Accepted, _ request: RequestContext) {
    let answer = BatchAnswer(
        jobs: accepted.jobs.map { BatchAnswer.Entry(id: $0.id, state: $0.state, isNew: $0.isNew) })
    request.send(
        accepted.jobs.contains(where: \.isNew) ? 201 : 200,
        json: answer.shown(reservingCapacity: 64 * accepted.jobs.count + 16),
        accepted.isReplay ? replayed : [])
}

/// The response of `POST /v1/jobs/batch`, and of a run of a schedule with several jobs.
struct BatchAnswer: ShownObject {
    static let summary = "The accepted jobs of a batch, or of a run of a schedule."
    static let schemaName = "BatchAnswer"

    fileprivate let jobs: [Entry]

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("data", \.jobs, "The jobs, in the order of the request.")
    }

    fileprivate struct Entry: ShownObject {
        static let summary = "An accepted job of a batch."
        static let schemaName = "BatchEntry"

        let id: JobID
        let state: JobState
        let isNew: Bool

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("id", \.id, "Identifier of the job.")
            list.member("state", \.state, "State of the job.")
            list.member(
                "created", \.isNew,
                "Whether the request created the job. false: the job existed before and has its unique key.")
        }
    }
}
