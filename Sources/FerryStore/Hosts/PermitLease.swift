import Synchronization

/// The lease of all permits to connect to limited hosts (`nodes.has_permits`). While this node holds it, it
/// counts its connections in memory, and other nodes get none from narrow claim queues. Any thread.
///
/// A heartbeat takes it, if no other node is alive, and gives it up when one is. Then nothing begins from
/// memory any more, and the dispatcher returns the lease once running rows say which connections are in use.
final class PermitLease: Sendable {
    enum State: Int { case absent, held, returning }
    private let state = Atomic<Int>(State.absent.rawValue)

    var current: State { State(rawValue: state.load(ordering: .acquiring)) ?? .returning }

    /// `true` while connections are counted in memory.
    var isHeld: Bool { current == .held }

    /// `true` if the lease is given up and not returned yet. Nothing begins that a limit concerns.
    var isReturning: Bool { current == .returning }

    /// `true` if the database has no lease of this node.
    var isAbsent: Bool { current == .absent }

    /// Notes that the database has the lease.
    func take() { change(.absent, .held) }

    /// Gives the lease up: another node is alive, or may be.
    func giveUp() { change(.held, .returning) }

    /// Notes that the database may have the lease: the outcome of a commit is unknown.
    func doubt() { change(.absent, .returning) }

    /// Notes that the database has no lease any more.
    func returned() { change(.returning, .absent) }

    private func change(_ from: State, _ to: State) {
        _ = state.compareExchange(
            expected: from.rawValue, desired: to.rawValue, ordering: .sequentiallyConsistent)
    }
}
