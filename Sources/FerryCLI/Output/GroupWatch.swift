import FerryCore
import Glibc
import Sys

/// Waits for the end of a group and shows the numbers of its jobs.
struct GroupWatch {
    let service: ServiceClient
    let console: Console
    /// Seconds, checked by `WaitOptions.check`; `nil` for no limit.
    let timeout: Double?

    /// Milliseconds between two requests for the group: the first, and the largest.
    private static let pauses: (first: Int32, max: Int32) = (50, 1_000)
    /// Seconds for which the service may be unreachable: longer than a restart.
    private static let outageMax: Int64 = 15

    /// Waits until the group is finished, and prints it. Throws `failed` if it has open failures or cancelled
    /// jobs, `timedOut` if the timeout passes. Ctrl-C ends the command; the jobs continue.
    func finish(_ name: String, json: Bool) throws {
        Interruption.arm(
            "Detached: the jobs continue. To wait again: ferry watch --group \(name)")
        let deadline = timeout.map { monotonicNanoseconds() + Int64($0 * 1e9) }
        var pause = Self.pauses.first
        var isTold = false
        var response = try read(name, deadline)
        while response.json["state"]?.string != JobGroupState.finished.rawValue {
            let text = GroupText(response.json)
            if text.state == JobGroupState.open.rawValue, text.unfinishedCount == 0, !isTold {
                isTold = true
                console.message("The group is open and has no unfinished job: ferry groups close \(name)")
            }
            if console.errIsTerminal, console.isCapable {
                console.err("\r\u{1B}[K\(printable("\(name): \(text.counts)"))")
            }
            var wait = Int64(pause)
            if let deadline {
                let left = (deadline - monotonicNanoseconds()) / 1_000_000
                guard left > 0 else { throw timedOut(name) }
                wait = min(wait, left + 1)
            }
            poll(nil, 0, Int32(wait))
            pause = min(Self.pauses.max, pause * 2)
            response = try read(name, deadline)
        }
        if console.errIsTerminal, console.isCapable { console.err("\r\u{1B}[K") }
        let text = GroupText(response.json)
        if json {
            try console.data(json: response.bytes)
        } else {
            try console.data(line: text.line)
        }
        guard text.openFailureCount == 0, text.cancelledCount == 0 else {
            throw ClientFailure(
                .failed,
                "Not all jobs have succeeded: \(text.counts). To see them: "
                    + "ferry jobs --group \(name) --state failed,cancelled")
        }
    }

    private func timedOut(_ name: String) -> ClientFailure {
        let again = "To wait again: ferry watch --group \(name)"
        return ClientFailure(.timedOut, "\(name) continues after \(timeout ?? 0) s. \(again)")
    }

    /// Reads the group. Throws `unreachable` if the service is unreachable for too long, `timedOut` if it is
    /// at the deadline.
    private func read(_ name: String, _ deadline: Int64?) throws(ClientFailure) -> ServiceClient.Response {
        let since = monotonicNanoseconds()
        while true {
            do throws(ClientFailure) {
                return try service.send("GET", groupPath(name))
            } catch {
                let now = monotonicNanoseconds()
                guard error.kind == .unreachable, (now - since) / 1_000_000_000 < Self.outageMax else {
                    throw error
                }
                let left = deadline.map { ($0 - now) / 1_000_000 } ?? .max
                guard left > 0 else { throw timedOut(name) }
                poll(nil, 0, Int32(min(Int64(Self.pauses.max), left + 1)))
            }
        }
    }
}
