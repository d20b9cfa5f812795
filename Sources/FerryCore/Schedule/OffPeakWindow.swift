/// A recurring period that an operator has defined, for discretionary jobs or for another rate. When it is
/// open is decided only here.
package struct OffPeakWindow: Sendable, Equatable {
    /// Name, unique among the windows.
    package var name: String
    /// Times at which it opens.
    package var cron: CronExpression
    /// Seconds of real time for which it stays open.
    package var duration: Double
    /// IANA name of the time zone of `cron`.
    package var timeZone: String
    /// `true` if discretionary jobs start in it.
    package var startsDiscretionary: Bool
    /// Bytes of discretionary jobs that may start in one opening, or `nil` for no limit.
    package var byteCountMax: Int64?
    /// Bytes per second of all nodes together in each direction, instead of the general limits; `nil` to keep
    /// those.
    package var bytesPerSecondMax: Int64?

    /// A period in which the window is open.
    package struct Opening: Sendable, Equatable {
        /// Start.
        package let opensAt: Timestamp
        /// End.
        package let closesAt: Timestamp
    }

    private func recurrence(_ zones: some TimeZoneSource) -> Recurrence? {
        zones.rules(named: timeZone).map { Recurrence(.cron(cron, $0)) }
    }

    /// Returns the opening that contains an instant, the latest one if several do; `nil` if the window is
    /// closed.
    package func opening(at now: Timestamp, _ zones: some TimeZoneSource) -> Opening? {
        guard let start = recurrence(zones)?.latest(through: now, after: now + -duration) else { return nil }
        return Opening(opensAt: start, closesAt: start + duration)
    }

    /// Returns the start of the next opening, or `nil` if there is none.
    package func nextOpening(after now: Timestamp, _ zones: some TimeZoneSource) -> Timestamp? {
        recurrence(zones)?.next(after: now)
    }
}

/// All off-peak windows.
package struct OffPeakWindows: Sendable, Equatable {
    /// The windows.
    package var windows: [OffPeakWindow]

    /// Creates a set.
    package init(_ windows: [OffPeakWindow] = []) { self.windows = windows }

    /// Windows for discretionary jobs. If there are none, such jobs start whenever there is idle capacity.
    package var discretionary: [OffPeakWindow] { windows.filter(\.startsDiscretionary) }

    /// Returns the lowest rate of the open windows, or `nil` if none has one.
    package func bytesPerSecondMax(at now: Timestamp, _ zones: some TimeZoneSource) -> Int64? {
        windows.filter { $0.bytesPerSecondMax != nil && $0.opening(at: now, zones) != nil }
            .compactMap(\.bytesPerSecondMax).min()
    }

    // MARK: JSON

    /// Returns the windows after a merge patch (RFC 7396): `windows` is replaced as a whole, null removes
    /// all.
    package func merging(
        _ patch: JSON, _ zones: some TimeZoneSource
    ) throws(InvalidFields) -> OffPeakWindows {
        let errors = ValidationErrors()
        var result = self
        if var fields = FieldReader(patch, at: "#", errors) {
            if fields.has("windows") {
                result.windows = []
                if fields.hasValue("windows") {
                    let values = fields.array("windows", countMax: Limits.windowCountMax) ?? []
                    for (index, value) in values.enumerated() {
                        let window = OffPeakWindow(value, at: "#/windows/\(index)", errors, zones)
                        if let window { result.windows.append(window) }
                    }
                } else {
                    _ = fields.value("windows")
                }
            }
            fields.finish()
        }
        for (index, window) in result.windows.enumerated()
        where result.windows[..<index].contains(where: { $0.name == window.name }) {
            errors.add("#/windows/\(index)/name", "duplicate", "This occurs twice.")
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        return result
    }

    /// The windows as they are stored.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256 * windows.count + 32)
        writer.beginObject()
        writer.name("windows")
        writer.beginArray()
        for window in windows {
            writer.beginObject()
            window.write(into: &writer)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Returns the windows as the API shows them, with their current state.
    package func view(at now: Timestamp, _ zones: some TimeZoneSource) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 384 * windows.count + 32)
        writer.beginObject()
        writer.name("windows")
        writer.beginArray()
        for window in windows {
            let opening = window.opening(at: now, zones)
            writer.beginObject()
            window.write(into: &writer)
            writer.member("open", opening != nil)
            writer.memberOrNull("closes_at", opening?.closesAt)
            writer.memberOrNull("opens_at", window.nextOpening(after: now, zones))
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Reads `json`; `nil` if it is damaged.
    package init?(storedJSON: [UInt8]) {
        // Stored windows stay valid even if this node does not know their time zone.
        struct AnyZone: TimeZoneSource { func rules(named name: String) -> TimeZoneRules? { .utc } }
        // Why stored windows are damaged does not matter to the caller.
        guard let json = try? JSON.parse(storedJSON),
            // Windows of another form count as damaged.
            let windows = try? OffPeakWindows().merging(json, AnyZone())
        else { return nil }
        self = windows
    }
}

extension OffPeakWindow {
    /// Reads a window; reports errors and returns `nil` if it is invalid.
    fileprivate init?(
        _ json: JSON, at path: String, _ errors: ValidationErrors, _ zones: some TimeZoneSource
    ) {
        guard var fields = FieldReader(json, at: path, errors) else { return nil }
        let before = errors.all.count
        for name in ["name", "cron", "duration"] where !fields.has(name) {
            fields.addError(name, "required", "A window needs a \(name).")
        }
        name = fields.string("name", byteCounts: 1...Limits.nameByteCountMax) ?? ""
        if name.utf8.contains(0) {
            fields.addError("name", "invalid_value", "This must not contain U+0000.")
        }
        duration = fields.number("duration", in: 60...604_800) ?? 60
        timeZone = fields.string("time_zone", byteCounts: 1...Limits.timeZoneByteCountMax) ?? "UTC"
        startsDiscretionary = fields.bool("discretionary") ?? true
        byteCountMax = fields.integer("max_bytes", in: 1...JSON.safeIntegerMax, isNullable: true)
        bytesPerSecondMax = fields.integer(
            "max_bytes_per_second", in: 1...JSON.safeIntegerMax, isNullable: true)
        if zones.rules(named: timeZone) == nil {
            fields.addError(
                "time_zone", "invalid_value", "There is no time zone of this name, such as Europe/Berlin.")
        }
        var expression: CronExpression?
        if let text = fields.string("cron", byteCounts: 1...Limits.cronByteCountMax) {
            do throws(CronExpression.Failure) {
                expression = try CronExpression(text)
                if expression?.canOccur == false {
                    fields.addError("cron", "invalid_value", "There is no such day, in any year.")
                }
            } catch {
                fields.addError("cron", "invalid_value", error.message)
            }
        }
        fields.finish()
        guard let expression, errors.all.count == before else { return nil }
        cron = expression
    }

    fileprivate func write(into writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("cron", cron.text)
        writer.member("duration", duration)
        writer.member("time_zone", timeZone)
        writer.member("discretionary", startsDiscretionary)
        writer.memberOrNull("max_bytes", byteCountMax)
        writer.memberOrNull("max_bytes_per_second", bytesPerSecondMax)
    }
}
