package import ArgumentParser

/// Commands that are clients of a running service, in the order of the help text.
package var clientCommands: [any ParsableCommand.Type] {
    [
        Get.self, Put.self, Submit.self, Jobs.self, Show.self, Watch.self, FetchContent.self, Events.self,
        Stuck.self, Failures.self, Cancel.self, Suspend.self, Resume.self, Retry.self, Change.self,
        Delete.self, Acknowledge.self, BulkOperations.self, Groups.self, Schedules.self, Sessions.self,
        Webhooks.self, Deliveries.self, Redeliver.self, Admin.self, Healthcheck.self,
    ]
}

/// Returns the exit status: 0 success (and help), 1 failed, 2 invalid arguments or request, 3 service not
/// reachable, 4 timeout.
package func exitStatus(for error: any Error) -> Int32 {
    if let failure = error as? ClientFailure { return failure.kind.rawValue }
    let code = Show.exitCode(for: error)
    // ArgumentParser uses EX_USAGE (sysexits.h); the documented status is 2.
    return code == .validationFailure ? 2 : code.rawValue
}

/// Failure of a client command.
package struct ClientFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// Class of a failure; the raw value is the exit status.
    package enum Kind: Int32, Sendable {
        /// The job failed, or the service refused the request.
        case failed = 1
        /// The arguments or the request are invalid.
        case usage = 2
        /// The service cannot be reached.
        case unreachable = 3
        /// The timeout of a wait has passed.
        case timedOut = 4
    }
    /// Class of the failure.
    package let kind: Kind
    /// One or more sentences for the user.
    package let description: String

    /// Creates a failure. Removes control characters from `description`, except for line ends.
    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = printable(description, keeping: "\n")
    }
}
