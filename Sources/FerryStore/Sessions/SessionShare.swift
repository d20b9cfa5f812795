import FerryCore

/// The part of a session's configuration that decides its share of the queue.
struct SessionShare: Sendable, Equatable {
    var weight = 1.0
    /// Connections to one host; `nil` for no limit.
    var connectionLimit: Int?
}

extension SessionSnapshot {
    func share(tenant: String, session: String) -> SessionShare {
        guard let record = record(tenant, session) else {
            return SessionShare(connectionLimit: connectionsPerHostMax)
        }
        let configuration = record.configuration
        return SessionShare(
            weight: configuration.weight, connectionLimit: configuration.connectionsPerHostMax)
    }
}
