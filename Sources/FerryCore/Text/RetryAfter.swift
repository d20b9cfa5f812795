/// Reads the field `Retry-After` (RFC 9110 §10.2.3), for jobs, hosts and webhooks alike.
public enum RetryAfter {
    /// The largest number of seconds that is returned.
    public static let secondsMax = 86_400.0

    /// Returns the seconds after `now` that the values of all lines ask for: the largest of them, 0 for a
    /// date in the past. A fraction of a second is rounded up. Elements that are neither a number of seconds
    /// nor an HTTP date do not count; `nil` if there is no other.
    public static func seconds(_ values: [String], now: Timestamp) -> Double? {
        values.flatMap { elements(of: $0, now: now) }.max().map { min($0, secondsMax) }
    }

    /// Returns the seconds of each readable element of a list.
    private static func elements(of value: String, now: Timestamp) -> [Double] {
        let parts = value.split(separator: ",")
        var seconds: [Double] = []
        var index = 0
        while index < parts.count {
            // A date may have a comma after its weekday.
            let pair = index + 1 < parts.count ? "\(parts[index]),\(parts[index + 1])" : nil
            if let number = number(parts[index]) {
                seconds.append(number)
            } else if let date = pair.flatMap({ Timestamp(httpDate: $0, now: now) }) {
                seconds.append(max(0, date - now))
                index += 1
            } else if let date = Timestamp(httpDate: String(parts[index]), now: now) {
                seconds.append(max(0, date - now))
            }
            index += 1
        }
        return seconds
    }

    /// Reads digits with an optional fraction.
    private static func number(_ text: Substring) -> Double? {
        let text = text.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let end = text.lastIndex { $0 != 0x20 && $0 != 0x09 }.map { text.index(after: $0) } ?? text.startIndex
        let parts = text[..<end].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count),
            parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { (48...57).contains($0) } })
        else { return nil }
        return Double(Substring(text[..<end])).map { $0.rounded(.up) }
    }
}
