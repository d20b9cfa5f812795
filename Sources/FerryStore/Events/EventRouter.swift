import FerryCore
import Logging
import Postgres

/// A delivery of an event that has no number yet.
private struct PlannedDelivery {
    /// Index of the event.
    let place: Int
    let url: String
    let jobJSON: [UInt8]
    let secrets: [UInt8]?
    let traceparent: String?
    let endpoint: WebhookID?
    /// Payload of the job's own webhook.
    let payload: WebhookPayload
}

/// A job's webhook that wants the events of its session: a row of add_session_receivers.sql.
private struct SessionReceiver {
    let tenant: String
    let session: String
    let job: JobID
    let webhook: JobSpec.WebhookSpec
    /// Sealed secrets of the job.
    let secrets: [UInt8]?
    let traceparent: String?
}

/// An event that a webhook may want.
private struct WantedEvent {
    /// Index of the event.
    let place: Int
    let tenant: String
    let session: String
    let record: EventRecord
    /// `true` if the webhook of its job wants it, or asks for the events of its session.
    let isOfJob: Bool
    let isOfEndpoints: Bool
}

/// Decides which webhooks get an event, and creates the deliveries of a pass within its transaction (steps 4
/// and 6 of `EventRelay`). `plan` comes before the events have their numbers, since a pass takes no more
/// events than it can create deliveries for; `commit` comes after.
struct EventRouter {
    /// Jobs read by one statement; each may have large metadata.
    private static let jobMax = 32
    /// Maximum number, and bytes, of deliveries that one statement adds; at least one delivery.
    private static let statementCountMax = 500
    private static let statementByteCountMax = 8 << 20
    /// Maximum bytes of the deliveries of one pass, some thousands of deliveries; at least those of one
    /// event.
    static let passByteCountMax = 16 << 20
    /// Maximum number of job webhooks that one statement reads for events of sessions.
    private static let receiverMax: Int32 = 1_000
    /// Sessions of one such statement, which reads up to `receiverMax` webhooks of each.
    private static let sessionMax = 50

    private let context: StoreContext
    private let handover: DeliveryHandover?
    /// Jobs that the transaction of the pass has finished: their rows need not be read for their ends.
    private let finished: [JobID: EventJob]
    private var deliveries: [PlannedDelivery] = []
    private var receivers: [SessionReceiver] = []
    /// Indexes of events of sessions.
    private var ofSessions: [Int] = []

    init(_ context: StoreContext, _ handover: DeliveryHandover?, _ finished: [JobID: EventJob] = [:]) {
        self.context = context
        self.handover = handover
        self.finished = finished
    }

    // MARK: Planning

    /// Plans the deliveries of the events from the first one on. Returns how many events were planned. If
    /// `byteCountMax` ends the plan, `busyTenant` is the tenant with most of the deliveries; otherwise it is
    /// `nil`.
    mutating func plan(
        _ rows: [InboxRow], byteCountMax: Int = EventRouter.passByteCountMax, _ connection: inout Connection
    ) throws(PostgresError) -> (eventCount: Int, busyTenant: String?) {
        let interests = try WebhookInterests.read(of: Set(rows.map(\.tenant)), &connection)
        let wanted = wanted(rows, interests)
        var byteCounts: [String: Int] = [:]
        var byteCount = 0
        var start = 0
        while start < wanted.count {
            let some = wanted[start..<min(wanted.count, start + Self.jobMax)]
            start += some.count
            let unknown = some.map(\.record).filter { finishedJob(of: $0) == nil }
            let jobs = try context.jobs(of: unknown, withBodies: true, &connection)
            for event in some {
                let job =
                    finishedJob(of: event.record)
                    ?? event.record.job.flatMap { jobs[$0] }.map { EventJob($0) }
                let (deliveries, receiver) = plan(event, job, interests)
                var added = deliveries.reduce(0) {
                    $0 + DeliveryDraft.byteCount($1.url, $1.jobJSON, $1.secrets)
                }
                if let receiver {
                    added += DeliveryDraft.byteCount(receiver.webhook.url, [], receiver.secrets)
                }
                byteCounts[event.tenant, default: 0] += added
                if byteCount > 0, added > byteCountMax - byteCount {
                    return (event.place, byteCounts.max { $0.value < $1.value }?.key)
                }
                byteCount += added
                self.deliveries += deliveries
                if let receiver { receivers.append(receiver) }
                if event.record.type.isOfSession { ofSessions.append(event.place) }
            }
        }
        return (rows.reduce(0) { $0 + $1.entries.count }, nil)
    }

    private func wanted(_ rows: [InboxRow], _ interests: WebhookInterests) -> [WantedEvent] {
        let sessions = context.sessions.current
        var wanted: [WantedEvent] = []
        var count = 0
        for row in rows {
            let sendsEvents =
                sessions.record(row.tenant, row.session)?.configuration.sendsLaunchEvents ?? true
            for (place, entry) in zip(count..., row.entries) {
                guard let record = entry.record else { continue }
                let isOfJob =
                    !record.type.isOfSession
                    && (record.isWanted || (record.type == .jobCreated && record.wantsSession))
                let isOfEndpoints =
                    sendsEvents
                    && interests.mayWant(tenant: row.tenant, session: row.session, type: record.type)
                guard isOfJob || isOfEndpoints || record.type.isOfSession else { continue }
                wanted.append(
                    WantedEvent(
                        place: place, tenant: row.tenant, session: row.session, record: record,
                        isOfJob: isOfJob, isOfEndpoints: isOfEndpoints))
            }
            count += row.entries.count
        }
        return wanted
    }

    /// Returns the job if the event is about its end, and the transaction of the pass has finished it.
    private func finishedJob(of event: EventRecord) -> EventJob? {
        guard event.state?.isTerminal == true, let job = event.job.flatMap({ finished[$0] }),
            job.record.revision == event.revision
        else { return nil }
        return job
    }

    /// Plans the deliveries of one event. `job`: `nil` for an event of a session, and of a deleted job.
    private func plan(
        _ event: WantedEvent, _ job: EventJob?, _ interests: WebhookInterests
    ) -> (deliveries: [PlannedDelivery], receiver: SessionReceiver?) {
        let record = job?.record
        let spec = record?.spec
        let own = event.isOfJob ? spec?.webhook : nil
        let wanting =
            event.isOfEndpoints
            ? interests.wanting(
                event.record, event.tenant, event.session, (record?.asOf(event.record) ?? record)?.spec) : []
        if event.isOfJob, own == nil {
            context.logger.error(
                "a job webhook gets no delivery of an event: the job is deleted or cannot be read",
                metadata: [
                    "event.type": "\(event.record.type.rawValue)",
                    "job.id": "\(event.record.job?.description ?? "none")",
                ])
        }
        var deliveries: [PlannedDelivery] = []
        let isOwnWanted = own != nil && event.record.isWanted
        if isOwnWanted || !wanting.isEmpty {
            let json =
                event.record.disabledWebhook?.json ?? event.record.finishedGroup
                ?? event.record.hostChange?.json ?? event.record.jobJSON(record)
            let add = { (url: String, secrets: [UInt8]?, endpoint: WebhookID?, payload: WebhookPayload) in
                PlannedDelivery(
                    place: event.place, url: url, jobJSON: json, secrets: secrets,
                    traceparent: job?.traceparent, endpoint: endpoint, payload: payload)
            }
            if isOwnWanted, let own {
                deliveries.append(add(own.url, job?.sealedSecrets, nil, own.payload))
            }
            deliveries += wanting.map { add($0.url, nil, $0.endpoint, .full) }
        }
        guard let own, let id = event.record.job, event.record.type == .jobCreated,
            event.record.wantsSession
        else { return (deliveries, nil) }
        return (
            deliveries,
            SessionReceiver(
                tenant: event.tenant, session: event.session, job: id, webhook: own,
                secrets: job?.sealedSecrets, traceparent: job?.traceparent)
        )
    }

    /// Plans the delivery of `group.finished` to the group's own webhook. `event`: index of the event.
    mutating func plan(ownWebhookOf group: JobGroup, event: Int) {
        guard let webhook = group.draft.webhook else { return }
        deliveries.append(
            PlannedDelivery(
                place: event, url: webhook.url, jobJSON: group.shown(), secrets: group.sealedSecrets,
                traceparent: nil, endpoint: nil, payload: .full))
    }

    // MARK: Creation

    /// Adds the planned deliveries and returns their number. `events`: the planned events with their numbers;
    /// `nil` for an event whose type is unknown.
    func commit(_ events: [Event?], _ connection: inout Connection) throws(PostgresError) -> Int {
        if !receivers.isEmpty {
            _ = try connection.execute(Statements.addSessionReceivers, .receivers(receivers))
        }
        let drafts = deliveries.compactMap { planned in
            events[planned.place].map { event in
                DeliveryDraft(
                    id: context.identifiers.make(), event: event, url: planned.url,
                    jobJSON: planned.jobJSON, secrets: planned.secrets, traceparent: planned.traceparent,
                    endpoint: planned.endpoint, payload: planned.payload)
            }
        }
        let count = try add(drafts, &connection)
        // After the receivers, since a job's webhook may have been added in this pass.
        return count + (try addSessionDeliveries(ofSessions.compactMap { events[$0] }, &connection))
    }

    /// Adds deliveries of session events to the job webhooks that have asked for them, one for each URL.
    /// Returns their number.
    private func addSessionDeliveries(_ events: [Event], _ connection: inout Connection) throws(PostgresError)
        -> Int
    {
        var count = 0
        for type in EventType.allCases where type.isOfSession {
            var left = events.filter { $0.record.type == type }
            var url = ""
            while !left.isEmpty {
                let some = Array(left.prefix(Self.sessionMax))
                let rows = try connection.execute(
                    Statements.takeSessionReceivers,
                    .sessions(some, type: type, limit: Self.receiverMax, after: url))
                var drafts: [DeliveryDraft] = []
                var place = 0
                for row in 0..<rows.rowCount {
                    place = Int(rows.int64(row, 0)) - 1
                    url = rows.text(row, 1)
                    drafts.append(
                        DeliveryDraft(
                            id: context.identifiers.make(), event: some[place], url: url,
                            jobJSON: some[place].record.jobJSON(nil), secrets: rows.bytesOrNil(row, 2),
                            traceparent: rows.textOrNil(row, 3)))
                }
                count += try add(drafts, &connection)
                let isWhole = rows.rowCount < Int(Self.receiverMax)
                left.removeFirst(isWhole ? some.count : place)
                if isWhole { url = "" }
            }
        }
        return count
    }

    /// Adds deliveries, in several statements if they are many, and returns their number.
    private func add(_ drafts: [DeliveryDraft], _ connection: inout Connection) throws(PostgresError) -> Int {
        var start = 0
        while start < drafts.count {
            var byteCount = 0
            let rest = drafts[start...].prefix(Self.statementCountMax)
            let some = rest.prefix { draft in
                byteCount += draft.byteCount
                return byteCount <= Self.statementByteCountMax || byteCount == draft.byteCount
            }
            start += some.count
            let areLeased =
                try handover?.offer(some, &connection) ?? Array(repeating: false, count: some.count)
            _ = try connection.execute(
                Statements.addDeliveries,
                .deliveries(some, areLeased: areLeased, by: context.configuration.node))
        }
        return drafts.count
    }
}

extension Parameters {
    /// The parameters of add_session_receivers.sql.
    fileprivate static func receivers(_ receivers: [SessionReceiver]) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.text, receivers) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.session) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.webhook.url) }
        parameters.appendArray(.uuid, receivers) { $0.append($1.job) }
        parameters.appendArray(.int32, receivers) {
            $0.append(int32: $1.webhook.events.mask & EventRecord.sessionTypes)
        }
        parameters.appendArray(.bytea, receivers) { $0.append(bytea: $1.secrets) }
        parameters.appendArray(.text, receivers) { $0.append(text: $1.traceparent) }
        return parameters
    }

    /// The parameters of take_session_receivers.sql.
    fileprivate static func sessions(
        _ events: [Event], type: EventType, limit: Int32, after url: String
    ) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.text, events) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, events) { $0.append(text: $1.session) }
        parameters.append(int32: [type].mask)
        parameters.append(int32: EventRecord.sessionTypes)
        parameters.append(int32: limit)
        parameters.append(text: url)
        return parameters
    }

    /// The parameters of add_deliveries.sql.
    fileprivate static func deliveries(
        _ drafts: ArraySlice<DeliveryDraft>, areLeased: [Bool], by node: NodeID
    ) -> Parameters {
        var parameters = Parameters(capacity: drafts.reduce(512) { $0 + $1.byteCount })
        parameters.appendArray(.uuid, drafts) { $0.append($1.id) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.event.id) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.event.record.job) }
        parameters.appendArray(.int64, drafts) { $0.append(int64: $1.event.sequence) }
        parameters.appendArray(.timestamp, drafts) { $0.append($1.event.timestamp) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.record.type.rawValue) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.tenant) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.event.session) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.url) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.jobJSON) }
        parameters.appendArray(.bytea, drafts) { $0.append(bytea: $1.secrets) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.traceparent) }
        parameters.appendArray(.uuid, drafts) { $0.append($1.endpoint) }
        parameters.appendArray(.bool, areLeased) { $0.append(bool: $1) }
        parameters.appendArray(.bool, drafts) { $0.append(bool: $1.payload == .thin) }
        parameters.append(float64: Limits.deliveryLeaseSeconds)
        parameters.append(node)
        return parameters
    }
}
