/// Kind of a job.
public enum JobKind: String, Sendable, CaseIterable {
    case download, upload, data
}
