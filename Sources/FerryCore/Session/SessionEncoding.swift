extension SessionConfiguration {
    /// Writes all members with their effective values into an open object; `{"set": true}` stands for
    /// secrets.
    func write(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.member("kind", kind.rawValue)
        writer.memberOrNull("description", description)
        writer.name("metadata")
        writer.beginObject()
        for pair in metadata { writer.member(pair.name, pair.value) }
        writer.endObject()
        writer.member("weight", weight)
        writer.memberOrNull("http_maximum_connections_per_host", connectionsPerHostMax)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
        writer.memberOrNull("retention", retention)
        if let acknowledgement {
            acknowledgement.write(into: &writer)
        } else {
            writer.name("acknowledgement")
            writer.null()
        }
        writer.member("sends_launch_events", sendsLaunchEvents)
        writer.member("timeout_for_request", timeoutForRequest)
        writer.member("timeout_for_resource", timeoutForResource)
        writer.member("priority", priority)
        writer.member("network_service_type", networkServiceType.rawValue)
        writer.member("discretionary", isDiscretionary)
        writer.member("waits_for_connectivity", waitsForConnectivity)
        writer.write("http_additional_headers", headers, isRedacted: isRedacted)
        if let headerOrigins {
            writer.strings("http_additional_headers_origins", headerOrigins.map(\.string))
        } else {
            writer.member("http_additional_headers_origins", .null)
        }
        writer.name("proxy")
        if let proxy { proxy.write(into: &writer) } else { writer.null() }
        writer.member("tls_minimum_version", tlsVersionMin.rawValue)
        writer.memberOrNull("tls_maximum_version", tlsVersionMax?.rawValue)
    }

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
        write(into: &writer, isRedacted: isRedacted)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encodeStored` returned; secret values are redacted.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// Reads what `encodeStored` returned with its secret values. Throws if they cannot be decrypted.
    package init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON, opening: seal))
    }

    private init(_ stored: StoredObject) throws(StoredJSONError) {
        let standard = SessionConfiguration()
        kind = try stored.need(stored.string("kind").flatMap(Kind.init), "kind")
        description = stored.string("description")
        metadata = stored.pairs("metadata")
        weight = stored.double("weight") ?? standard.weight
        connectionsPerHostMax = stored.integer("http_maximum_connections_per_host").map { Int(clamping: $0) }
        bytesPerSecondMax = stored.integer("max_bytes_per_second")
        retention = stored.double("retention")
        acknowledgement = AcknowledgementRules(stored.object("acknowledgement"))
        sendsLaunchEvents = stored.json["sends_launch_events"]?.bool ?? true
        timeoutForRequest = stored.double("timeout_for_request") ?? standard.timeoutForRequest
        timeoutForResource = stored.double("timeout_for_resource") ?? standard.timeoutForResource
        priority = stored.double("priority") ?? standard.priority
        networkServiceType =
            stored.string("network_service_type").flatMap(JobSpec.NetworkServiceType.init) ?? .standard
        isDiscretionary = stored.bool("discretionary")
        waitsForConnectivity = stored.bool("waits_for_connectivity", standard: true)
        headers = stored.pairs("http_additional_headers")
        headerOrigins = try stored.json["http_additional_headers_origins"]?.array.map {
            patterns throws(StoredJSONError) in
            var origins: [OriginPattern] = []
            for pattern in patterns {
                origins.append(
                    try stored.need(
                        // Validated when the session was configured; otherwise the row is damaged.
                        pattern.string.flatMap { try? OriginPattern($0) }, "http_additional_headers_origins"))
            }
            return origins
        }
        proxy = try stored.object("proxy").map(ConnectionRules.Proxy.init)
        tlsVersionMin = stored.string("tls_minimum_version").flatMap(ConnectionRules.TLS.Version.init) ?? .v12
        tlsVersionMax = stored.string("tls_maximum_version").flatMap(ConnectionRules.TLS.Version.init)
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
        (record?.configuration ?? .implicit).write(into: &writer, isRedacted: disclosure.isRedacted)
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
