/// A host as operators see it: what is known of an origin, and what they have said about it.
package struct HostRecord: Sendable {
    package struct Reason: Sendable, Equatable {
        package var code: String
        /// One sentence for people.
        package var detail: String
        package init(code: String, detail: String) {
            self.code = code
            self.detail = detail
        }
    }

    /// scheme://host:port
    package var origin: String
    package var state: String
    /// Why it is not `normal`.
    package var reason: Reason?
    /// Transfers at once, of all nodes together; nil: as many as there are.
    package var connectionLimit: Int?
    /// Transfers begun a second, of all nodes together; nil: as many as there are.
    package var requestRateLimit: Double?
    /// Transfers that run, on all nodes.
    package var inFlight = 0
    package var backoffUntil: Timestamp?
    package var unreachableSince: Timestamp?
    package var nextProbeAt: Timestamp?
    /// Of the last window that was measured; nil: none was.
    package var jobsPerSecond: Double?
    package var bytesPerSecond: Double?
    package var connectionsMin: Int?
    package var connectionsMax: Int?
    package var isPaused = false
    package var bytesPerSecondMax: Int64?
    package var requestsPerSecondMax: Double?
    /// The tenants, and the paths of tenants, whose requests are limited by themselves.
    package var scopes: [Scope] = []
    /// JSON objects, the newest first.
    package var decisions: [[UInt8]] = []

    /// One of them, with the limits as those of the host.
    package struct Scope: Sendable, Equatable {
        package let tenant: String
        /// First path segment and hash of the credentials. `nil`: every path of the tenant.
        package let path: String?
        package let state: String
        /// One sentence for people.
        package let detail: String
        package let connectionLimit: Int?
        package let requestRateLimit: Double?
        package let backoffUntil: Timestamp?

        package init(
            tenant: String, path: String?, state: String, detail: String, connectionLimit: Int?,
            requestRateLimit: Double?, backoffUntil: Timestamp?
        ) {
            self.tenant = tenant
            self.path = path
            self.state = state
            self.detail = detail
            self.connectionLimit = connectionLimit
            self.requestRateLimit = requestRateLimit
            self.backoffUntil = backoffUntil
        }

        fileprivate func write(into writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("tenant", tenant)
            writer.memberOrNull("path", path)
            writer.member("state", state)
            writer.member("detail", detail)
            writer.memberOrNull("connection_limit", connectionLimit)
            writer.memberOrNull("request_rate_limit", requestRateLimit)
            writer.memberOrNull("backoff_until", backoffUntil)
            writer.endObject()
        }
    }

    package init(origin: String, state: String) {
        self.origin = origin
        self.state = state
    }

    /// What a `HostPatch` changes, as it is: JSON.
    package var changeable: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.memberOrNull("minimum_connections", connectionsMin)
        writer.memberOrNull("maximum_connections", connectionsMax)
        writer.member("paused", isPaused)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
        writer.memberOrNull("max_requests_per_second", requestsPerSecondMax)
        writer.memberOrNull("backoff_until", backoffUntil)
        writer.endObject()
        return writer.bytes
    }

    package func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("host", origin)
        writer.member("state", state)
        writer.name("reason")
        if let reason {
            writer.beginObject()
            writer.member("code", reason.code)
            writer.member("detail", reason.detail)
            writer.endObject()
        } else {
            writer.null()
        }
        writer.memberOrNull("connection_limit", connectionLimit)
        writer.memberOrNull("request_rate_limit", requestRateLimit)
        writer.member("in_flight", inFlight)
        writer.memberOrNull("backoff_until", backoffUntil)
        writer.memberOrNull("unreachable_since", unreachableSince)
        writer.memberOrNull("next_probe_at", nextProbeAt)
        writer.name("throughput")
        writer.beginObject()
        writer.memberOrNull("jobs_per_second", jobsPerSecond)
        writer.memberOrNull("bytes_per_second", bytesPerSecond)
        writer.endObject()
        writer.memberOrNull("minimum_connections", connectionsMin)
        writer.memberOrNull("maximum_connections", connectionsMax)
        writer.member("paused", isPaused)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
        writer.memberOrNull("max_requests_per_second", requestsPerSecondMax)
        writer.name("scopes")
        writer.beginArray()
        for scope in scopes { scope.write(into: &writer) }
        writer.endArray()
        writer.name("decisions")
        writer.beginArray()
        for decision in decisions { writer.raw(decision) }
        writer.endArray()
        writer.endObject()
    }
}

/// What an operator changes about a host: a merge patch (RFC 7396). Nil: it stays.
package struct HostPatch: Sendable, Equatable {
    package var connectionsMin: Int??
    package var connectionsMax: Int??
    package var isPaused: Bool?
    package var bytesPerSecondMax: Int64??
    package var requestsPerSecondMax: Double??
    package var backoffUntil: Timestamp??

    /// More than any node can hold.
    package static let connectionCountMax: Int64 = 1_000_000
    /// From three an hour.
    package static let requestRates = 0.001...1_000_000

    package init(_ json: JSON) throws(InvalidFields) {
        let complaints = ValidationErrors()
        if var fields = FieldReader(json, at: "#", complaints) {
            let range = 1...Self.connectionCountMax
            if fields.has("minimum_connections") {
                connectionsMin = .some(
                    fields.integer("minimum_connections", in: range, isNullable: true).map(Int.init))
            }
            if fields.has("maximum_connections") {
                connectionsMax = .some(
                    fields.integer("maximum_connections", in: range, isNullable: true).map(Int.init))
            }
            if fields.has("paused") { isPaused = fields.bool("paused", isNullable: true) ?? false }
            if fields.has("max_bytes_per_second") {
                bytesPerSecondMax = .some(
                    fields.integer("max_bytes_per_second", in: 1...(1 << 53 - 1), isNullable: true))
            }
            if fields.has("max_requests_per_second") {
                requestsPerSecondMax = .some(
                    fields.optionalNumber("max_requests_per_second", in: Self.requestRates))
            }
            if fields.has("backoff_until") { backoffUntil = .some(fields.timestamp("backoff_until")) }
            fields.finish()
        }
        guard complaints.isEmpty else { throw InvalidFields(complaints.errors) }
    }

    /// What is wrong when these would be the bounds.
    package static func invalidBounds() -> InvalidFields {
        let complaints = ValidationErrors()
        complaints.add(
            "#/minimum_connections", "invalid_combination", "This must not be above maximum_connections.")
        return InvalidFields(complaints.errors)
    }
}
