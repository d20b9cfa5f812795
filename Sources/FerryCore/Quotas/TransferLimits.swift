/// Limits of Ferry as a whole in bytes per second; `nil` for no limit.
public struct TransferLimits: FieldObject {
    public static let summary = "Limits of Ferry as a whole. null is no limit."
    public static let schemaName = "TransferLimits"

    /// Bytes of all nodes together in each direction (`RateShares`).
    public var bytesReceivedPerSecondMax: Int64?
    public var bytesSentPerSecondMax: Int64?
    /// Bytes of one host on one node, both directions together.
    public var bytesPerSecondPerHostMax: Int64?

    /// Creates no limits.
    public init() {}
    /// Creates limits.
    public init(
        bytesReceivedPerSecondMax: Int64? = nil, bytesSentPerSecondMax: Int64? = nil,
        bytesPerSecondPerHostMax: Int64? = nil
    ) {
        self.bytesReceivedPerSecondMax = bytesReceivedPerSecondMax
        self.bytesSentPerSecondMax = bytesSentPerSecondMax
        self.bytesPerSecondPerHostMax = bytesPerSecondPerHostMax
    }

    /// Returns the limits with another rate in both directions; `nil` leaves them.
    public func replacing(serviceRate: Int64?) -> TransferLimits {
        guard let serviceRate else { return self }
        var limits = self
        limits.bytesReceivedPerSecondMax = serviceRate
        limits.bytesSentPerSecondMax = serviceRate
        return limits
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        let (range, traits) = (1...JSON.safeIntegerMax, FieldTraits.of(unit: .bytesPerSecond))
        visitor.field(
            "max_bytes_received_per_second", &bytesReceivedPerSecondMax, range, traits,
            "Rate of all downloads of all nodes together.")
        visitor.field(
            "max_bytes_sent_per_second", &bytesSentPerSecondMax, range, traits,
            "Rate of all uploads of all nodes together.")
        visitor.field(
            "max_bytes_per_second_per_host", &bytesPerSecondPerHostMax, range, traits,
            "Rate of each host on one node, both directions together.")
    }

    /// The limits as they are stored and shown.
    public var json: [UInt8] { encodeFields() }

    /// Reads `json`; `nil` if it is damaged.
    public init?(storedJSON: [UInt8]) {
        // Why stored limits are damaged does not matter to the caller.
        guard let json = try? JSONView(parsing: storedJSON), let limits = try? TransferLimits(body: json)
        else {
            return nil
        }
        self = limits
    }
}
