import FerryCore
import Postgres

/// Enabled endpoints of some tenants with their filters, which `EventRouter` asks about each event.
struct WebhookInterests {
    struct Interest {
        let endpoint: WebhookID
        let url: String
        let filter: WebhookFilter
        let isOfOperator: Bool

        /// `true` if the endpoint gets the events of hosts that its tenant does not use. It must name their
        /// type, since the other keys of the tenant can read them in its log.
        var getsAllHosts: Bool { isOfOperator && filter.types != nil }
    }
    private var byTenant: [String: [Interest]] = [:]

    static func read(
        of tenants: Set<String>, _ connection: inout Connection
    ) throws(PostgresError) -> WebhookInterests {
        var parameters = Parameters()
        parameters.appendArray(.text, tenants) { $0.append(text: $1) }
        let rows = try connection.execute(Statements.readInterests, parameters)
        var interests = WebhookInterests()
        for row in 0..<rows.rowCount {
            interests.byTenant[rows.text(row, 1), default: []].append(
                Interest(
                    endpoint: rows.identifier(row, 0), url: rows.text(row, 2),
                    filter: WebhookFilter(
                        types: rows.isNull(row, 3) ? nil : rows.textArray(row, 3).compactMap { $0 },
                        session: rows.textOrNil(row, 4),
                        metadata: JobSpec.Pair.pairs(of: rows.jsonbOrNil(row, 5))),
                    isOfOperator: rows.bool(row, 6)))
        }
        return interests
    }

    /// Returns whether an endpoint may want an event, according to type and session.
    func mayWant(tenant: String, session: String, type: EventType) -> Bool {
        byTenant[tenant]?.contains {
            type.isAboutAcknowledgement || $0.filter.includes(type: type.rawValue, session: session)
        } ?? false
    }

    /// Returns the endpoints of a tenant that want an event. `spec`: of the event's job, as it was.
    func wanting(
        _ record: EventRecord, _ tenant: String, _ session: String, _ spec: JobSpec?
    ) -> [Interest] {
        // An endpoint that is enabled again by now is not told that it was disabled.
        let disabled = record.disabledWebhook?.id
        let asking = record.type.isAboutAcknowledgement ? spec?.acknowledgement?.endpoint : nil
        let (type, metadata) = (record.type.rawValue, spec?.metadata ?? [])
        return (byTenant[tenant] ?? []).filter {
            $0.endpoint != disabled && ($0.getsAllHosts || !record.isForOperators)
                && ($0.endpoint == asking
                    || $0.filter.matches(type: type, session: session, metadata: metadata))
        }
    }
}

extension EventType {
    /// `true` for events that an endpoint gets which has asked for the acknowledgement, whatever its filter
    /// says.
    fileprivate var isAboutAcknowledgement: Bool {
        self == .jobUnacknowledged || self == .jobAcknowledgementExpired
    }
}
