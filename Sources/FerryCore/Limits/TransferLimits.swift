/// How fast the service may be as a whole; bytes a second, nil: as fast as it goes.
package struct TransferLimits: Sendable, Equatable {
    /// Of all nodes together (`RateShares`).
    package var bytesReceivedPerSecondMax: Int64?
    package var bytesSentPerSecondMax: Int64?
    /// Of one host and one node, both directions together.
    package var bytesPerSecondPerHostMax: Int64?

    package init(
        bytesReceivedPerSecondMax: Int64? = nil, bytesSentPerSecondMax: Int64? = nil,
        bytesPerSecondPerHostMax: Int64? = nil
    ) {
        self.bytesReceivedPerSecondMax = bytesReceivedPerSecondMax
        self.bytesSentPerSecondMax = bytesSentPerSecondMax
        self.bytesPerSecondPerHostMax = bytesPerSecondPerHostMax
    }

    /// These with another rate of the service in each direction, for a time; nil: as they are.
    package func replacing(serviceRate: Int64?) -> TransferLimits {
        guard let serviceRate else { return self }
        var limits = self
        limits.bytesReceivedPerSecondMax = serviceRate
        limits.bytesSentPerSecondMax = serviceRate
        return limits
    }

    private static let names: [(String, any WritableKeyPath<TransferLimits, Int64?> & Sendable)] = [
        ("max_bytes_received_per_second", \.bytesReceivedPerSecondMax),
        ("max_bytes_sent_per_second", \.bytesSentPerSecondMax),
        ("max_bytes_per_second_per_host", \.bytesPerSecondPerHostMax),
    ]

    /// These limits after a merge patch (RFC 7396): what is absent stays, null is no limit.
    package func merging(_ patch: JSON) throws(InvalidFields) -> TransferLimits {
        let complaints = ValidationErrors()
        var limits = self
        if var fields = FieldReader(patch, at: "#", complaints) {
            for (name, path) in Self.names where fields.has(name) {
                limits[keyPath: path] = fields.integer(name, in: 1...(1 << 53 - 1), isNullable: true)
            }
            fields.finish()
        }
        guard complaints.isEmpty else { throw InvalidFields(complaints.errors) }
        return limits
    }

    /// What is stored and shown.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        writer.beginObject()
        for (name, path) in Self.names { writer.memberOrNull(name, self[keyPath: path]) }
        writer.endObject()
        return writer.bytes
    }

    /// Reads `json`; nil when it is damaged.
    package init?(storedJSON: [UInt8]) {
        guard let json = try? JSON.parse(storedJSON), let limits = try? TransferLimits().merging(json) else {
            return nil
        }
        self = limits
    }
}
