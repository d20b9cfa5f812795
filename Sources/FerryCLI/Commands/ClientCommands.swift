package import ArgumentParser

/// The commands that are clients of a running service, in the order in which help shows them.
package var clientCommands: [any ParsableCommand.Type] {
    [
        Get.self, Put.self, Submit.self, Jobs.self, Show.self, Watch.self, Events.self, Cancel.self,
        Suspend.self, Resume.self, Retry.self, Acknowledge.self, Schedules.self, Sessions.self, Webhooks.self,
        Admin.self,
        Healthcheck.self,
    ]
}

/// The status with which the process ends: 0 success (and help), 1 failed, 2 wrong usage, 3 the service could
/// not be reached, 4 timed out waiting.
package func exitStatus(for error: any Error) -> Int32 {
    if let failure = error as? ClientFailure { return failure.kind.rawValue }
    let code = Show.exitCode(for: error)
    // ArgumentParser says EX_USAGE (sysexits.h), which scripts would have to know.
    return code == .validationFailure ? 2 : code.rawValue
}

/// Why a client command did not do what it was asked.
package struct ClientFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The raw value is the exit status.
    package enum Kind: Int32, Sendable {
        /// The job failed, or the service said no.
        case failed = 1
        case usage = 2
        case unreachable = 3
        case timedOut = 4
    }
    package let kind: Kind
    /// One or more sentences for people.
    package let description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = printable(description, keeping: "\n")
    }
}
