/// Placeholders in a schedule's job for the time of a run: `{scheduled_at}` and its parts, by the wall clock
/// of the schedule's time zone.
public enum ScheduledText {
    private static let opening = "{scheduled_at"
    /// Words that may follow the colon; empty for a placeholder without colon.
    private static let parts = ["", "date", "time", "year", "month", "day", "hour", "minute", "unix"]

    /// Returns `true` if the text contains a placeholder.
    public static func hasPlaceholder(_ text: String) -> Bool { text.contains(opening) }

    /// Returns the text of one run, or `nil` if a placeholder is unknown.
    public static func expanded(_ text: String, at instant: Timestamp, _ zone: TimeZoneRules) -> String? {
        guard hasPlaceholder(text) else { return text }
        var pieces = ArraySlice(text.split(separator: "{", omittingEmptySubsequences: false))
        var expanded = String(pieces.removeFirst())
        for piece in pieces {
            guard piece.hasPrefix(opening.dropFirst()) else {
                expanded += "{" + piece
                continue
            }
            guard let end = piece.firstIndex(of: "}"),
                let value = value(piece[..<end].dropFirst(opening.count - 1), instant, zone)
            else { return nil }
            expanded += value + piece[piece.index(after: end)...]
        }
        return expanded
    }

    /// Returns the value of a placeholder. `suffix`: the text between `scheduled_at` and the brace.
    private static func value(_ suffix: Substring, _ instant: Timestamp, _ zone: TimeZoneRules) -> String? {
        var part = ""
        if !suffix.isEmpty {
            guard suffix.first == ":", suffix.count > 1 else { return nil }
            part = String(suffix.dropFirst())
        }
        guard parts.contains(part) else { return nil }
        let second = CivilCalendar.floorDivide(instant.microseconds, 1_000_000)
        if part == "unix" { return "\(second)" }
        // Digits of RFC 3339: in UTC for the whole time, in local time for its parts.
        let isWhole = part.isEmpty
        let shown = isWhole ? second : second + zone.offset(at: second)
        let digits = Timestamp(microseconds: shown * 1_000_000).utf8.map { Character(Unicode.Scalar($0)) }
        let range: (Int, Int) -> String = { String(digits[$0..<$1]) }
        switch part {
        case "date": return range(0, 10)
        case "time": return range(11, 13) + range(14, 16) + range(17, 19)
        case "year": return range(0, 4)
        case "month": return range(5, 7)
        case "day": return range(8, 10)
        case "hour": return range(11, 13)
        case "minute": return range(14, 16)
        default:
            return range(0, 4) + range(5, 7) + range(8, 13) + range(14, 16) + range(17, 19) + "Z"
        }
    }

    /// Sentence that names the placeholders.
    static var knownPlaceholders: String {
        let names = parts.dropFirst().map { "{scheduled_at:\($0)}" }.joined(separator: ", ")
        return "The placeholders are {scheduled_at}, \(names)."
    }

    /// Returns why a URL or path cannot be a template, or `nil` if it can.
    public static func error(in text: String, isURL: Bool) -> String? {
        guard hasPlaceholder(text) else { return nil }
        if expanded(text, at: Timestamp(microseconds: 0), .utc) == nil { return knownPlaceholders }
        // The origin must stay the same, so that credentials are not sent to another one.
        let host = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).prefix(3)
        if isURL, host.contains(where: { $0.contains("{") }) {
            return "Placeholders are possible in a URL's path and query."
        }
        return nil
    }
}

extension ScheduledText {
    /// Returns the body of one run, or `nil` if a placeholder is unknown. Only texts, JSON and forms have
    /// placeholders; in a form they are percent-encoded.
    static func expanded(
        _ payload: [UInt8], _ form: JobSpec.Body.Form, at instant: Timestamp, _ zone: TimeZoneRules
    ) -> [UInt8]? {
        let text = String(decoding: payload, as: UTF8.self)
        switch form {
        case .text, .json:
            guard hasPlaceholder(text) else { return payload }
            return expanded(text, at: instant, zone).map { Array($0.utf8) }
        case .form:
            let encoded = percentEncoded(opening)
            guard text.contains(encoded) else { return payload }
            // Values of placeholders have no characters that a form would encode.
            var pieces = ArraySlice(text.split(separator: encoded, omittingEmptySubsequences: false))
            var expanded = String(pieces.removeFirst())
            for piece in pieces {
                guard let end = piece.firstRange(of: percentEncoded("}")) else { return nil }
                let suffix = piece[..<end.lowerBound].replacing(percentEncoded(":"), with: ":")
                guard let value = value(suffix[...], instant, zone) else { return nil }
                expanded += value + piece[end.upperBound...]
            }
            return Array(expanded.utf8)
        case .base64, .multipart: return payload
        }
    }

    /// Returns a percent-encoded text with its placeholders as they were before it was encoded.
    static func withPlaceholders(percentEncoded text: String) -> String {
        parts.reduce(text) { text, part in
            let placeholder = part.isEmpty ? "\(opening)}" : "\(opening):\(part)}"
            return text.replacing(percentEncoded(placeholder), with: placeholder)
        }
    }

    private static func percentEncoded(_ text: String) -> String {
        String(decoding: formEncoded([JobSpec.Pair(text, "")]).dropLast(), as: UTF8.self)
    }
}

extension JobRequest {
    /// Returns the job of one run, with this request as its template; `nil` if its URL or its group is not
    /// valid.
    public func instance(of occurrence: ScheduleOccurrence, _ zone: TimeZoneRules) -> JobRequest? {
        guard let spec = spec.instance(of: occurrence, zone) else { return nil }
        var request = JobRequest(spec, secrets, payload: payload)
        guard let body = spec.request.body, let payload else { return request }
        guard
            let expanded = ScheduledText.expanded(payload, body.form, at: occurrence.scheduledAt, zone)
        else { return nil }
        request.payload = expanded
        if body.form != .multipart { request.spec.request.body?.byteCount = expanded.count }
        return request
    }
}

extension JobSpec {
    /// Returns the job of one run, with this spec as its template; `nil` if its URL or its group is not
    /// valid.
    func instance(of occurrence: ScheduleOccurrence, _ zone: TimeZoneRules) -> JobSpec? {
        var spec = self
        let instant = occurrence.scheduledAt
        guard let text = ScheduledText.expanded(request.url, at: instant, zone),
            // An invalid URL is the `nil` of the result; its reason is of no use to the caller.
            let url = try? WebURL.parse(text)
        else { return nil }
        spec.request.target = RequestURL(url)
        for place in [\JobSpec.sourceObject, \JobSpec.destinationObject] {
            guard let key = self[keyPath: place]?.key, ScheduledText.hasPlaceholder(key) else { continue }
            guard let expanded = ScheduledText.expanded(key, at: instant, zone) else { return nil }
            spec[keyPath: place]?.key = expanded
        }
        if let url = serverURL, ScheduledText.hasPlaceholder(url) {
            // As above.
            guard let expanded = ScheduledText.expanded(url, at: instant, zone),
                let valid = try? WebURL.parse(expanded)
            else { return nil }
            spec.serverURL = valid.string
        }
        if let path = destination?.path {
            guard let expanded = ScheduledText.expanded(path, at: instant, zone) else { return nil }
            spec.destination?.path = expanded
        }
        if let group {
            guard let name = ScheduledText.expanded(group, at: instant, zone), GroupName.isValid(name) else {
                return nil
            }
            spec.group = name
        }
        if metadata.contains(where: { ScheduledText.hasPlaceholder($0.value) }) {
            for (index, pair) in metadata.enumerated() {
                guard let value = ScheduledText.expanded(pair.value, at: instant, zone) else { return nil }
                spec.metadata[index] = Pair(pair.name, value)
            }
        }
        spec.occurrence = occurrence
        return spec
    }
}
