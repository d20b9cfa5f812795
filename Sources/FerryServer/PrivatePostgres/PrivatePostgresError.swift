/// Why the private PostgreSQL cannot be had. The description is a sentence that says what to do.
package struct PrivatePostgresError: Error, Sendable, CustomStringConvertible {
    /// What kind of obstacle it is; stable, for tests and exit statuses.
    package enum Code: String, Sendable {
        /// No server programs of a version that we can use.
        case programsNotFound = "programs_not_found"
        /// The account that is to run the server is missing or cannot be used.
        case userUnusable = "user_unusable"
        /// The data directory cannot be created, reached or owned as needed.
        case directoryUnusable = "directory_unusable"
        /// The cluster was made by another major version.
        case versionMismatch = "version_mismatch"
        /// Another Ferry, or a server that outlived one, holds the directory.
        case inUse = "in_use"
        /// initdb or the server itself gave up; the description quotes it.
        case failed
    }
    package let code: Code
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
