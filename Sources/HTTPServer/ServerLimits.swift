/// Limits of one server. The defaults are for two cores behind a proxy.
public struct ServerLimits: Sendable {
    /// Connections at the same time, distributed evenly to the threads. Above 2,000, poll(2) is the
    /// bottleneck.
    public var connections = 2_000
    /// Connections at the same time from one address; 0: no limit. Behind a proxy, all have the same address.
    public var connectionsPerAddress = 0
    /// Seconds without a byte after which a connection is closed, also between requests and within the head.
    public var idleTimeoutSeconds = 60
    /// Bytes of memory of each connection. Half of it is the largest piece of a body. A head that does not
    /// fit gets libmicrohttpd's own page, without a request ID; `headBytes` is smaller so that this does not
    /// happen.
    public var connectionMemory = 65_536
    /// Largest target in bytes (a longer one gets 414), and largest target with all header fields (414 or
    /// 431).
    public var headBytes = 32_768
    /// Header fields of one request; more get 431.
    public var fields = 100
    /// Connections that wait to be accepted (listen(2)).
    public var listenBacklog = 1_024
    /// Threads that serve connections. A connection stays on one thread.
    public var threads = 2
    /// Seconds until a request without a response gets 503.
    public var responseDeadlineSeconds = 120
    /// Bytes of an unwanted body that are read and dropped to keep the connection open. If the body is
    /// larger, the connection is closed.
    public var discardedBodyBytes = 262_144
    /// Bytes per second that a body must reach on average after `bodyGraceSeconds`; slower connections are
    /// closed. Time in which a sink takes no bytes does not count.
    public var minimumBodyRate = 256
    /// Seconds before `minimumBodyRate` applies.
    public var bodyGraceSeconds = 20

    /// Creates the default limits.
    public init() {}
}

/// Reason for which a server did not start.
public enum ServerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another socket listens on the address.
    case addressInUse(String)
    /// No network interface of this machine has the address.
    case addressNotAvailable(String)
    /// The process may not bind the port: a port below 1,024 needs a capability.
    case permissionDenied(String)
    /// The text is not an IPv4 or IPv6 address.
    case invalidAddress(String)
    /// A kernel call failed. `call` is its name, `reason` the text of strerror(3).
    case system(call: String, reason: String)
    /// libmicrohttpd did not start; its reason is in the log.
    case library

    /// One sentence for the operator.
    public var description: String {
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
