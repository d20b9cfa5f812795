package import FerryCore
import Glibc
import Synchronization
import Sys

/// The lines of a terminal that show jobs while a command waits for them, one line for each row. The seconds
/// of jobs that do not run are counted on a thread of its own. Any thread.
final class ProgressDisplay: Sendable {
    private struct Row {
        /// Text before the progress; empty if there is one job only.
        var title = ""
        var job = JSON.null
        var counter = ByteCounter()
        /// State and reason of the job, and when they were seen first, in monotonic nanoseconds.
        var reason = ""
        var since: Int64 = 0
    }
    private struct State {
        var rows: [Int: Row] = [:]
        /// Lines on the terminal; the cursor is in the last one.
        var drawnCount = 0
    }

    /// Lines that fit on a terminal of 24 lines.
    private static let lineCountMax = 16

    let console: Console
    private let state = Mutex(State())
    private let box = Mailbox<Void>()
    private let thread = Mutex<Thread?>(nil)

    init(_ console: Console) { self.console = console }

    private var isShown: Bool { console.errIsTerminal && console.isCapable }

    /// Shows the job in the row with this number. Does nothing if standard error is no terminal.
    func show(_ job: JSON, inRow number: Int, title: String) {
        guard isShown else { return }
        state.withLock { state in
            var row = state.rows[number] ?? Row()
            let words = [job["state"], job["waiting_for"], job["waiting_reason"]?["code"]]
            let reason = words.map { $0?.string ?? "" }.joined(separator: " ")
            if reason != row.reason { (row.reason, row.since) = (reason, monotonicNanoseconds()) }
            // The counter belongs to one job.
            if row.job["id"] != job["id"] || row.title != title { row.counter = ByteCounter() }
            (row.job, row.title) = (job, title)
            if job["state"]?.string == "running", let progress = job["progress"] {
                row.counter.take(progress, isUpload: job["kind"]?.string == "upload")
            }
            state.rows[number] = row
            draw(&state)
        }
        thread.withLock { thread in
            if thread == nil { thread = Thread(name: "ferry-line") { [weak self] in self?.count() } }
        }
    }

    /// Removes a row.
    func remove(row number: Int) {
        state.withLock { state in
            guard state.rows.removeValue(forKey: number) != nil else { return }
            draw(&state)
        }
    }

    /// Writes a message above the rows.
    func message(_ text: String) {
        state.withLock { state in
            erase(&state)
            console.message(text)
            draw(&state)
        }
    }

    /// Clears the lines. The display shows nothing afterwards.
    func end() {
        box.close()
        guard let thread = thread.withLock({ $0.take() }) else { return }
        thread.join()
        state.withLock { state in
            state.rows = [:]
            erase(&state)
        }
    }

    private func count() {
        while !box.isClosed {
            _ = box.wait(milliseconds: 1_000)
            guard !box.isClosed else { return }
            state.withLock { state in
                if state.rows.values.contains(where: { $0.job["state"]?.string != "running" }) {
                    draw(&state)
                }
            }
        }
    }

    private func draw(_ state: inout State) {
        let rows = state.rows.sorted { $0.key < $1.key }.prefix(Self.lineCountMax).map { line($0.value) }
        if rows.count != state.drawnCount { erase(&state) }
        let up = state.drawnCount > 1 ? "\u{1B}[\(state.drawnCount - 1)A" : ""
        let lines = rows.map { "\r\u{1B}[K\(printable($0))" }
        if !lines.isEmpty { console.err(up + lines.joined(separator: "\n")) }
        state.drawnCount = rows.count
    }

    private func erase(_ state: inout State) {
        guard state.drawnCount > 0 else { return }
        let up = state.drawnCount > 1 ? "\u{1B}[\(state.drawnCount - 1)A\r\u{1B}[J" : "\r\u{1B}[K"
        console.err(up)
        state.drawnCount = 0
    }

    private func line(_ row: Row) -> String {
        let waited = Double(monotonicNanoseconds() - row.since) / 1e9
        let title = row.title.isEmpty ? "" : "\(row.title.prefix(24))  "
        return title
            + progressLine(
                row.job, width: max(2, console.width() - title.count), counter: row.counter,
                wait: WaitTime(now: Timestamp(microseconds: wallMicroseconds()), waitedSeconds: waited))
    }
}

/// A row of a display.
struct ProgressRow: Sendable {
    let display: ProgressDisplay
    var number = 0
    /// Text before the progress; empty if there is one job only.
    var title = ""

    init(_ display: ProgressDisplay) { self.display = display }

    init(_ display: ProgressDisplay, number: Int, title: String) {
        self.display = display
        self.number = number
        self.title = title
    }

    /// Shows the job.
    func show(_ job: JSON) { display.show(job, inRow: number, title: title) }
}

/// The time of a line about a job that does not run.
package struct WaitTime {
    let now: Timestamp
    /// Seconds for which the job is known to wait for the same reason.
    let waitedSeconds: Double

    /// Creates a time.
    package init(now: Timestamp, waitedSeconds: Double) {
        self.now = now
        self.waitedSeconds = waitedSeconds
    }
}

/// Returns what a job that does not run waits for: the state, the cause, the attempt, and the seconds until
/// the next one, or since the job waits. `wait`: `nil` if the times do not matter.
func waitingText(_ job: JSON, _ wait: WaitTime?) -> String {
    let error = job["error"]
    let code = error?["code"]?.string
    let detail =
        wait.flatMap { waitingDetail(job, now: $0.now) } ?? job["waiting_reason"]?["detail"]?.string
        ?? job["waiting_for"]?.string
    var parts: [String] = []
    if let code { parts.append(code) }
    if code != nil, let number = job["attempt"]?.integer {
        let most = job["retry"]?["max_attempts"]?.integer
        // Attempts that use up none are numbered too.
        let total = most.map { number <= $0 ? " of \($0)" : " (\($0) may fail)" } ?? ""
        parts.append("attempt \(number)\(total)")
    }
    if let wait {
        let next = (job["next_attempt_at"]?.string ?? job["waiting_reason"]?["next_check_at"]?.string)
            .flatMap { Timestamp(rfc3339: $0) }
        let seconds = next.map { $0 - wait.now } ?? 0
        parts.append(
            seconds > 0
                ? "next in \(Int64(min(seconds, 1e12).rounded(.up))) s"
                : "for \(Int64(wait.waitedSeconds.rounded(.down))) s")
    }
    let heading = ([job["state"]?.string ?? "?"] + (parts.isEmpty ? [] : [parts.joined(separator: ", ")]))
    return (heading + [error?["message"]?.string ?? detail].compactMap(\.self)).joined(separator: ": ")
}
