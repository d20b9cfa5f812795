package import FerryCore
import Glibc

// Tables of jobs, and texts in their cells.

/// Returns why a job does not run or has failed, as a code; `nil` if it runs or has succeeded.
func reasonCode(_ job: JSON) -> String? {
    if let code = job["waiting_reason"]?["code"]?.string { return code }
    return job["state"]?.string == "running" ? nil : job["error"]?["code"]?.string
}

/// Rows of a table of jobs that is as wide as a terminal: identifier, state, age, reason, host and path.
struct JobTable {
    static let heading = ["JOB", "STATE", "AGE", "REASON", "HOST AND PATH"]

    let rows: [[String]]

    /// Cuts the column of host and path, so that the others fit into `width`.
    init(_ jobs: [JSON], now: Timestamp, width: Int) {
        let others = jobs.map { job in
            [
                job["id"]?.string ?? "", job["state"]?.string ?? "",
                job["created_at"]?.string.flatMap { Timestamp(rfc3339: $0) }.map { ageText(now - $0) } ?? "-",
                reasonCode(job) ?? "-",
            ]
        }
        let taken = Self.heading.indices.dropLast().reduce(0) { sum, column in
            sum + 2 + (others.map { $0[column].count } + [Self.heading[column].count]).reduce(0, max)
        }
        rows = zip(jobs, others).map { job, cells in
            cells + [placeText(job["request"]?["url"]?.string ?? "", width: max(1, width - taken))]
        }
    }
}

/// Formats the age of a job with one unit: `7s`, `12m`, `5h`, `3d`.
package func ageText(_ seconds: Double) -> String {
    let seconds = Int64(min(max(seconds, 0), 1e12))
    switch seconds {
    case ..<60: return "\(seconds)s"
    case ..<3_600: return "\(seconds / 60)m"
    case ..<86_400: return "\(seconds / 3_600)h"
    default: return "\(seconds / 86_400)d"
    }
}

/// Returns host and path of a URL in at most `width` columns. If they are longer, the path keeps its end, and
/// the host its beginning.
package func placeText(_ url: String, width: Int) -> String {
    let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? url[...]
    let whole = String(rest.prefix { $0 != "?" && $0 != "#" })
    guard whole.count > width else { return whole }
    let host = whole.prefix { $0 != "/" }
    let path = whole.dropFirst(host.count)
    let hostWidth = max(width - path.count, min(host.count, width - width / 2))
    let pathWidth = width - min(host.count, hostWidth)
    // One mark for what is left out.
    return path.count <= pathWidth
        ? cut(String(host), to: hostWidth) + path
        : host.prefix(hostWidth) + endText(String(path), width: pathWidth)
}

private func endText(_ text: String, width: Int) -> String {
    text.count <= width ? text : width < 1 ? "" : "…" + text.suffix(width - 1)
}

/// Returns the beginning of a text in at most `width` columns.
func cut(_ text: String, to width: Int) -> String {
    text.count <= width ? text : width < 1 ? "" : text.prefix(width - 1) + "…"
}

/// Returns an origin without its scheme, and without the scheme's own port.
func hostText(_ origin: String) -> String {
    for (scheme, port) in [("https://", ":443"), ("http://", ":80")] where origin.hasPrefix(scheme) {
        let host = origin.dropFirst(scheme.count)
        return String(host.hasSuffix(port) ? host.dropLast(port.count) : host)
    }
    return origin
}

/// Formats a time for people: `23:14:05`, on another day than `now` with the date. `offset`: seconds from UTC
/// to the local time; `nil` takes those of the time zone of the process.
package func clockText(_ time: Timestamp, now: Timestamp, offset: Int64? = nil) -> String {
    func local(_ time: Timestamp) -> String {
        var seconds = time_t(time.microseconds / 1_000_000)
        var parts = tm()
        if let offset {
            seconds += time_t(offset)
            gmtime_r(&seconds, &parts)
        } else {
            localtime_r(&seconds, &parts)
        }
        let two = { (number: Int32) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1_900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday)) "
            + "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
    }
    let (text, today) = (local(time), local(now))
    let date = text.prefix { $0 != " " }
    return date == today.prefix { $0 != " " } ? String(text.dropFirst(date.count + 1)) : text
}

/// Returns why a job waits, as a sentence with times in place of the names of fields; `nil` if it does not
/// wait.
package func waitingDetail(_ job: JSON, now: Timestamp, offset: Int64? = nil) -> String? {
    guard var text = job["waiting_reason"]?["detail"]?.string else { return nil }
    for (name, value) in [
        ("next_attempt_at", job["next_attempt_at"]),
        ("next_check_at", job["waiting_reason"]?["next_check_at"]),
        ("earliest_begin_at", job["schedule"]?["earliest_begin_at"]),
    ] {
        guard let time = value?.string.flatMap({ Timestamp(rfc3339: $0) }) else { continue }
        text.replace(name, with: clockText(time, now: now, offset: offset))
    }
    return text
}
