import FerryCore
import Logging
import Postgres

/// An event on its way into the outbox: a row of add_deliveries.sql.
struct DeliveryDraft {
    let id: DeliveryID
    let event: Event
    let url: String
    let jobJSON: [UInt8]
    /// The job's, sealed.
    let secrets: [UInt8]?
    let traceparent: String?
    /// Nil: to the job's own webhook.
    var endpoint: WebhookID?
}

/// A job's webhook that wants the events of its session: a row of add_session_receivers.sql.
private struct SessionReceiver {
    /// `job.created`.
    let event: Event
    let webhook: JobSpec.WebhookSpec
    /// The job's, sealed.
    let secrets: [UInt8]?
    let traceparent: String?
}

/// Who wants an event: makes the deliveries of a pass, inside its transaction.
struct EventRouter {
    /// Jobs that are read at once: each may have a body of some size.
    private static let chunk = 100

    private let context: StoreContext
    private let handover: DeliveryHandover?
    /// Events that the webhooks of their jobs want, or that name a webhook for those of their session.
    private var ofJobs: [Event] = []
    private var ofSessions: [Event] = []
    /// For the endpoints.
    private var rows: [EventRow] = []

    init(_ context: StoreContext, _ handover: DeliveryHandover?) {
        self.context = context
        self.handover = handover
    }

    mutating func add(_ row: EventRow) {
        rows.append(row)
        for event in row.events {
            let record = event.record
            if record.type.isOfSession {
                ofSessions.append(event)
            } else if record.isWanted || (record.type == .jobCreated && record.wantsSession) {
                ofJobs.append(event)
            }
        }
    }

    /// Adds the deliveries and returns how many they are.
    func commit(_ connection: inout Connection) throws(PostgresError) -> Int {
        var count = 0
        var start = 0
        while start < ofJobs.count {
            let some = ofJobs[start..<min(ofJobs.count, start + Self.chunk)]
            start += some.count
            count += try commit(some, &connection)
        }
        // After those of the jobs: a job's webhook may have been named in this very pass.
        if !ofSessions.isEmpty { count += try commitOfSessions(&connection) }
        return count + (try EndpointRouting.commit(rows, &connection, context))
    }

    // MARK: Webhooks of jobs

    private func commit(
        _ events: ArraySlice<Event>, _ connection: inout Connection
    ) throws(PostgresError) -> Int {
        let jobs = try ControlLane.read(Array(Set(events.compactMap(\.record.job))), &connection)
        var drafts: [DeliveryDraft] = []
        var receivers: [SessionReceiver] = []
        for event in events {
            guard let job = event.record.job, let stored = jobs[job], let spec = spec(of: stored),
                let webhook = spec.webhook
            else {
                context.logger.error(
                    "nobody can be told of an event",
                    metadata: ["event.id": "\(event.id)"])
                continue
            }
            if event.record.isWanted {
                var record = stored.record
                record.spec = spec
                drafts.append(
                    DeliveryDraft(
                        id: context.identifiers.make(), event: event, url: webhook.url,
                        jobJSON: event.record.jobJSON(record),
                        secrets: stored.sealedSecrets, traceparent: stored.traceparent))
            }
            if event.record.type == .jobCreated, event.record.wantsSession {
                receivers.append(
                    SessionReceiver(
                        event: event, webhook: webhook, secrets: stored.sealedSecrets,
                        traceparent: stored.traceparent))
            }
        }
        if !receivers.isEmpty {
            _ = try connection.execute(Statements.addSessionReceivers, .receivers(receivers))
        }
        return try Self.add(drafts, &connection, context, handover)
    }

    private func spec(of stored: StoredJob) -> JobSpec? { try? JobSpec(storedJSON: stored.record.specJSON) }

    static func add(
        _ drafts: [DeliveryDraft], _ connection: inout Connection, _ context: StoreContext,
        _ handover: DeliveryHandover? = nil
    ) throws(PostgresError) -> Int {
        guard !drafts.isEmpty else { return 0 }
        let areLeased =
            try handover?.offer(drafts, &connection) ?? Array(repeating: false, count: drafts.count)
        _ = try connection.execute(
            Statements.addDeliveries,
            .deliveries(drafts, areLeased: areLeased, by: context.configuration.node))
        return drafts.count
    }

    // MARK: Events of sessions

    /// To the webhooks of those jobs that had asked for it, each URL once.
    private func commitOfSessions(_ connection: inout Connection) throws(PostgresError) -> Int {
        var drafts: [DeliveryDraft] = []
        for type in EventType.allCases where type.isOfSession {
            let events = ofSessions.filter { $0.record.type == type }
            guard !events.isEmpty else { continue }
            let rows = try connection.execute(
                Statements.takeSessionReceivers, .sessions(events, type: type))
            for row in 0..<rows.rowCount {
                let (tenant, session) = (rows.text(row, 0), rows.text(row, 1))
                guard let event = events.first(where: { $0.tenant == tenant && $0.session == session })
                else { continue }
                drafts.append(
                    DeliveryDraft(
                        id: context.identifiers.make(), event: event, url: rows.text(row, 2),
                        jobJSON: event.record.jobJSON(nil), secrets: rows.bytesOrNil(row, 3),
                        traceparent: rows.textOrNil(row, 4)))
            }
        }
        return try Self.add(drafts, &connection, context, handover)
    }
}

extension Parameters {
    /// The parameters of add_session_receivers.sql.
    fileprivate static func receivers(_ receivers: [SessionReceiver]) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.text, receivers) { $0.append(text: $1.event.tenant) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.event.session) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.webhook.url) }
        parameters.appendArray(.uuid, receivers) { $0.append($1.event.record.job) }
        parameters.appendArray(.int32, receivers) {
            $0.append(int32: $1.webhook.events.mask & EventRecord.sessionTypes)
        }
        parameters.appendArray(.bytea, receivers) { $0.append(bytea: $1.secrets) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.traceparent) }
        return parameters
    }

    /// The parameters of take_session_receivers.sql.
    fileprivate static func sessions(_ events: [Event], type: EventType) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.text, events) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, events) { $0.append(text: $1.session) }
        parameters.append(int32: [type].mask)
        parameters.append(int32: EventRecord.sessionTypes)
        return parameters
    }

    /// The parameters of add_deliveries.sql.
    fileprivate static func deliveries(
        _ drafts: [DeliveryDraft], areLeased: [Bool], by node: NodeID
    ) -> Parameters {
        var parameters = Parameters(capacity: drafts.reduce(512) { $0 + $1.jobJSON.count + 512 })
        parameters.appendArray(.uuid, drafts) { $0.append($1.id) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.event.id) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.event.record.job) }
        parameters.appendArray(.int64, drafts) { $0.append(int64: $1.event.sequence) }
        parameters.appendArray(.timestamp, drafts) { $0.append($1.event.record.occurredAt) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.record.type.rawValue) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.tenant) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.session) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.url) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.jobJSON) }
        parameters.appendArray(.bytea, drafts) { $0.append(bytea: $1.secrets) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.traceparent) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.endpoint) }
        parameters.appendArray(.bool, areLeased) { $0.append(bool: $1) }
        parameters.append(float64: Limits.deliveryLeaseSeconds)
        parameters.append(node)
        return parameters
    }
}
