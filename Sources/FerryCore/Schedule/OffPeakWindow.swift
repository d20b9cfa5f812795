/// A recurring period that an operator has defined, for discretionary jobs or for another rate. When it is
/// open is decided only here.
public struct OffPeakWindow: FieldObject, FieldValue {
    public static let summary =
        "A recurring period in which discretionary jobs start or other rates apply. If no window is "
        + "discretionary, such jobs start whenever there is idle capacity."
    public static let schemaName = "OffPeakWindow"

    /// Name, unique among the windows.
    public var name = ""
    /// Times at which it opens.
    public var cron = CronExpression.unknown
    /// Seconds of real time for which it stays open.
    public var duration = 60.0
    /// IANA name of the time zone of `cron`.
    public var timeZone = "UTC"
    /// `true` if discretionary jobs start in it.
    public var startsDiscretionary = true
    /// Bytes of discretionary jobs that may start in one opening, or `nil` for no limit.
    public var byteCountMax: Int64?
    /// Bytes per second of all nodes together in each direction, instead of the general limits; `nil` to keep
    /// those.
    public var bytesPerSecondMax: Int64?

    /// Creates a window without openings.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "name", &name, TextRule(1...Limits.nameByteCountMax), .of(required: true),
            "Name, unique among the windows.")
        visitor.field(
            "cron", &cron, .of(required: true),
            "Times at which it opens, by the wall clock of time_zone; as cron of a schedule.")
        visitor.field(
            "duration", &duration, 60...604_800, .of(required: true, unit: .seconds),
            "Real time for which it stays open.")
        visitor.field(
            "time_zone", &timeZone, TextRule(1...Limits.timeZoneByteCountMax, pattern: nil) { _ in nil },
            .plain, "Time zone of cron: an IANA name such as Europe/Berlin.")
        visitor.field(
            "discretionary", &startsDiscretionary, .plain, "Whether discretionary jobs start in it.")
        visitor.field(
            "max_bytes", &byteCountMax, 1...JSON.safeIntegerMax, .of(unit: .bytes),
            "Expected bytes of the discretionary jobs that start in one opening; null for no limit.")
        visitor.field(
            "max_bytes_per_second", &bytesPerSecondMax, 1...JSON.safeIntegerMax, .of(unit: .bytesPerSecond),
            "Rate of all nodes together in each direction while it is open, instead of the limits of "
                + "/v1/admin/limits; null to keep those.")
    }

    public mutating func check(_ body: FieldDecoder) {
        if let zones = body.context.zones, zones.rules(named: timeZone) == nil {
            body.fail(
                "time_zone", "invalid_value", "There is no time zone of this name, such as Europe/Berlin.")
        }
    }

    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/WindowInput")]
    }

    /// A period in which the window is open.
    public struct Opening: Sendable, Equatable {
        /// Start.
        public let opensAt: Timestamp
        /// End.
        public let closesAt: Timestamp
    }

    private func recurrence(_ zones: some TimeZoneSource) -> Recurrence? {
        zones.rules(named: timeZone).map { Recurrence(.cron(cron, $0)) }
    }

    /// Returns the opening that contains an instant, the latest one if several do; `nil` if the window is
    /// closed.
    public func opening(at now: Timestamp, _ zones: some TimeZoneSource) -> Opening? {
        guard let start = recurrence(zones)?.latest(through: now, after: now + -duration) else { return nil }
        return Opening(opensAt: start, closesAt: start + duration)
    }

    /// Returns the start of the next opening, or `nil` if there is none.
    public func nextOpening(after now: Timestamp, _ zones: some TimeZoneSource) -> Timestamp? {
        recurrence(zones)?.next(after: now)
    }
}

/// All off-peak windows.
public struct OffPeakWindows: FieldObject {
    public static let summary =
        "All off-peak windows. A patch replaces the list as a whole; null empties it."
    public static let schemaName = "OffPeakWindows"

    /// The windows.
    public var windows: [OffPeakWindow]

    /// Creates an empty set.
    public init() { self.init([]) }
    /// Creates a set.
    public init(_ windows: [OffPeakWindow]) { self.windows = windows }

    /// Windows for discretionary jobs. If there are none, such jobs start whenever there is idle capacity.
    public var discretionary: [OffPeakWindow] { windows.filter(\.startsDiscretionary) }

    /// Returns the lowest rate of the open windows, or `nil` if none has one.
    public func bytesPerSecondMax(at now: Timestamp, _ zones: some TimeZoneSource) -> Int64? {
        windows.filter { $0.bytesPerSecondMax != nil && $0.opening(at: now, zones) != nil }
            .compactMap(\.bytesPerSecondMax).min()
    }

    // MARK: JSON

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "windows", &windows,
            ListRule(0...Limits.windowCountMax, of: NoRule(), isUnique: false), .plain, "The windows.")
    }

    public mutating func check(_ body: FieldDecoder) {
        for (index, window) in windows.enumerated()
        where windows[..<index].contains(where: { $0.name == window.name }) {
            body.fail("windows/\(index)/name", "duplicate", "This occurs twice.")
        }
    }

    /// The windows as they are stored.
    public var json: [UInt8] { encodeFields() }

    /// Returns the windows as the API shows them, with their current state.
    public func view(at now: Timestamp, _ zones: some TimeZoneSource) -> [UInt8] {
        let shown = windows.map { window in
            let opening = window.opening(at: now, zones)
            return ShownWindow(
                window: window, isOpen: opening != nil, closesAt: opening?.closesAt,
                opensAt: window.nextOpening(after: now, zones))
        }
        return ShownWindows(windows: shown).shown(reservingCapacity: 384 * windows.count + 32)
    }

    /// Reads `json`; `nil` if it is damaged. Stored windows stay valid even if this node does not know their
    /// time zone.
    public init?(storedJSON: [UInt8]) {
        // Why stored windows are damaged does not matter to the caller.
        guard let json = try? JSONView(parsing: storedJSON),
            // Windows of another form count as damaged.
            let windows = try? OffPeakWindows(body: json)
        else { return nil }
        self = windows
    }
}

/// The off-peak windows as the API shows them.
public struct ShownWindows: ShownObject {
    public static let summary =
        "Windows in which discretionary jobs start, or in which other rates apply."
    public static let schemaName = "Windows"

    fileprivate let windows: [ShownWindow]

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("windows", \.windows, "All windows.")
    }
}

private struct ShownWindow: ShownObject {
    static let summary = "A window with its current state."
    static let schemaName = "Window"

    let window: OffPeakWindow
    let isOpen: Bool
    let closesAt: Timestamp?
    let opensAt: Timestamp?

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.fields(\.window)
        list.member("open", \.isOpen, "true if the window is open now.")
        list.member("closes_at", \.closesAt, "Time at which the open window closes, or null if it is closed.")
        list.member("opens_at", \.opensAt, "Time of the next opening, or null if there is none.")
    }
}
