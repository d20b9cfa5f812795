import Synchronization

/// Addresses and ports of Ferry's own API and database. May be used on any thread.
///
/// They become known over time: the kernel may choose a port, and a database may move to another host.
public final class OwnEndpoints: Sendable {
    /// Number of database endpoints that are remembered. The oldest are dropped, since a database that moved
    /// so often has left them long ago.
    public static let serverCountMax = 64
    private struct State {
        var fixed: [EgressPolicy.Endpoint]
        var servers: [EgressPolicy.Endpoint] = []
    }
    private let state: Mutex<State>
    private let isOwnAddress: @Sendable (IPAddress) -> Bool

    /// `isOwnAddress`: returns `true` if an interface of this machine has the address now; called only for
    /// ports of an endpoint.
    public init(
        _ endpoints: [EgressPolicy.Endpoint] = [],
        isOwnAddress: @escaping @Sendable (IPAddress) -> Bool = { _ in false }
    ) {
        state = Mutex(State(fixed: endpoints))
        self.isOwnAddress = isOwnAddress
    }

    /// Adds an endpoint permanently.
    public func add(_ endpoint: EgressPolicy.Endpoint) { state.withLock { $0.fixed.append(endpoint) } }

    /// Adds the peer of a database connection. A server on this machine has all of its addresses, and so does
    /// one behind a Unix socket (`address` is `nil`) if it has a port.
    public func add(server address: IPAddress?, port: UInt16) {
        let address = address?.canonical ?? everywhere
        let endpoint = EgressPolicy.Endpoint(isHere(address) ? everywhere : address, port: port)
        state.withLock { state in
            guard !state.servers.contains(endpoint) else { return }
            state.servers.append(endpoint)
            if state.servers.count > Self.serverCountMax { state.servers.removeFirst() }
        }
    }

    /// Returns `true` if an endpoint has the address and port. `address`: in canonical form.
    func contains(_ address: IPAddress, port: UInt16) -> Bool {
        // Called for every request of a transfer, so nothing is copied.
        let (isNamed, isAnyOfOurs) = state.withLock { state in
            var (isNamed, isAnyOfOurs) = (false, false)
            func look(_ endpoints: [EgressPolicy.Endpoint]) {
                for endpoint in endpoints where endpoint.port == port {
                    isNamed = isNamed || endpoint.address == address
                    isAnyOfOurs = isAnyOfOurs || endpoint.address.isUnspecified
                }
            }
            look(state.fixed)
            look(state.servers)
            return (isNamed, isAnyOfOurs)
        }
        return isNamed || isAnyOfOurs && isHere(address)
    }

    private func isHere(_ address: IPAddress) -> Bool {
        // Linux connects 0.0.0.0 and :: to the machine itself.
        address.isUnspecified || address.isLoopback || isOwnAddress(address)
    }
}

private let everywhere = IPAddress(v4: 0)

extension IPAddress {
    fileprivate var isUnspecified: Bool { high == 0 && low == 0 }
}
