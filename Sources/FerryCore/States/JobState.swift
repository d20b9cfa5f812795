/// State of a job. A terminal state never changes.
public enum JobState: String, Sendable, CaseIterable {
    case waiting, queued, running, suspended
    case succeeded, failed, cancelled

    /// `true` if the state never changes again.
    public var isTerminal: Bool {
        switch self {
        case .succeeded, .failed, .cancelled: true
        case .waiting, .queued, .running, .suspended: false
        }
    }
}

/// Condition for which a `waiting` job waits.
public enum WaitingFor: String, Sendable, CaseIterable {
    case beginDate = "begin_date"
    case discretionary, connectivity, retry, dependency, challenge, confirmation, redirect
    case urlExpired = "url_expired"
}

extension JobState: ShownChoice {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        schemas.reference("JobState") {
            let text = "State of a job. The terminal states are succeeded, failed and cancelled."
            return .object(choices + [JSON.Member("description", .string(text))])
        }
    }
}
extension WaitingFor: ShownChoice {}
