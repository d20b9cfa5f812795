import FerryCore
import Glibc
import Sys

/// Waits for jobs and shows their progress.
struct JobWatch {
    let service: ServiceClient
    let console: Console
    /// Monotonic nanoseconds; `nil` for no limit.
    private let deadline: Int64?
    private let timeout: Double?

    /// Seconds for which the service may be unreachable: longer than a restart.
    private static let outageMax: Int64 = 15
    /// Seconds after which the stream is opened again: a lost connection may not be noticed.
    private static let streamSeconds = 60.0

    /// `timeout`: seconds, checked by `WaitOptions.check`.
    init(service: ServiceClient, console: Console, timeout: Double?) {
        self.service = service
        self.console = console
        self.timeout = timeout
        deadline = timeout.map { monotonicNanoseconds() + Int64($0 * 1e9) }
    }

    /// Returns the message of a signal that ends the process while these jobs continue.
    static func detached(_ ids: [String]) -> String {
        "Detached: \(ids.count == 1 ? "the job continues" : "the jobs continue"). "
            + "To wait again: ferry watch \(ids.joined(separator: " "))"
    }

    /// Follows the event stream of a job until it has ended, and returns the job. A signal such as Ctrl-C
    /// ends this process; the job and `others` continue, and the message names them.
    ///
    /// Throws `timedOut` if the timeout passes, `unreachable` if the service is unreachable for too long.
    func end(of id: String, others: [String] = []) throws(ClientFailure) -> ServiceClient.Response {
        Interruption.arm(Self.detached([id] + others))
        let display = ProgressDisplay(console)
        defer { display.end() }
        return try end(of: id, on: ProgressRow(display))
    }

    /// Like `end(of:others:)`, with the progress in a row of the caller, who also sets the message for
    /// signals.
    func end(of id: String, on row: ProgressRow) throws(ClientFailure) -> ServiceClient.Response {
        var reader = EventStreamReader(lastEventID: nil)
        let seen = SeenJob()
        var awaySince: Int64?
        while true {
            let begin = monotonicNanoseconds()
            do throws(ClientFailure) {
                if let response = try step(id, seen, row, &reader) { return response }
                awaySince = nil
            } catch {
                let since = awaySince ?? begin
                awaySince = since
                let away = (monotonicNanoseconds() - since) / 1_000_000_000
                guard error.kind == .unreachable, away < Self.outageMax else { throw error }
            }
            if let deadline, monotonicNanoseconds() >= deadline {
                throw ClientFailure(
                    .timedOut,
                    "\(id) continues after \(timeout ?? 0) s. To wait again: ferry watch \(id)")
            }
            // A limit on the rate of streams that end at once although the job has not ended.
            if monotonicNanoseconds() - begin < 250_000_000 { poll(nil, 0, 250) }
        }
    }

    /// Follows the stream once, after the last event. Returns `nil` if the job has not ended.
    private func step(
        _ id: String, _ seen: SeenJob, _ row: ProgressRow, _ reader: inout EventStreamReader
    ) throws(ClientFailure) -> ServiceClient.Response? {
        let path = "/v1/jobs/\(percentEncoded(id))"
        let end = try service.follow(path + "/events", &reader, milliseconds: waitTime(Self.streamSeconds)) {
            event in
            let isOver = seen.apply(event)
            if !isOver { row.show(seen.job) }
            return !isOver
        }
        switch end {
        case .broken: return nil
        case .refused(let status, let body):
            let failure = ServiceClient.failure(status, body)
            // A tenant has a limited number of streams on a node. Beyond that, the job is requested.
            guard status == 429 || status == 503 else { throw failure }
            return try ended(service.send("GET", path, wait: waitTime(25) / 1_000), row)
        case .stopped, .over: return try ended(service.send("GET", path), row)
        }
    }

    private func ended(
        _ response: ServiceClient.Response, _ row: ProgressRow
    ) -> ServiceClient.Response? {
        if hasEnded(response.json) { return response }
        row.show(response.json)
        return nil
    }

    /// Returns milliseconds to wait: at least 1,000, and no longer than the remaining time.
    private func waitTime(_ seconds: Double) -> Int {
        guard let deadline else { return Int(seconds * 1_000) }
        let left = Double(deadline - monotonicNanoseconds()) / 1e9
        return max(1, Int(min(seconds, left).rounded(.up))) * 1_000
    }
}

/// A job, updated by the events of its stream.
private final class SeenJob {
    private(set) var job = JSON.null

    /// Applies an event. Returns `true` if the job has ended.
    func apply(_ event: ServerSentEvent) -> Bool {
        // A malformed event is skipped; the end of the stream leads to a request for the job.
        guard let json = try? JSON.parse(event.data) else { return false }
        switch event.name {
        case "snapshot": job = json["job"] ?? job
        case "progress":
            guard let progress = json["progress"] else { return false }
            job = job.merged(with: .object([JSON.Member("progress", progress)]))
        default: job = json["data"]?["job"] ?? job
        }
        return hasEnded(job)
    }
}

/// Returns `true` if the job is in a final state.
func hasEnded(_ job: JSON) -> Bool {
    job["state"]?.string.flatMap { JobState(rawValue: $0) }?.isTerminal == true
}
