import FerryCore
import Postgres

/// Makes the deliveries of events to endpoints, in the transaction that numbers them.
enum EndpointRouting {
    /// Jobs that are read, and deliveries that are added, by one statement.
    private static let jobMax = 100
    private static let draftMax = 500

    /// Returns how many deliveries were added. `rows`: those of one session in their order.
    static func commit(
        _ rows: [EventRow], _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> Int {
        let interests = try interests(of: Set(rows.map(\.tenant)), &connection)
        guard !interests.isEmpty else { return 0 }
        let sessions = context.sessions.current
        let told = rows.filter {
            sessions.record($0.tenant, $0.session)?.configuration.sendsLaunchEvents ?? true
        }
        let wanted = told.flatMap { row in row.events.filter { interests.mayWant($0) } }
        var count = 0
        var start = 0
        while start < wanted.count {
            let some = wanted[start..<min(wanted.count, start + jobMax)]
            start += some.count
            let ids = Array(Set(some.compactMap(\.record.job)))
            let jobs = ids.isEmpty ? [:] : try ControlLane.read(ids, &connection)
            var drafts: [DeliveryDraft] = []
            for event in some {
                drafts += self.drafts(event, event.record.job.flatMap { jobs[$0] }, interests, context)
                guard drafts.count >= draftMax else { continue }
                count += try EventRouter.add(drafts, &connection, context)
                drafts = []
            }
            count += try EventRouter.add(drafts, &connection, context)
        }
        return count
    }

    private static func interests(
        of tenants: Set<String>, _ connection: inout Connection
    ) throws(PostgresError) -> WebhookInterests {
        var parameters = Parameters()
        parameters.appendArray(.text, tenants) { $0.append(text: $1) }
        return WebhookInterests(try connection.execute(Statements.readInterests, parameters))
    }

    /// `stored`: nil for an event of a session, and of a job that was deleted.
    private static func drafts(
        _ event: Event, _ stored: StoredJob?, _ interests: WebhookInterests, _ context: StoreContext
    ) -> [DeliveryDraft] {
        var record = stored?.record
        let spec = record.flatMap { try? JobSpec(storedJSON: $0.specJSON) }
        record?.spec = spec
        // Enabled again by now, it would be told of itself.
        let disabled = event.record.disabledWebhook
        let asking = event.record.type.isAboutAcknowledgement ? spec?.acknowledgement?.endpoint : nil
        let wanting = interests.wanting(
            tenant: event.tenant, type: event.record.type.rawValue, session: event.session,
            metadata: spec?.metadata ?? [], asking: asking
        ).filter { $0.endpoint != disabled?.id }
        guard !wanting.isEmpty else { return [] }
        let json = disabled?.json ?? event.record.jobJSON(record)
        return wanting.map { interest in
            DeliveryDraft(
                id: context.identifiers.make(), event: event, url: interest.url, jobJSON: json, secrets: nil,
                traceparent: stored?.traceparent, endpoint: interest.endpoint)
        }
    }
}

/// Who wants the events of some tenants: what the routing of events asks about each.
struct WebhookInterests {
    struct Interest {
        let endpoint: WebhookID
        let url: String
        let filter: WebhookFilter
    }
    private var byTenant: [String: [Interest]] = [:]

    /// Reads rows of read_interests.sql.
    init(_ rows: borrowing ResultSet) {
        for row in 0..<rows.rowCount {
            byTenant[rows.text(row, 1), default: []].append(
                Interest(
                    endpoint: rows.identifier(row, 0), url: rows.text(row, 2),
                    filter: WebhookFilter(
                        types: rows.isNull(row, 3) ? nil : rows.textArray(row, 3).compactMap { $0 },
                        session: rows.textOrNil(row, 4),
                        metadata: JobSpec.Pair.pairs(of: rows.jsonbOrNil(row, 5)))))
        }
    }

    /// Whether somebody wants it, as far as type and session say.
    func mayWant(_ event: Event) -> Bool {
        byTenant[event.tenant]?.contains {
            event.record.type.isAboutAcknowledgement
                || $0.filter.includes(type: event.record.type.rawValue, session: event.session)
        } ?? false
    }

    /// Whether nobody wants anything.
    var isEmpty: Bool { byTenant.isEmpty }

    /// The endpoints of a tenant that want an event. `metadata`: of its job; `asking`: the one that asks for
    /// the acknowledgement of which it tells.
    func wanting(
        tenant: String, type: String, session: String, metadata: [JobSpec.Pair], asking: WebhookID?
    ) -> [Interest] {
        (byTenant[tenant] ?? []).filter {
            $0.endpoint == asking
                || $0.filter.matches(type: type, session: session, metadata: metadata)
        }
    }
}

extension EventType {
    /// What an endpoint gets that has asked for the acknowledgement, whatever else it wants.
    fileprivate var isAboutAcknowledgement: Bool {
        self == .jobUnacknowledged || self == .jobAcknowledgementExpired
    }
}
