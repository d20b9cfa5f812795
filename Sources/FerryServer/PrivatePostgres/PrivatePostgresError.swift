/// Reason for which the private PostgreSQL cannot be used. The description is one sentence that says what to
/// do.
package struct PrivatePostgresError: Error, Sendable, CustomStringConvertible {
    /// Classes of errors. Tests and exit statuses use them.
    package enum Code: String, Sendable {
        /// No PostgreSQL programs of a supported version were found.
        case programsNotFound = "programs_not_found"
        /// The user that runs the server does not exist or cannot be used.
        case userUnusable = "user_unusable"
        /// The data directory cannot be created or reached, or has the wrong owner.
        case directoryUnusable = "directory_unusable"
        /// Another major version created the cluster.
        case versionMismatch = "version_mismatch"
        /// Another Ferry, or a server that an earlier Ferry started, uses the directory.
        case inUse = "in_use"
        /// initdb or the server failed; the description quotes its output.
        case failed
    }
    /// Class of the error.
    package let code: Code
    /// One sentence for the operator.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
