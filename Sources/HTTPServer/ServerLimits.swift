/// What one server gives to its clients. Every default suits two cores behind a proxy.
package struct ServerLimits: Sendable {
    /// Connections at once, shared evenly among the threads; above 2,000 poll(2) becomes the bottleneck.
    package var connections = 2_000
    /// Connections at once from one address; 0: no limit (behind a proxy all share one).
    package var connectionsPerAddress = 0
    /// Seconds without a byte until a connection is closed, also between requests and within headers.
    package var idleTimeoutSeconds = 60
    /// Bytes a connection owns; half of it is the largest piece of a body. A head that does not fit gets
    /// libmicrohttpd's own page, without a request id: `headBytes` leaves room for what it keeps beside.
    package var connectionMemory = 65_536
    /// Bytes of a target (414 above), and of target and header fields together (431 above).
    package var headBytes = 32_768
    /// Header fields of one request; more are refused with 431.
    package var fields = 100
    /// Connections that wait to be accepted (listen(2)).
    package var listenBacklog = 1_024
    /// Threads that serve. A connection stays on its thread.
    package var threads = 2
    /// Seconds a request may wait for its answer; then the server answers 503.
    package var responseDeadlineSeconds = 120
    /// Bytes of an unwanted body that are read and dropped to keep the connection; above it is closed.
    package var discardedBodyBytes = 262_144
    /// Bytes a second a body must average once `bodyGraceSeconds` are over; slower ones are cut off.
    /// Waiting for a sink does not count.
    package var minimumBodyRate = 256
    /// Seconds before `minimumBodyRate` is asked for.
    package var bodyGraceSeconds = 20

    /// The defaults above.
    package init() {}
}

/// Why a server could not start.
package enum ServerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process (or server) listens there.
    case addressInUse(String)
    /// No interface of this machine has the address.
    case addressNotAvailable(String)
    /// A port below 1,024 without the capability.
    case permissionDenied(String)
    /// Not an IPv4 or IPv6 address.
    case invalidAddress(String)
    /// A kernel call failed: its name and its words.
    case system(call: String, reason: String)
    /// libmicrohttpd did not start; the log has its reason.
    case library

    /// One sentence for the operator.
    package var description: String {
        switch self {
        case .addressInUse(let address): "\(address) is in use by another server"
        case .addressNotAvailable(let address): "\(address) is not an address of this machine"
        case .permissionDenied(let address): "no permission to listen on \(address)"
        case .invalidAddress(let address): "'\(address)' is not an IPv4 or IPv6 address"
        case .system(let call, let reason): "\(call): \(reason)"
        case .library: "libmicrohttpd did not start"
        }
    }
}
