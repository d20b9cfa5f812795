import FerryCore

/// A group as text.
struct GroupText {
    private let group: JSON

    /// Creates the text of a group as the service shows it.
    init(_ group: JSON) { self.group = group }

    private func count(_ states: String...) -> Int64 {
        states.reduce(0) { $0 + (group["counts"]?[$1]?.integer ?? 0) }
    }

    /// Jobs that have not ended.
    var unfinishedCount: Int64 { count("waiting", "queued", "running", "suspended") }
    /// Failed jobs that were not retried.
    var openFailureCount: Int64 { group["open_failures"]?.integer ?? 0 }
    /// Cancelled jobs.
    var cancelledCount: Int64 { count("cancelled") }
    /// State of the group.
    var state: String { group["state"]?.string ?? "?" }

    /// Cells of a row: name, state and numbers of jobs.
    var row: [String] {
        [
            group["name"]?.string ?? "?", state, "\(unfinishedCount)", "\(count("succeeded"))",
            "\(openFailureCount)", "\(cancelledCount)",
        ]
    }

    /// The numbers of jobs as a sentence.
    var counts: String {
        "\(unfinishedCount) unfinished, \(count("succeeded")) succeeded, \(openFailureCount) open failures, "
            + "\(cancelledCount) cancelled"
    }

    /// Name, state and numbers of jobs as one line.
    var line: String { "\(group["name"]?.string ?? "?")\t\(state)\t\(counts)" }

    /// Lines of a name and a value each, without missing values.
    var lines: [String] {
        let states = ["waiting", "queued", "running", "suspended", "succeeded", "failed", "cancelled"]
        let rows: [(String, String?)] =
            [
                ("group", group["name"]?.string), ("description", group["description"]?.string),
                ("state", state), ("round", group["round"]?.integer.map { "\($0)" }),
            ] + states.map { ($0, "\(count($0))") } + [
                ("open failures", "\(openFailureCount)"), ("created", group["created_at"]?.string),
                ("closed", group["closed_at"]?.string), ("finished", group["finished_at"]?.string),
            ]
        return rows.compactMap { name, value in value.map { "\(name):".padded(to: 16) + $0 } }
    }
}
