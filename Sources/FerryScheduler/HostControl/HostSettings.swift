/// What an operator has said about a host. Without any, the service decides by itself.
package struct HostSettings: Codable, Sendable, Equatable {
    package var connectionsMin: Int?
    package var connectionsMax: Int?
    package var isPaused = false
    /// Of all nodes together, both directions.
    package var bytesPerSecondMax: Int64?
    /// Of all nodes together.
    package var requestsPerSecondMax: Double?

    package init() {}
}
