/// Settings of an operator for a host; `nil` means no setting. The property names are keys of the stored
/// JSON.
package struct HostSettings: Codable, Sendable, Equatable {
    /// Smallest connection limit that host control may set.
    package var connectionsMin: Int?
    /// Largest connection limit, of all nodes together.
    package var connectionsMax: Int?
    /// `true` if no request may begin.
    package var isPaused = false
    /// Bytes per second of all nodes, both directions together.
    package var bytesPerSecondMax: Int64?
    /// Requests per second of all nodes.
    package var requestsPerSecondMax: Double?

    /// Creates settings that leave all decisions to host control.
    package init() {}
}
