/// Extent to which the deliveries of a webhook contain the job.
public enum WebhookPayload: String, FieldChoice {
    /// The job as `GET` shows it.
    case full
    /// The members of `ThinJob`.
    case thin

    /// Declares `payload`.
    static func declare(_ visitor: inout some FieldVisitor, _ payload: inout WebhookPayload) {
        visitor.field(
            "payload", &payload, .plain,
            "full: deliveries contain the job as GET shows it. thin: the body of a delivery has at most "
                + "4,096 bytes. Of the job it contains id and state, and what fits of waiting_for, revision, "
                + "attempt, kind, times, error code, question, size and digest of the result, and metadata.")
    }
}

/// The part of a job that a thin payload contains.
public enum ThinJob {
    /// Members in the order in which they are added, and the members of objects that are kept. The first two
    /// are always there.
    private static let members: [(name: String, kept: [String]?)] = [
        ("id", nil), ("state", nil), ("waiting_for", nil), ("revision", nil), ("attempt", nil), ("kind", nil),
        ("created_at", nil), ("finished_at", nil), ("error", ["code", "retryable"]),
        ("question", ["kind", "expires_at"]), ("result", ["size", "sha256"]), ("retry_of", nil),
        ("schedule_id", nil), ("scheduled_at", nil), ("metadata", nil),
    ]

    /// Returns the thin form of `json`, the job of an event as a JSON object: at most `byteCountMax` bytes if
    /// id and state fit. A member that does not fit is left out, and so is one that the job does not have.
    public static func make(of json: [UInt8], byteCountMax: Int) -> [UInt8] {
        // The store has written this JSON; null stands for no job.
        guard let job = try? JSON.parse(json), job.members != nil else { return Array("null".utf8) }
        var writer = JSONWriter(reservingCapacity: byteCountMax)
        writer.beginObject()
        for (name, kept) in members {
            guard let value = job[name].flatMap({ part(of: $0, kept) }) else { continue }
            var with = writer
            with.member(name, value)
            // One byte for the brace that closes the object.
            if with.bytes.count < byteCountMax { writer = with }
        }
        writer.endObject()
        return writer.bytes
    }

    /// Returns the value with only the members `kept`; all of it if `kept` is `nil`. Returns `nil` for null.
    private static func part(of value: JSON, _ kept: [String]?) -> JSON? {
        if value.isNull { return nil }
        guard let kept, let members = value.members else { return value }
        return .object(members.filter { kept.contains($0.name) })
    }
}
