/// An event with its position in the log of its session.
public struct Event: Sendable, Equatable {
    /// Identifier of the event.
    public let id: EventID
    /// Tenant of the session.
    public let tenant: String
    /// Session of the event.
    public let session: String
    /// Number of the event, without gaps per tenant and session.
    public let sequence: Int64
    /// The time that the event shows: when it happened, or the time of the session's event before it if that
    /// is later.
    public let timestamp: Timestamp
    /// Record of the event: its type, its subject and its time.
    public let record: EventRecord

    /// Creates an event.
    public init(
        id: EventID, tenant: String, session: String, sequence: Int64, timestamp: Timestamp,
        record: EventRecord
    ) {
        self.id = id
        self.tenant = tenant
        self.session = session
        self.sequence = sequence
        self.timestamp = timestamp
        self.record = record
    }

    /// Writes the event as the API shows it. `job`: its row now, or `nil` if the job was deleted.
    public func write(into writer: inout JSONWriter, job: JobRecord?) {
        LoggedEvent(event: self, job: job).show(into: &writer, isRedacted: true)
    }
}

/// An event of the log.
public struct LoggedEvent: ShownObject {
    public static let summary = "An event of the log."
    public static let schemaName = "LoggedEvent"

    fileprivate let event: Event
    fileprivate let job: JobRecord?

    private var data: EventContent {
        EventContent(
            sequence: event.sequence, session: event.session.isEmpty ? nil : event.session,
            offset: event.record.type == .jobResumedAtOffset ? .some(event.record.offset) : nil,
            job: .init { event.record.writeJob(into: &$0, job) },
            webhook: event.record.disabledWebhook.map { StoredJSON($0.json) },
            group: event.record.finishedGroup.map { StoredJSON($0) }, host: event.record.hostChange)
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "id", \.event.id, "Identifier of the event.", [.examples("evt_01jd6m5k3w8r9x2t7v4b1c0zqh")])
        list.member("type", \.event.record.type, "Type of the event.")
        list.member("timestamp", \.event.timestamp, "Time of the event.")
        list.member("data", \.data, "What the event is about.")
    }
}

/// An event as a webhook with the format `standard` gets it; `WebhookMessage` writes it.
public struct DeliveredEvent: ShownObject {
    public static let summary = "An event, as a webhook gets it."
    public static let schemaName = "Event"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.described("type", EventType.self, "Type of the event.")
        list.described("timestamp", Timestamp.self, "Time of the event.")
        list.described("data", EventContent.self, "What the event is about.")
    }
}

/// Subject of an event: the member `data`.
public struct EventContent: ShownObject {
    public static let summary = "What an event is about."
    public static let schemaName = "EventData"

    let sequence: Int64
    let session: String?
    let offset: Int64??
    let job: Job
    let webhook: StoredJSON<DisabledWebhook>?
    let group: StoredJSON<JobGroup>?
    let host: HostChange?

    /// Creates the content. `offset`: only for `job.resumed_at_offset`.
    public init(
        sequence: Int64, session: String?, offset: Int64??, job: Job, webhook: StoredJSON<DisabledWebhook>?,
        group: StoredJSON<JobGroup>?, host: HostChange?
    ) {
        self.sequence = sequence
        self.session = session
        self.offset = offset
        self.job = job
        self.webhook = webhook
        self.group = group
        self.host = host
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("sequence", \.sequence, "Number of the event in its tenant and session, without gaps.")
        list.member("session", \.session, "Name of the session; null for an event of a group or a host.")
        list.optional(
            "offset", \.offset,
            "Only of job.resumed_at_offset: the first byte that is moved; 0 if the transfer restarted.")
        list.member(
            "job", \.job,
            "The job as it was at the event. Only its id if the job was deleted; null for an event of a "
                + "session, an endpoint, a group or a host.")
        list.optional("webhook", \.webhook, "Only of webhook.disabled: the endpoint.")
        list.optional("group", \.group, "Only of group.finished: the group as it was at the event.")
        list.optional("host", { $0.host?.host }, "Only of events of a host: the origin, scheme://host:port.")
        list.optional("detail", { $0.host?.detail }, "Only of events of a host: one sentence for people.")
        list.optional(
            "waiting_jobs", { $0.host?.waitingJobCount },
            "Only of events of a host: the tenant's unfinished jobs that wait until it can be reached.")
    }

    /// The job of an event, a deleted job, or null.
    public struct Job: ShownValue {
        private let write: @Sendable (inout JSONWriter) -> Void

        /// Creates a value that the function writes.
        public init(_ write: @escaping @Sendable (inout JSONWriter) -> Void) { self.write = write }

        public func show(into writer: inout JSONWriter, isRedacted: Bool) { write(&writer) }
        public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
            let choices = [
                [JSON.Member("$ref", "#/components/schemas/Job")], DeletedJob.shownSchema(in: schemas),
                [JSON.Member("type", "null")],
            ]
            return [JSON.Member("anyOf", .array(choices.map { .object($0) }))]
        }
    }
}

/// A job that was deleted, in an event.
private struct DeletedJob: ShownObject {
    static let summary = "A job that was deleted."
    static let schemaName = "DeletedJob"

    let id: JobID

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the job.")
    }
}

extension EventRecord {
    /// Offset of `job.resumed_at_offset` in bytes; `nil` for other events, and if the detail is damaged.
    public var offset: Int64? {
        // `JobRecord.asOf` reports the damage.
        type == .jobResumedAtOffset ? (try? EventDetail(packed: detail))?.offset : nil
    }

    /// Writes the job as it was at the event. `current`: its row now. A job that was deleted, or whose detail
    /// is damaged, has its identifier only; an event of a session has null.
    public func writeJob(into writer: inout JSONWriter, _ current: JobRecord?) {
        guard let job else { return writer.null() }
        guard let past = current?.asOf(self) else {
            return DeletedJob(id: job).show(into: &writer, isRedacted: true)
        }
        let progress = offset.map { TransferProgress(bytesReceived: $0, resumedAtOffset: $0) }
        past.write(into: &writer, progress: progress)
    }

    /// Returns the JSON that `writeJob` writes.
    public func jobJSON(_ current: JobRecord?) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: (current?.storedSpec.json.count ?? 0) + 1_024)
        writeJob(into: &writer, current)
        return writer.bytes
    }
}

extension JobRecord {
    /// Returns `true` if an edit has replaced the fields that the job had at the event: they are in
    /// `earlierSpecs`.
    public func hasEarlierSpec(at event: EventRecord) -> Bool {
        guard let specRevision, event.state?.isTerminal == false else { return false }
        return event.revision < specRevision
    }

    /// Returns the job as it was at an event, or `nil` if the event's detail is damaged, which is reported.
    /// The conditions of the cluster are no part of an event.
    public func asOf(_ event: EventRecord) -> JobRecord? {
        guard let state = event.state else { return self }
        let detail: EventDetail
        do throws(PackedReader.Damage) {
            detail = try EventDetail(packed: event.detail)
        } catch {
            storedSpec.report(StoredJSONError("event"))
            return nil
        }
        var record = self
        record.state = state
        record.revision = event.revision
        record.home = nil
        record.retriedBy = nil
        // Reminders end with the acknowledgement: no other event follows it.
        if event.type != .jobAcknowledged { record.acknowledgedAt = nil }
        if state.isTerminal {
            if event.type == .jobAttemptFailed { record.storedError = detail.error }
            return record
        }
        if hasEarlierSpec(at: event) {
            record.storedSpec = earlierSpecs[event.revision] ?? storedSpec.missing()
        }
        record.storedSpec = record.storedSpec.withoutEndpoint
        record.waitingFor = event.waitingFor
        record.attempt = event.attempt
        record.node = detail.node
        record.startedAt =
            detail.startedAt
            ?? (event.attempt > 0 && (event.type == .jobCreated || event.type == .jobStarted)
                ? event.occurredAt : nil)
        record.nextAttemptAt = detail.nextAttemptAt
        record.storedError = detail.error
        record.questionJSON = detail.questionJSON
        // Such an attempt of another version shows no progress, as in the job itself.
        record.partialDownload = detail.keptAttempt.flatMap {
            AttemptRecord(packed: $0, node: nil)?.partialDownload
        }
        record.pendingDependencies =
            event.waitingFor == .dependency ? record.spec?.schedule.dependsOn ?? [] : []
        record.pendingGroups =
            event.waitingFor == .dependency ? record.spec?.schedule.groupsOfDependencies ?? [] : []
        record.pendingUploads =
            event.waitingFor == .dependency ? record.spec?.schedule.uploadsOfDependencies ?? [] : []
        record.finishedAt = nil
        record.storedResponse = nil
        record.storedResult = nil
        record.body = nil
        record.resumeData = nil
        return record
    }
}
