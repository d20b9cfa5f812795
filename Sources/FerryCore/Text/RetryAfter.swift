/// Reads the field `Retry-After` (RFC 9110 §10.2.3), for jobs, hosts and webhooks alike.
package enum RetryAfter {
    /// The largest number of seconds that is returned. Each user has a bound of its own below it.
    static let secondsMax = 9_999_999_999.0

    /// Returns the seconds after `now` that the value asks for, 0 for a date in the past. Returns `nil` if it
    /// is neither a number of seconds nor an HTTP date.
    package static func seconds(_ value: String, now: Timestamp) -> Double? {
        if !value.isEmpty, value.utf8.allSatisfy({ (48...57).contains($0) }) {
            return Double(value).map { min($0, secondsMax) }
        }
        return Timestamp(httpDate: value).map { max(0, $0 - now) }
    }
}

extension Timestamp {
    /// Reads an HTTP date in the form that senders must use (RFC 9110 §5.6.7):
    /// `Sun, 06 Nov 1994 08:49:37 GMT`. `nil` for anything else.
    package init?(httpDate text: String) {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(of: String(words[2])) else {
            return nil
        }
        let number = month + 1 < 10 ? "0\(month + 1)" : "\(month + 1)"
        self.init(rfc3339: "\(words[3])-\(number)-\(words[1])T\(words[4])Z")
    }
}
