import FerryCore
import Postgres
import Sys

/// Carries out the commands of the API, one after another on a connection of its own. May be called from any
/// thread. The reply is called on its thread and must not block.
final class CommandQueue: Sendable {
    /// A command waiting for the connection. `fail` replies with an error if `run` could not.
    private struct Command: Sendable {
        let name: StaticString
        let run: @Sendable (inout Connection) throws(PostgresError) -> Void
        let fail: @Sendable (StoreError) -> Void
    }

    /// Maximum number of times that a command is sent which the database aborts each time in favor of other
    /// transactions.
    static let sendCountMax = 5

    private let context: StoreContext
    private let commands = Mailbox<Command>()

    init(_ context: StoreContext) { self.context = context }

    /// Refuses further commands with `unavailable`. Commands that wait already are still carried out.
    func close() { commands.close() }

    /// Runs `body` on the connection.
    func perform<Value: Sendable>(
        _ name: StaticString, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        let command = Command(
            name: name,
            run: { connection throws(PostgresError) in reply(try body(&connection)) },
            fail: { reply(.failure($0)) })
        if !commands.send(command) { reply(.failure(.unavailable)) }
    }

    static func adjust(_ options: inout ConnectionOptions) {
        options.connectTimeout = .seconds(2)
        options.statementTimeout = .seconds(10)
        // Plans are made once, perhaps while the table is nearly empty; only index scans stay right when it
        // grows.
        options.settings.append(.init("plan_cache_mode", "force_generic_plan"))
        options.settings.append(.init("enable_seqscan", "off"))
    }

    /// The thread's body.
    func run() {
        let database = context.connection("control", adjust: Self.adjust)
        while true {
            let gathered = commands.wait(milliseconds: -1)
            for command in gathered {
                do {
                    // `run` replies as its last step: if it throws, it has not replied.
                    try database.withConnection(sendingUpTo: Self.sendCountMax, command.run)
                } catch {
                    command.fail(context.failure(of: command.name, error))
                }
            }
            if commands.isClosed && gathered.isEmpty { return }
        }
    }
}
