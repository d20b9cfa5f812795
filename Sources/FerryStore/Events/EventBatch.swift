import FerryCore
import Postgres

/// Events that a transaction writes, by session: tenants, sessions and packed events of submit_jobs.sql.
struct EventBatch {
    private struct Key: Hashable {
        let tenant: String
        let session: String
    }
    private var keys: [Key] = []
    private var packed: [[UInt8]] = []
    private var places: [Key: Int] = [:]

    /// `pack` appends records (`EventRecord.pack`) of one session.
    mutating func add(tenant: String, session: String, _ pack: (inout [UInt8]) -> Void) {
        let key = Key(tenant: tenant, session: session)
        // Most batches are of one session.
        var place = keys.count - 1
        if keys.last != key { place = places[key] ?? keys.count }
        if place == keys.count {
            keys.append(key)
            packed.append([])
            places[key] = place
        }
        pack(&packed[place])
    }

    /// Appends the parameters $23 to $25 of submit_jobs.sql.
    func append(to parameters: inout Parameters) {
        parameters.appendArray(.text, keys) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, keys) { $0.append(text: $1.session) }
        parameters.appendArray(.bytea, packed) { $0.append(bytea: $1) }
    }
}
