extension SessionConfiguration {
    /// Returns the stored form without encryption.
    public func encodeStored() -> [UInt8] { storedForm(isRedacted: false) }

    /// Returns the stored form with encrypted secret values (`SealedDocument`).
    public func encodeStored(_ seal: SecretSeal) -> [UInt8] {
        var secrets: [JSON.Member] = []
        secrets.append(fields: headers, as: "http_additional_headers")
        var receiver: [JSON.Member] = []
        if let webhook { receiver.append(url: webhook.url) }
        if !receiver.isEmpty { secrets.append(JSON.Member("webhook", .object(receiver))) }
        guard !secrets.isEmpty else { return storedForm(isRedacted: false) }
        return SealedDocument.make(storedForm(isRedacted: true), secrets: .object(secrets), seal)
    }

    private func storedForm(isRedacted: Bool) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1_536)
        writer.beginObject()
        writeFields(into: &writer, isRedacted: isRedacted)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encodeStored` returned; secret values are redacted.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON))
    }

    /// Reads what `encodeStored` returned with its secret values. Throws if they cannot be decrypted.
    public init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON, opening: seal))
    }

    private init(_ stored: StoredObject) throws(StoredJSONError) {
        try self.init(restoring: stored)
        // A row of an earlier version has no `retry`.
        if stored.object("retry") == nil { retry.attemptCountMax = kind.attemptCountMax }
    }

    /// The fields as they are shown: a webhook that names no events has the events of a job without rules of
    /// its own.
    var withStandardEvents: SessionConfiguration {
        var configuration = self
        configuration.webhook?.setStandardEvents(acknowledgement)
        return configuration
    }
}

/// A session as the API shows it: its configuration, or the default one, and its unfinished jobs.
public struct SessionOverview: ShownObject {
    public static let summary =
        "The configuration with its effective values. The ETag is that of the configuration, not of the jobs."
    public static let schemaName = "Session"

    /// Tenant and name.
    public let key: SessionKey
    /// The record, or `nil` if the session is not configured.
    public let record: SessionRecord?
    /// Configuration of the record, or the default one.
    public let configuration: SessionConfiguration
    /// Unfinished jobs, or `nil` in lists.
    public let counts: Counts?

    /// Unfinished jobs by state.
    public struct Counts: Sendable, Equatable {
        public var waiting: Int64 = 0
        public var queued: Int64 = 0
        public var running: Int64 = 0
        public var suspended: Int64 = 0
        /// `false` if there are more jobs; this many were counted.
        public var isExact = true
        /// Creates counts of 0.
        public init() {}
        /// `true` if there are no unfinished jobs.
        public var isEmpty: Bool { waiting + queued + running + suspended == 0 }
    }

    /// Creates an overview. `implicit`: configuration of sessions that are not configured.
    public init(
        _ key: SessionKey, record: SessionRecord?, implicit: SessionConfiguration, counts: Counts? = nil
    ) {
        self.key = key
        self.record = record
        configuration = record?.configuration ?? implicit
        self.counts = counts
    }

    /// Creates an overview of a configured session.
    public init(_ record: SessionRecord, counts: Counts? = nil) {
        self.init(record.key, record: record, implicit: record.configuration, counts: counts)
    }

    /// Revision, 0 if the session is not configured.
    public var revision: Int32 { record?.revision ?? 0 }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("identifier", \.key.name, "Name of the session.")
        list.member("tenant", \.key.tenant, "Owner of the session.")
        list.member(
            "is_configured", { $0.record != nil }, "false: jobs have named it, and it has the default values."
        )
        list.member("revision", \.revision, "Grows with each change.", [.minimum(0)])
        list.member("created_at", \.record?.createdAt, "First configuration.")
        list.member("updated_at", \.record?.updatedAt, "Last configuration.")
        list.member("invalidation", \.record?.invalidation, "Not null: the session takes no more jobs.")
        list.member("invalidated_at", \.record?.invalidatedAt, "Time of the invalidation.")
        list.member(
            "ended_at", \.record?.endedAt,
            "Time at which the last job of an invalidated session ended.")
        list.fields(\.configuration.withStandardEvents)
        list.member("jobs", \.counts, "Numbers of unfinished jobs by state; null in lists.")
    }
}

extension SessionOverview.Counts: ShownObject {
    public static let summary = "Numbers of unfinished jobs of a session."
    public static let schemaName = "SessionJobs"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("waiting", \.waiting, "Number of waiting jobs.")
        list.member("queued", \.queued, "Number of queued jobs.")
        list.member("running", \.running, "Number of running jobs.")
        list.member("suspended", \.suspended, "Number of suspended jobs.")
        list.member(
            "is_exact", \.isExact,
            "false if the session has more than 100,000 unfinished jobs, of which 100,000 are counted.")
    }
}
