extension SessionConfiguration {
    /// Returns the stored form without encryption.
    package func encodeStored() -> [UInt8] { storedForm(isRedacted: false) }

    /// Returns the stored form with encrypted secret values (`SealedDocument`).
    package func encodeStored(_ seal: SecretSeal) -> [UInt8] {
        var secrets: [JSON.Member] = []
        secrets.append(fields: headers, as: "http_additional_headers")
        guard !secrets.isEmpty else { return storedForm(isRedacted: false) }
        return SealedDocument.make(storedForm(isRedacted: true), secrets: .object(secrets), seal)
    }

    private func storedForm(isRedacted: Bool) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 768)
        writer.beginObject()
        writeFields(into: &writer, isRedacted: isRedacted)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encodeStored` returned; secret values are redacted.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON))
    }

    /// Reads what `encodeStored` returned with its secret values. Throws if they cannot be decrypted.
    package init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON, opening: seal))
    }
}

/// A session as the API shows it: its configuration, or the default one, and its unfinished jobs.
package struct SessionOverview: Sendable {
    /// Tenant and name.
    package let key: SessionKey
    /// The record, or `nil` if the session is not configured.
    package let record: SessionRecord?
    /// Unfinished jobs, or `nil` in lists.
    package let counts: Counts?

    /// Unfinished jobs by state.
    package struct Counts: Sendable, Equatable {
        package var waiting: Int64 = 0
        package var queued: Int64 = 0
        package var running: Int64 = 0
        package var suspended: Int64 = 0
        /// `false` if there are more jobs; this many were counted.
        package var isExact = true
        /// Creates counts of 0.
        package init() {}
        /// `true` if there are no unfinished jobs.
        package var isEmpty: Bool { waiting + queued + running + suspended == 0 }
    }

    /// Creates an overview.
    package init(_ key: SessionKey, record: SessionRecord?, counts: Counts? = nil) {
        self.key = key
        self.record = record
        self.counts = counts
    }

    /// Revision, 0 if the session is not configured.
    package var revision: Int32 { record?.revision ?? 0 }

    /// Writes the session as the reader may see it.
    package func write(into writer: inout JSONWriter, for disclosure: Disclosure) {
        writer.beginObject()
        writer.member("identifier", key.name)
        writer.member("tenant", key.tenant)
        writer.member("is_configured", record != nil)
        writer.member("revision", revision)
        writer.memberOrNull("created_at", record?.createdAt)
        writer.memberOrNull("updated_at", record?.updatedAt)
        writer.memberOrNull("invalidation", record?.invalidation?.rawValue)
        writer.memberOrNull("invalidated_at", record?.invalidatedAt)
        writer.memberOrNull("ended_at", record?.endedAt)
        (record?.configuration ?? .implicit).writeFields(into: &writer, isRedacted: disclosure.isRedacted)
        writer.name("jobs")
        if let counts {
            writer.beginObject()
            writer.member("waiting", counts.waiting)
            writer.member("queued", counts.queued)
            writer.member("running", counts.running)
            writer.member("suspended", counts.suspended)
            writer.member("is_exact", counts.isExact)
            writer.endObject()
        } else {
            writer.null()
        }
        writer.endObject()
    }
}
