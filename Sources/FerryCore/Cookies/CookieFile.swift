/// Cookies in Netscape's format (`cookies.txt`), which browsers, curl and wget read and write: a line for
/// each cookie, with tabs between domain, subdomains, path, secure, expiry, name and value.
///
/// The format has no `SameSite` and no times of creation. The order of the lines is that of the creation.
public enum CookieFile {
    private static let head = "# Netscape HTTP Cookie File"
    private static let httpOnlyPrefix = Array("#HttpOnly_".utf8)
    private static let tab = UInt8(ascii: "\t")

    /// The lines of a text that are no cookies; never empty.
    public struct Failure: Error, Sendable, Equatable {
        /// Number of a line, from 1, and a sentence for the client.
        public struct Line: Sendable, Equatable {
            public let number: Int
            public let message: String
        }
        /// The first lines with errors, at most as many as a response shows.
        public let lines: [Line]
    }

    /// Returns the text of cookies, the earliest created first. Leaves out names with tabs, which the format
    /// cannot hold.
    public static func text(of cookies: [Cookie]) -> [UInt8] {
        var text = Array("\(head)\n\n".utf8)
        for cookie in cookies.sorted(by: { ($0.createdAt, $0.key) < ($1.createdAt, $1.key) }) {
            guard !cookie.name.contains(tab), !cookie.path.utf8.contains(tab) else { continue }
            if cookie.isHTTPOnly { text += httpOnlyPrefix }
            let seconds = cookie.expiresAt.map { max(1, $0.microseconds / 1_000_000) } ?? 0
            let fields: [String] = [
                (cookie.isHostOnly ? "" : ".") + cookie.domain, flag(!cookie.isHostOnly), cookie.path,
                flag(cookie.isSecure), String(seconds),
            ]
            for field in fields {
                text += field.utf8
                text.append(tab)
            }
            text += cookie.name
            text.append(tab)
            text += cookie.value
            text.append(UInt8(ascii: "\n"))
        }
        return text
    }

    private static func flag(_ isSet: Bool) -> String { isSet ? "TRUE" : "FALSE" }

    /// Reads the cookies of a text in the order of its lines. `now`: their times. Throws all errors at once.
    public static func cookies(in text: [UInt8], now: Timestamp) throws(Failure) -> [Cookie] {
        var (cookies, errors) = ([Cookie](), [Failure.Line]())
        let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() where errors.count < ValidationErrors.countMax {
            do throws(LineError) {
                if let cookie = try cookie(line, now: now) { cookies.append(cookie) }
            } catch {
                errors.append(Failure.Line(number: index + 1, message: error.message))
            }
        }
        guard errors.isEmpty else { throw Failure(lines: errors) }
        return cookies
    }

    private struct LineError: Error { let message: String }

    /// Reads a line; `nil` for an empty one and a comment.
    private static func cookie(_ line: ArraySlice<UInt8>, now: Timestamp) throws(LineError) -> Cookie? {
        var line = line
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        let isHTTPOnly = line.starts(with: httpOnlyPrefix)
        if isHTTPOnly {
            line.removeFirst(httpOnlyPrefix.count)
        } else if line.first == UInt8(ascii: "#") {
            return nil
        }
        if line.allSatisfy({ $0 == 0x20 || $0 == tab }) { return nil }
        let fields = line.split(separator: tab, maxSplits: 6, omittingEmptySubsequences: false)
        guard fields.count >= 6 else {
            throw LineError(
                message: "A cookie has seven fields with tabs between them, this has \(fields.count).")
        }
        let hasSubdomains = try flag(fields[1], "second")
        let cookie = Cookie(
            name: Array(fields[5]), value: fields.count > 6 ? Array(fields[6]) : [],
            domain: Cookie.canonicalDomain(try text(fields[0])), isHostOnly: !hasSubdomains,
            path: try text(fields[2]), expiresAt: try expiry(fields[4]),
            isSecure: try flag(fields[3], "fourth"), isHTTPOnly: isHTTPOnly, createdAt: now,
            lastAccessAt: now)
        do throws(Cookie.Failure) {
            try cookie.check(.installed)
        } catch {
            throw LineError(message: error.message)
        }
        return cookie
    }

    private static func text(_ field: ArraySlice<UInt8>) throws(LineError) -> String {
        guard let text = String(validating: field, as: UTF8.self) else {
            throw LineError(message: "Domain and path must be UTF-8.")
        }
        return text
    }

    private static func flag(_ field: ArraySlice<UInt8>, _ place: String) throws(LineError) -> Bool {
        let text = String(decoding: field, as: UTF8.self)
        if equalIgnoringCase(text, "TRUE") { return true }
        if equalIgnoringCase(text, "FALSE") { return false }
        throw LineError(message: "The \(place) field must be TRUE or FALSE.")
    }

    /// Reads seconds since 1970; 0 means a session cookie.
    private static func expiry(_ field: ArraySlice<UInt8>) throws(LineError) -> Timestamp? {
        guard let seconds = Int64(String(decoding: field, as: UTF8.self)), seconds >= 0 else {
            throw LineError(
                message:
                    "The fifth field must be the expiry in seconds since 1970, or 0 for a session cookie.")
        }
        return seconds == 0 ? nil : Timestamp.distantPast + Double(seconds)
    }
}
