/// Limits of Ferry as a whole in bytes per second; `nil` for no limit.
package struct TransferLimits: Sendable, Equatable {
    /// Bytes of all nodes together in each direction (`RateShares`).
    package var bytesReceivedPerSecondMax: Int64?
    package var bytesSentPerSecondMax: Int64?
    /// Bytes of one host on one node, both directions together.
    package var bytesPerSecondPerHostMax: Int64?

    /// Creates limits.
    package init(
        bytesReceivedPerSecondMax: Int64? = nil, bytesSentPerSecondMax: Int64? = nil,
        bytesPerSecondPerHostMax: Int64? = nil
    ) {
        self.bytesReceivedPerSecondMax = bytesReceivedPerSecondMax
        self.bytesSentPerSecondMax = bytesSentPerSecondMax
        self.bytesPerSecondPerHostMax = bytesPerSecondPerHostMax
    }

    /// Returns the limits with another rate in both directions; `nil` leaves them.
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

    /// Returns the limits after a merge patch (RFC 7396); null removes a limit.
    package func merging(_ patch: JSON) throws(InvalidFields) -> TransferLimits {
        let errors = ValidationErrors()
        var limits = self
        if var fields = FieldReader(patch, at: "#", errors) {
            for (name, path) in Self.names where fields.has(name) {
                limits[keyPath: path] = fields.integer(name, in: 1...(1 << 53 - 1), isNullable: true)
            }
            fields.finish()
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        return limits
    }

    /// The limits as they are stored and shown.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        writer.beginObject()
        for (name, path) in Self.names { writer.memberOrNull(name, self[keyPath: path]) }
        writer.endObject()
        return writer.bytes
    }

    /// Reads `json`; `nil` if it is damaged.
    package init?(storedJSON: [UInt8]) {
        // Why stored limits are damaged does not matter to the caller.
        guard let json = try? JSON.parse(storedJSON), let limits = try? TransferLimits().merging(json) else {
            return nil
        }
        self = limits
    }
}
