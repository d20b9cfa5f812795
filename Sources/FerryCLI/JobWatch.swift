import FerryCore
import Glibc
import Sys

/// Waits for jobs and shows how far they are.
struct JobWatch {
    let service: ServiceClient
    let console: Console
    /// Monotonic nanoseconds; nil waits for ever.
    private let deadline: Int64?
    private let timeout: Double?

    /// Seconds for which the service may stay away before waiting is given up: a restart is shorter.
    private static let outageMax: Int64 = 15

    init(service: ServiceClient, console: Console, timeout: Double?) {
        self.service = service
        self.console = console
        self.timeout = timeout
        deadline = timeout.map { monotonicNanoseconds() + Int64(min($0, 1e9) * 1e9) }
    }

    private var showsProgress: Bool { console.errIsTerminal && console.isCapable }

    /// The job once it has ended. Ctrl-C leaves it running and ends this process with status 130.
    ///
    /// Throws `timedOut` when the time is over, `unreachable` when the service stays away.
    func end(of id: String) throws(ClientFailure) -> ServiceClient.Answer {
        Detachment.arm(ids: [id])
        defer { clearLine() }
        var lastContact = monotonicNanoseconds()
        while true {
            let begin = monotonicNanoseconds()
            do throws(ClientFailure) {
                let answer = try service.send("GET", "/v1/jobs/\(percentEncoded(id))", wait: patience())
                lastContact = monotonicNanoseconds()
                if let state = answer.json["state"]?.string, JobState(rawValue: state)?.isTerminal == true {
                    return answer
                }
                show(answer.json)
            } catch {
                let away = (monotonicNanoseconds() - lastContact) / 1_000_000_000
                guard error.kind == .unreachable, away < Self.outageMax else { throw error }
            }
            if let deadline, monotonicNanoseconds() >= deadline {
                throw ClientFailure(
                    .timedOut,
                    "\(id) has not ended after \(timeout ?? 0) s; it goes on. Watch it: ferry watch \(id)")
            }
            // An answer that came at once although the job goes on: not faster than this.
            if monotonicNanoseconds() - begin < 250_000_000 { poll(nil, 0, 250) }
        }
    }

    /// Seconds for one `Prefer: wait`.
    private func patience() -> Int {
        let longest = showsProgress ? 1.0 : 25.0
        guard let deadline else { return Int(longest) }
        let left = Double(deadline - monotonicNanoseconds()) / 1e9
        return max(1, Int(min(longest, left).rounded(.up)))
    }

    private func show(_ job: JSON) {
        guard showsProgress else { return }
        console.err("\r\u{1B}[K\(progressLine(job, width: console.width()))")
    }

    private func clearLine() {
        if showsProgress { console.err("\r\u{1B}[K") }
    }
}

/// What Ctrl-C means while a command waits: the command ends, the job does not.
enum Detachment {
    static func arm(ids: [String]) {
        let list = ids.joined(separator: " ")
        let text = Array("\nDetached: the job goes on. Watch it again: ferry watch \(list)\n".utf8)
        let message = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.count)
        _ = message.initialize(from: text)
        // The old text stays: a handler may be writing it.
        detachMessage = message
        signal(SIGINT, detach)
    }

    /// Ctrl-C ends the process again as it always does.
    static func disarm() { signal(SIGINT, SIG_DFL) }
}

// Written before the handler is installed, read by it only.
private nonisolated(unsafe) var detachMessage: UnsafeMutableBufferPointer<UInt8>?

/// Only what signal-safety(7) allows.
private func detach(_ number: Int32) {
    if let message = detachMessage { _ = write(STDERR_FILENO, message.baseAddress, message.count) }
    _exit(130)
}
