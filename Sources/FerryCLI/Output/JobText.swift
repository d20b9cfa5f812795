package import FerryCore

/// Formats bytes: `512 B`, `1.5 KiB`, `20.0 GiB`.
package func byteCountText(_ count: Int64) -> String {
    guard count >= 1_024 else { return "\(count) B" }
    var value = Double(count)
    var unit = ""
    for next in ["KiB", "MiB", "GiB", "TiB"] where value >= 1_023.95 || unit.isEmpty {
        value /= 1_024
        unit = next
    }
    let tenths = Int64((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(unit)"
}

/// Formats seconds: `00:05`, `12:34`, `5:02:03`.
package func durationText(_ seconds: Double) -> String {
    let total = Int64(min(max(seconds, 0), 1e12).rounded(.up))
    let two: (Int64) -> String = { $0 < 10 ? "0\($0)" : "\($0)" }
    let (hours, minutes) = (total / 3_600, total / 60 % 60)
    return (hours > 0 ? "\(hours):" : "") + "\(two(minutes)):\(two(total % 60))"
}

/// Returns one line about a job's progress of at most `width` columns: bar, bytes, rate, remaining time; or
/// what a job that does not run waits for. `counter`: has taken the bytes of `job`; `nil` shows them as they
/// are.
package func progressLine(
    _ job: JSON, width: Int, counter: ByteCounter? = nil, wait: WaitTime? = nil
) -> String {
    guard job["state"]?.string == "running", let progress = job["progress"] else {
        return String(waitingText(job, wait).prefix(max(width - 1, 1)))
    }
    let isUpload = job["kind"]?.string == "upload"
    let moved = progress[isUpload ? "bytes_sent" : "bytes_received"]?.integer ?? 0
    let done = counter?.byteCount ?? moved
    let expected = progress[isUpload ? "bytes_expected_to_send" : "bytes_expected_to_receive"]?.integer
    var parts: [String] = []
    let fraction =
        (done == moved ? progress["fraction_completed"]?.double : nil)
        ?? expected.flatMap { $0 > 0 ? Double(done) / Double($0) : nil }
    if let fraction { parts.append("\(Int((min(max(fraction, 0), 1) * 100).rounded(.down))) %") }
    parts.append(byteCountText(done) + (expected.map { " of \(byteCountText($0))" } ?? ""))
    if let rate = progress["bytes_per_second"]?.double, rate > 0 {
        parts.append("\(byteCountText(Int64(min(rate, 1e18))))/s")
    }
    if let left = progress["seconds_remaining"]?.double { parts.append("\(durationText(left)) left") }
    if counter?.hasBegunAgain == true { parts.append("begun again") }
    let text = parts.joined(separator: "  ")
    let barWidth = min(40, width - 1 - text.count - 4)
    guard let fraction, barWidth >= 8 else { return String(text.prefix(max(width - 1, 1))) }
    let filled = Int((Double(barWidth) * min(max(fraction, 0), 1)).rounded(.down))
    let bar = String(repeating: "=", count: filled) + String(repeating: " ", count: barWidth - filled)
    return "[\(bar)]  \(text)"
}

/// Returns a message about a job that did not succeed.
func failureText(_ job: JSON) -> String {
    let id = job["id"]?.string ?? "The job"
    let state = job["state"]?.string ?? "failed"
    guard let error = job["error"], let message = error["message"]?.string else { return "\(id) \(state)." }
    let code = error["code"]?.string ?? "unknown"
    let phase = error["phase"]?.string.map { ", while \($0)" } ?? ""
    return printable("\(id) \(state): \(message) (\(code)\(phase))")
}

/// Returns the lines of `show`: a name and a value each, without missing values. The further lines of the
/// response have no name.
func jobLines(_ job: JSON, now: Timestamp) -> [String] {
    let progress = job["progress"]
    let bytes: (JSON?) -> String? = { $0?.integer.flatMap { $0 > 0 ? byteCountText($0) : nil } }
    let rows: [(String, String?)] = [
        ("job", job["id"]?.string),
        ("state", job["state"]?.string),
        ("waiting for", waitingDetail(job, now: now) ?? job["waiting_for"]?.string),
        ("kind", job["kind"]?.string),
        ("url", job["request"]?["url"]?.string),
        ("session", job["session"]?.string),
        ("description", job["description"]?.string),
        ("created", job["created_at"]?.string),
        ("started", job["started_at"]?.string),
        ("finished", job["finished_at"]?.string),
        ("acknowledged", job["acknowledged_at"]?.string),
        ("next attempt", job["next_attempt_at"]?.string),
        ("attempt", job["attempt"]?.integer.map { "\($0)" }),
        ("node", job["node"]?.string),
        ("received", bytes(progress?["bytes_received"])),
        ("sent", bytes(progress?["bytes_sent"])),
        ("status", job["response"]?["status"]?.integer.map { "\($0)" }),
        ("path", job["result"]?["path"]?.string),
        ("size", job["result"]?["size"]?.integer.map { "\($0)" }),
        ("sha256", job["result"]?["sha256"]?.string),
        ("content", job["result"]?["content_url"]?.string),
        ("error", job["error"]?["message"]?.string),
        ("error code", job["error"]?["code"]?.string),
        ("retry of", job["retry_of"]?.string),
        ("retried by", job["retried_by"]?.string),
    ]
    let excerpt = job["response"]?["body_excerpt"]?.string?.split(whereSeparator: \.isNewline) ?? []
    return rows.compactMap { name, value in value.map { "\(name):".padded(to: 14) + $0 } }
        + excerpt.enumerated().map { ($0 == 0 ? "response:" : "").padded(to: 14) + $1 }
}

extension String {
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - count))
    }
}

/// Formats rows for a terminal (aligned, with a heading, cut to its width), or for other programs (separated
/// by tabs, without a heading).
func tableLines(_ heading: [String], _ rows: [[String]], terminalWidth: Int?) -> [String] {
    let rows = rows.map { $0.map { printable($0) } }
    guard let terminalWidth else { return rows.map { $0.joined(separator: "\t") } }
    let all = [heading.map { printable($0) }] + rows
    let widths = heading.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    return all.map { row in
        let line = row.enumerated().map { $1.padded(to: widths[$0]) }.joined(separator: "  ")
        let end = line.lastIndex { $0 != " " }.map { line.index(after: $0) } ?? line.startIndex
        return String(line[..<end].prefix(terminalWidth))
    }
}
