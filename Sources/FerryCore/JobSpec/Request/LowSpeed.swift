/// When a connection is too slow, as in curl (`--speed-limit`, `--speed-time`). Fields of jobs and sessions,
/// and a setting of the operator.
public struct LowSpeed: Sendable, Equatable {
    /// Bytes per second, or `nil` for the default.
    public var bytesPerSecond: Int64?
    /// Seconds below that rate, or `nil` for the default.
    public var seconds: Double?

    /// Creates a rule; one without values never applies.
    public init(bytesPerSecond: Int64? = nil, seconds: Double? = nil) {
        self.bytesPerSecond = bytesPerSecond
        self.seconds = seconds
    }

    /// The rate below which, and the seconds after which a connection is given up; `nil` if it never is. A
    /// missing value is that of curl.
    public var bound: (bytesPerSecond: Int64, seconds: Double)? {
        bytesPerSecond == nil && seconds == nil ? nil : (bytesPerSecond ?? 1, seconds ?? 30)
    }

    /// Visits the two fields of a job or a session.
    mutating func fields(
        _ visitor: inout some FieldVisitor, from origin: FieldTraits.Inheritance = .none
    ) {
        visitor.field(
            "low_speed_limit", &bytesPerSecond, 1...JSON.safeIntegerMax,
            .of(from: origin, unit: .bytesPerSecond),
            "Rate below which a connection is given up after low_speed_time. null: 1 if low_speed_time is "
                + "given, otherwise connections are never given up for that reason.")
        visitor.field(
            "low_speed_time", &seconds, 1...604_800, .of(from: origin, unit: .seconds),
            "Time below low_speed_limit after which a connection is given up. null: 30 if low_speed_limit is "
                + "given.")
    }
}
