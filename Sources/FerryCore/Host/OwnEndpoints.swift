import Synchronization

/// Where Ferry's own API and its database answer. Safe from any thread.
///
/// Not known all at once: a port may be the kernel's choice, and a database moves to another host.
package final class OwnEndpoints: Sendable {
    /// The database's that are remembered. The oldest is forgotten beyond that: a database that moves again
    /// and again has left it long ago.
    package static let serverCountMax = 64
    private struct State {
        var fixed: [EgressPolicy.Endpoint]
        var servers: [EgressPolicy.Endpoint] = []
    }
    private let state: Mutex<State>
    private let isOwnAddress: @Sendable (IPAddress) -> Bool

    /// `isOwnAddress`: whether an interface of this machine has the address now. Asked only about ports that
    /// are among the endpoints'.
    package init(
        _ endpoints: [EgressPolicy.Endpoint] = [],
        isOwnAddress: @escaping @Sendable (IPAddress) -> Bool = { _ in false }
    ) {
        state = Mutex(State(fixed: endpoints))
        self.isOwnAddress = isOwnAddress
    }

    /// One more, for good.
    package func add(_ endpoint: EgressPolicy.Endpoint) { state.withLock { $0.fixed.append(endpoint) } }

    /// Notes where a connection of ours leads. A server on this machine is there under each of its addresses;
    /// so is one behind a Unix socket (`address` nil), if it has a port at all.
    package func add(server address: IPAddress?, port: UInt16) {
        let address = address?.canonical ?? everywhere
        let endpoint = EgressPolicy.Endpoint(isHere(address) ? everywhere : address, port: port)
        state.withLock { state in
            guard !state.servers.contains(endpoint) else { return }
            state.servers.append(endpoint)
            if state.servers.count > Self.serverCountMax { state.servers.removeFirst() }
        }
    }

    /// `address`: canonical.
    func contains(_ address: IPAddress, port: UInt16) -> Bool {
        // Asked for every request of a transfer: nothing is copied for it.
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
        // Linux connects 0.0.0.0 and :: to itself.
        address.isUnspecified || address == loopbackV6 || loopbackV4.contains(address)
            || isOwnAddress(address)
    }
}

private let everywhere = IPAddress(v4: 0)
private let loopbackV4 = IPNetwork(IPAddress(v4: 0x7F00_0000), 8)
private let loopbackV6 = IPAddress(v6High: 0, low: 1)

extension IPAddress {
    fileprivate var isUnspecified: Bool { high == 0 && low == 0 }
}
