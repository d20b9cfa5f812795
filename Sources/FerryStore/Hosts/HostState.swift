/// Knowledge of this node about hosts, and the connections of its attempts to them. Any thread.
final class HostState: Sendable {
    let health = HostHealth()
    let connections: ConnectionRegistry
    let throughputs = ThroughputEstimates()

    init(_ configuration: StoreConfiguration) { connections = ConnectionRegistry(configuration) }
}
