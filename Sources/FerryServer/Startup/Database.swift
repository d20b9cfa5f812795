import FerryCore
import FerryStore
import Glibc
import Logging
import Sys

/// The configured database, or the private one in the data directory.
final class Database: Sendable {
    let url: String
    private let own: PrivatePostgres?
    private let logger: Logger

    private init(url: String, own: PrivatePostgres?, logger: Logger) {
        self.url = url
        self.own = own
        self.logger = logger
    }

    /// Opens the configured database, or starts the private PostgreSQL if none is configured.
    static func open(_ configuration: Configuration, logger: Logger) throws -> Database {
        if let url = configuration.databaseURL { return Database(url: url, own: nil, logger: logger) }
        try StoragePaths(configuration).prepare()
        forgetServerVariables()
        let own = try PrivatePostgres.start(
            dataDirectory: configuration.dataDirectory, user: configuration.postgresUser
        ) { logger.notice("\($0)") }
        return Database(url: own.url, own: own, logger: logger)
    }

    /// Removes libpq's variables (PGPORT, PGSERVICE, PGSSLMODE), which could lead to another server or
    /// prevent the connection. Call while no other thread reads the environment.
    private static func forgetServerVariables() {
        for name in processEnvironment().keys where name.hasPrefix("PG") { unsetenv(name) }
    }

    /// Applies missing migrations and returns their numbers. Waits while other sessions lock the tables.
    func migrate() throws -> [Int] {
        try Migrator.migrate(url: url) { error in
            logger.warning(
                "The schema cannot be changed while other sessions lock its tables. Ferry tries again.",
                metadata: ["reason": "\(error)"])
            poll(nil, 0, 5_000)
            return true
        }
    }

    /// Stops the private PostgreSQL. Connections to it must be closed by their owners.
    func close() { own?.stop() }
}
