import FerryCore
import TestGolden
import Testing

/// The functions of `FerryCore` whose output the golden files record. Tests of golden files call no others,
/// so that a change of their signatures concerns this file alone.
enum GoldenAdapter {
    /// Time of the replay.
    static let now = Timestamp(microseconds: 1_795_298_400_000_000)
    private static let created = Timestamp(microseconds: 1_795_000_000_000_000)

    // MARK: Jobs

    /// Reads the body of a job.
    static func job(_ item: GoldenCase) throws -> [JSON.Member] {
        let context = item["context"] ?? .object([])
        let point = try context["resume_data"].flatMap { try ResumePoint(json: bytes($0)) }
        let earlierCount = context["earlier"]?.integer ?? 0
        let scope = try session(context["session"], name: item["input"]?["session"]?.string).map { record in
            SessionScope(
                SessionSnapshot(epoch: 1, removal: 0, records: [record.key: record]),
                tenant: record.key.tenant)
        }
        return try outcome {
            let job = try JobRequest(
                try input(item), at: context["prefix"]?.string ?? "#", node: node(context["node"]),
                sessions: scope, refusal: refusal, resumePoint: { _ in point },
                earlierJob: { $0 < earlierCount ? JobID(high: 1, low: UInt64($0)) : nil })
            return try [
                .init("stored", json(job.spec.encodeStored())), .init("shown", json(job.spec.encode())),
            ] + members(job.secrets) + [
                .init("payload_size", job.payload.map { .integer(Int64($0.count)) } ?? .null),
                .init("origin", .string(job.spec.request.webURL.origin)),
            ]
        }
    }

    /// Changes a job by a merge patch.
    static func jobPatch(_ item: GoldenCase) throws -> [JSON.Member] {
        let before = try draft(item["context"])
        let session = try session(item["context"]?["session"], name: before.spec.session)
        return try outcome {
            let after = try before.merging(
                try input(item), node: node(item["context"]?["node"]), session: session, refusal: refusal)
            return try [.init("stored", json(after.spec.encodeStored()))] + members(after.secrets) + [
                .init("identical", .bool(after.isIdentical(to: before))),
                .init("only_while_running", .bool(after.differsOnlyWhileRunning(from: before))),
            ]
        }
    }

    /// Writes a job as the API and webhooks show it.
    static func shown(_ item: GoldenRecord) throws -> [JSON.Member] {
        var writer = JSONWriter()
        item.record.write(
            into: &writer, progress: item.progress, queue: item.queue,
            for: item.isRedacted ? .redacted : .full(.inverted))
        return [.init("shown", try json(writer.bytes))]
    }

    /// Writes an event as the API shows it.
    static func shown(_ event: Event, job: JobRecord?) throws -> [JSON.Member] {
        var writer = JSONWriter()
        event.write(into: &writer, job: job)
        return [.init("shown", try json(writer.bytes))]
    }

    // MARK: Other bodies

    /// Reads the configuration of a session.
    static func session(_ item: GoldenCase) throws -> [JSON.Member] {
        try outcome {
            let draft = try SessionDraft(
                try input(item), node: node(item["context"]?["node"]), refusal: refusal, seal: { $0 })
            let record = record(draft.configuration, draft.secrets, name: "s")
            return try [
                .init("stored", json(draft.configuration.encodeStored())),
                .init("redacted", json(SessionOverview(record).shown())),
            ] + members(draft.secrets)
        }
    }

    /// Reads a schedule.
    static func schedule(_ item: GoldenCase) throws -> [JSON.Member] {
        try outcome {
            let schedule = try ValidatedSchedule(
                try input(item), zones: KnownTimeZones(),
                now: item["context"]?["now"]?.string.flatMap { Timestamp(rfc3339: $0) } ?? now
            ) { job, pointer, earlierJob throws(InvalidFields) in
                try JobRequest(
                    job, at: pointer, node: node(nil), refusal: refusal, earlierJob: earlierJob)
            }
            let record = ScheduleRecord(
                id: ScheduleID(high: 1, low: 2), tenant: "default", revision: 1, createdAt: created,
                updatedAt: created, spec: schedule.spec,
                templates: schedule.jobs.requests.map { StoredSpec($0.spec.encodeStored(.inverted)) },
                list: schedule.jobs.list)
            return try [
                .init("stored", json(schedule.spec.encode())),
                .init("job", json(schedule.jobs.requests[0].spec.encodeStored())),
                .init("shown", json(record.view(for: .full(.inverted)).shown(isRedacted: false))),
            ] + members(schedule.jobs.requests[0].secrets)
        }
    }

    /// Reads a webhook endpoint.
    static func webhook(_ item: GoldenCase) throws -> [JSON.Member] {
        try outcome {
            try members(try WebhookEndpoint(body: try input(item), FieldContext(refusal: refusal)))
        }
    }

    /// Changes a webhook endpoint by a merge patch.
    static func webhookPatch(_ item: GoldenCase) throws -> [JSON.Member] {
        let before = try WebhookEndpoint(body: JSONView(item["context"]?["before"] ?? .null))
        return try outcome {
            try members(try before.merging(try input(item), FieldContext(refusal: refusal)))
        }
    }

    /// Reads an answer to the question of a job.
    static func answer(_ item: GoldenCase) throws -> [JSON.Member] {
        try outcome {
            let answer = try JobAnswer(try input(item), to: kind(item["context"]?["question"]))
            return [
                .init("disposition", .string(answer.disposition.rawValue)),
                .init("user", answer.credential?.user.map { .string($0) } ?? .null),
                .init("secret", answer.credential.map { .string($0.secret) } ?? .null),
                .init("request", answer.request ?? .null),
                .init("asked_at", answer.askedAt.map { .string($0.description) } ?? .null),
            ]
        }
    }

    /// Applies an answer to a job.
    static func answered(_ item: GoldenCase) throws -> [JSON.Member] {
        let context = item["context"] ?? .null
        let before = try draft(context)
        let question = try JobQuestion(storedJSON: bytes(context["question"] ?? .null), opening: .plain)
        return try outcome {
            let answer = try JobAnswer(try input(item), to: question.kind)
            let resolution = try before.answered(
                question, answer, from: AnswerSource(.api, name: "key_1"), at: now,
                attempt: Int32(context["attempt"]?.integer ?? 0), node: node(context["node"]),
                refusal: refusal)
            let (name, after): (String, JobRequest) =
                switch resolution {
                case .goOn(let draft): ("go_on", draft)
                case .ask(let next, let draft):
                    ("ask \(String(decoding: next.encode(.plain), as: UTF8.self))", draft)
                case .cancel(let draft): ("cancel", draft)
                case .fail(let error, let draft):
                    ("fail \(String(decoding: Stored(error).json, as: UTF8.self))", draft)
                }
            return try [
                .init("resolution", .string(name)), .init("stored", json(after.spec.encodeStored())),
            ] + members(after.secrets)
        }
    }

    /// Changes the off-peak windows by a merge patch.
    static func windows(_ item: GoldenCase) throws -> [JSON.Member] {
        let before = OffPeakWindows(storedJSON: try bytes(item["context"]?["before"])) ?? OffPeakWindows()
        return try outcome {
            let after = try before.merging(try input(item), FieldContext(zones: KnownTimeZones()))
            return try [
                .init("stored", json(after.json)),
                .init("shown", json(after.view(at: now, KnownTimeZones()))),
            ]
        }
    }

    /// Changes the limits of transfers by a merge patch.
    static func limits(_ item: GoldenCase) throws -> [JSON.Member] {
        let before = TransferLimits(storedJSON: try bytes(item["context"]?["before"])) ?? TransferLimits()
        return try outcome { [.init("stored", try json(try before.merging(try input(item)).json))] }
    }

    /// Reads a merge patch of a host. `kept` stands for members that it leaves.
    static func host(_ item: GoldenCase) throws -> [JSON.Member] {
        try outcome {
            let patch = try HostPatch(body: try input(item))
            func value<Value>(_ value: Value??, _ json: (Value) -> JSON) -> JSON {
                guard let value else { return .string("kept") }
                return value.map(json) ?? .null
            }
            return [
                .init("minimum_connections", value(patch.connectionsMin) { .integer(Int64($0)) }),
                .init("maximum_connections", value(patch.connectionsMax) { .integer(Int64($0)) }),
                .init("paused", patch.isPaused.map { .bool($0) } ?? .string("kept")),
                .init("max_bytes_per_second", value(patch.bytesPerSecondMax) { .integer($0) }),
                .init("max_requests_per_second", value(patch.requestsPerSecondMax) { .number($0) }),
                .init("backoff_until", value(patch.backoffUntil) { .string($0.description) }),
            ]
        }
    }

    // MARK: Contexts

    private static func input(_ item: GoldenCase) throws -> JSONView {
        try JSONView(#require(item["input"], "\(item.name) has no input"))
    }

    private static func kind(_ json: JSON?) -> JobQuestion.Kind {
        json?.string.flatMap(JobQuestion.Kind.init) ?? .begin
    }

    /// The egress policy of the replay.
    private static func refusal(_ endpoint: EndpointAddress) -> String? {
        endpoint.host == "10.0.0.1" ? "This address may not be reached." : nil
    }

    private static func node(_ context: JSON?) -> NodeAbilities {
        var node = NodeAbilities(
            hasHTTP3: context?["http3"] == .bool(true),
            certificateError: { $0.contains("CERTIFICATE") ? nil : "This is no certificate." },
            keyError: { pem, _ in pem.contains("PRIVATE KEY") ? nil : "This is no key." })
        node.hasNTLM = context?["ntlm"] == .bool(true)
        node.retentionSeconds = context?["retention"]?.double ?? node.retentionSeconds
        node.missingDigests = Set(context?["missing_digests"]?.array?.compactMap(\.string) ?? [])
        return node
    }

    private static func record(
        _ configuration: SessionConfiguration, _ secrets: JobSecrets, name: String
    ) -> SessionRecord {
        SessionRecord(
            SessionKey(tenant: "default", name: name), revision: 1, epoch: 1, createdAt: created,
            updatedAt: created, configuration: configuration, secrets: secrets)
    }

    private static func session(_ context: JSON?, name: String?) throws -> SessionRecord? {
        guard let context else { return nil }
        return record(
            try SessionConfiguration(storedJSON: bytes(context["configuration"])),
            try context["secrets"].map { try JobSecrets(json: bytes($0)) } ?? JobSecrets(),
            name: name ?? SessionName.standard)
    }

    private static func draft(_ context: JSON?) throws -> JobRequest {
        JobRequest(
            try JobSpec(storedJSON: bytes(context?["spec"])),
            try context?["secrets"].map { try JobSecrets(json: bytes($0)) } ?? JobSecrets())
    }

    // MARK: Output

    /// Returns the output of a decoder, or its errors.
    private static func outcome(_ read: () throws -> [JSON.Member]) throws -> [JSON.Member] {
        do {
            return try read()
        } catch let error as InvalidFields {
            let errors = error.errors.map {
                JSON.array([.string($0.pointer), .string($0.code), .string($0.detail)])
            }
            return [.init("errors", .array(errors))]
        }
    }

    private static func members(_ secrets: JobSecrets) throws -> [JSON.Member] {
        try [.init("secrets", secrets.isEmpty ? .null : json(secrets.encode()))]
    }

    private static func members(_ endpoint: WebhookEndpoint) throws -> [JSON.Member] {
        let record = WebhookRecord(
            id: WebhookID(high: 1, low: 2), tenant: "default", createdAt: created, updatedAt: created,
            endpoint: endpoint, publicKey: "whpk_1", sealedKeys: [])
        return try [false, true].map { isRedacted in
            .init(
                isRedacted ? "redacted" : "shown",
                try json(record.shown(secret: nil, isRedacted: isRedacted)))
        }
    }

    private static func json(_ bytes: [UInt8]) throws -> JSON { try JSON.parse(bytes) }

    private static func bytes(_ json: JSON?) throws -> [UInt8] {
        var writer = JSONWriter()
        writer.value(json ?? .null)
        return writer.bytes
    }
}

extension SecretSeal {
    /// A seal that encrypts nothing.
    static let plain = SecretSeal(seal: { $0 }, open: { $0 })
}
