import FerryCore
import FerryStore
import Glibc
import Logging
import Sys

/// The database that the configuration names, or the private one in the data directory.
final class Database: Sendable {
    let url: String
    private let own: PrivatePostgres?
    private let logger: Logger

    private init(url: String, own: PrivatePostgres?, logger: Logger) {
        self.url = url
        self.own = own
        self.logger = logger
    }

    /// Starts the private PostgreSQL when no database is named.
    static func open(_ configuration: Configuration, logger: Logger) throws -> Database {
        if let url = configuration.databaseURL { return Database(url: url, own: nil, logger: logger) }
        try StoragePaths(configuration).prepare()
        forgetServerVariables()
        let own = try PrivatePostgres.start(
            dataDirectory: configuration.dataDirectory, user: configuration.postgresUser
        ) { logger.notice("\($0)") }
        return Database(url: own.url, own: own, logger: logger)
    }

    /// libpq's own variables (PGPORT, PGSERVICE, PGSSLMODE) lead to another server than the private one, or
    /// keep us from it. To be called while no other thread reads the environment.
    private static func forgetServerVariables() {
        for name in processEnvironment().keys where name.hasPrefix("PG") { unsetenv(name) }
    }

    /// Applies what is missing and returns the numbers of the migrations that were applied. Waits for those
    /// who hold what is to be changed.
    func migrate() throws -> [Int] {
        try Migrator.migrate(url: url) { error in
            logger.warning(
                "The schema cannot be changed while others hold its tables (a dump?); it is tried again.",
                metadata: ["reason": "\(error)"])
            poll(nil, 0, 5_000)
            return true
        }
    }

    /// Ends the private PostgreSQL; the connections of others are theirs to close.
    func close() { own?.stop() }
}
