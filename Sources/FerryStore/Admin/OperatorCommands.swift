package import FerryCore
import Postgres

/// Carries out commands of operators. Any thread.
package final class OperatorCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ context: StoreContext, _ signals: StoreSignals,
        _ nodeState: NodeState
    ) {
        self.commands = commands
        self.reads = reads
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
    }

    /// Pauses or resumes the service: this node at once, other nodes when they are notified. Running
    /// transfers continue.
    package func pause(_ isPaused: Bool, reply: @escaping Reply<Void>) {
        commands.perform("pause", reply) { [self] connection throws(PostgresError) in
            _ = try connection.execute(Statements.changePause, .pause(isPaused, holdsAll: false))
            try adopt(&connection)
            return .success(())
        }
    }

    /// Starts or ends the drain of a node and returns its status. Fails with `notFound` if there is no such
    /// node.
    package func drain(_ node: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>) {
        commands.perform("drain", reply) { [self] connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(node)
            parameters.append(bool: drains)
            guard try connection.execute(Statements.changeDrain, parameters).rowCount == 1 else {
                return .failure(.notFound)
            }
            try adopt(&connection)
            let rows = try connection.execute(
                Statements.readNodes, .nodes(leaseSeconds: context.configuration.leaseSeconds))
            let nodes = (0..<rows.rowCount).map { NodeStatus(rows, $0) }
            return nodes.first { $0.id == node }.map { .success($0) } ?? .failure(.notFound)
        }
    }

    /// Reads the status of all nodes.
    package func nodes(reply: @escaping Reply<[NodeStatus]>) {
        reads.read("nodes", of: .service, reply) { [context] connection throws(PostgresError) in
            let rows = try connection.execute(
                Statements.readNodes, .nodes(leaseSeconds: context.configuration.leaseSeconds))
            return .success((0..<rows.rowCount).map { NodeStatus(rows, $0) })
        }
    }

    /// Reloads operator settings. Called when another node has been notified.
    func adopt() {
        reads.read("adopt_operator_settings", of: .service, { (_: Result<Void, StoreError>) in }) {
            [self] connection throws(PostgresError) in
            try adopt(&connection)
            return .success(())
        }
    }

    private func adopt(_ connection: inout Connection) throws(PostgresError) {
        let rows = try connection.execute(Statements.readOperations, .operatorSettings(context))
        if let settings = OperatorSettings(rows), nodeState.adopt(settings) { signals.beginAgain() }
    }
}

extension Parameters {
    /// The parameters of change_pause.sql. `holdsAll`: a pause also holds deliveries, schedules and probes.
    static func pause(_ isPaused: Bool, holdsAll: Bool) -> Parameters {
        var parameters = Parameters()
        parameters.append(bool: isPaused)
        parameters.append(bool: holdsAll)
        return parameters
    }
}
