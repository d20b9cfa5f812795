import FerryCore
import FerryScheduler
import Postgres

/// A change of a host of which tenants are told.
struct HostAnnouncement {
    let origin: String
    let type: EventType
    let detail: String
    /// Tenants whose attempts have just reached the host or failed to.
    let tenants: Set<String>

    /// Writes the event for each tenant. Call in the transaction that changes the host: its row is locked, so
    /// that no other node announces the change.
    func tell(at now: Timestamp, _ connection: inout Connection) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(text: origin)
        parameters.append(text: type.rawValue)
        parameters.appendArray(.text, tenants.sorted()) { $0.append(text: $1) }
        let rows = try connection.execute(Statements.countHostJobs, parameters)
        let events = (0..<rows.rowCount).map { row in
            let change = HostChange(host: origin, detail: detail, waitingJobCount: rows.int64(row, 1))
            var record = EventRecord(type, job: nil, at: now, detail: change.json)
            record.isForOperators = rows.bool(row, 2)
            var packed: [UInt8] = []
            record.pack(into: &packed)
            return (tenant: rows.text(row, 0), packed: packed)
        }
        guard !events.isEmpty else { return }
        var written = Parameters()
        written.appendArray(.text, events) { $0.append(text: $1.tenant) }
        written.appendArray(.bytea, events) { $0.append(bytea: $1.packed) }
        _ = try connection.execute(Statements.tellHosts, written)
    }
}

extension HostTransaction {
    /// Returns what tenants are to be told of the host after the reports and the probe of this transaction.
    func announcement(of origin: String, _ host: inout HostControl) -> HostAnnouncement? {
        let reported = reports[origin] ?? [:]
        let isProbed = if case .some(.none) = probes[origin] { true } else { false }
        let isAnswered = isProbed || reported.values.contains { $0.answered > 0 }
        guard let type = host.announce(isAnswered: isAnswered) else { return nil }
        let code = host.unreachableCode ?? .couldNotConnect
        return HostAnnouncement(
            origin: origin, type: type,
            detail: type == .hostRecovered
                ? "The host answers again." : "No connection to the host succeeds (\(code.rawValue)).",
            tenants: Set(reported.keys.map(\.tenant)).subtracting([""]))
    }
}
