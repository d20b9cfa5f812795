package import FerryCore
import Glibc
import Synchronization
import Sys

/// The line of a terminal that shows a job while a command waits for it. The seconds of a job that does not
/// run are counted on a thread of its own. Any thread.
final class ProgressDisplay: Sendable {
    private struct State {
        var job = JSON.null
        var counter = ByteCounter()
        /// State and reason of the job, and when they were seen first, in monotonic nanoseconds.
        var reason = ""
        var since: Int64 = 0
    }

    private let console: Console
    private let state = Mutex(State())
    private let box = Mailbox<Void>()
    private let thread = Mutex<Thread?>(nil)

    init(_ console: Console) { self.console = console }

    /// Shows the job. Does nothing if standard error is no terminal.
    func show(_ job: JSON) {
        guard console.errIsTerminal, console.isCapable else { return }
        state.withLock { state in
            let words = [job["state"], job["waiting_for"], job["waiting_reason"]?["code"]]
            let reason = words.map { $0?.string ?? "" }.joined(separator: " ")
            if reason != state.reason { (state.reason, state.since) = (reason, monotonicNanoseconds()) }
            state.job = job
            if job["state"]?.string == "running", let progress = job["progress"] {
                state.counter.take(progress, isUpload: job["kind"]?.string == "upload")
            }
            draw(state)
        }
        thread.withLock { thread in
            if thread == nil { thread = Thread(name: "ferry-line") { [weak self] in self?.count() } }
        }
    }

    /// Clears the line. The display shows nothing afterwards.
    func end() {
        box.close()
        guard let thread = thread.withLock({ $0.take() }) else { return }
        thread.join()
        console.err("\r\u{1B}[K")
    }

    private func count() {
        while !box.isClosed {
            _ = box.wait(milliseconds: 1_000)
            guard !box.isClosed else { return }
            state.withLock { state in
                if state.job["state"]?.string != "running" { draw(state) }
            }
        }
    }

    private func draw(_ state: State) {
        let waited = Double(monotonicNanoseconds() - state.since) / 1e9
        let line = progressLine(
            state.job, width: console.width(), counter: state.counter,
            wait: WaitTime(now: Timestamp(microseconds: wallMicroseconds()), waitedSeconds: waited))
        console.err("\r\u{1B}[K\(printable(line))")
    }
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
