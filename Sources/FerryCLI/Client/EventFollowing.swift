import FerryCore
import Glibc
import Sys

/// Shows new events from the event stream. When the stream breaks, opens it again after the last event. Polls
/// the list if the service has no stream free.
struct EventFollowing {
    let service: ServiceClient
    let path: String
    /// Identifier of the event after which to begin; `nil` if there are no events. A stream without it would
    /// miss events before its opening.
    let last: String?
    /// Returns the listed events after an event, newest first.
    let new: (String) throws(ClientFailure) -> [JSON]
    /// Shows events. Returns `false` to stop following.
    let show: ([JSON]) throws -> Bool

    /// Seconds for which the service may be unreachable: longer than a restart.
    private static let outageMax: Int64 = 15
    /// Milliseconds after which the stream is opened again: a lost connection may not be noticed.
    private static let streamMilliseconds = 60_000
    /// Milliseconds between polls, and between streams that end at once.
    private static let pauseMilliseconds: Int32 = 500

    /// Returns when following has stopped. Throws `unreachable` if the service is unreachable for too long.
    func run() throws {
        var reader = EventStreamReader(lastEventID: last)
        var awaySince: Int64?
        while true {
            let begin = monotonicNanoseconds()
            do {
                guard try step(&reader) else { return }
                awaySince = nil
            } catch let error as ClientFailure {
                let since = awaySince ?? begin
                awaySince = since
                let away = (monotonicNanoseconds() - since) / 1_000_000_000
                guard error.kind == .unreachable, away < Self.outageMax else { throw error }
            }
            if monotonicNanoseconds() - begin < 250_000_000 { poll(nil, 0, Self.pauseMilliseconds) }
        }
    }

    private func step(_ reader: inout EventStreamReader) throws -> Bool {
        guard reader.lastEventID != nil else { return try pollList(&reader) }
        var failure: (any Error)?
        let end = try service.follow(path, &reader, milliseconds: Self.streamMilliseconds) { event in
            // Snapshots and progress are not events of the list. Malformed events are skipped.
            guard event.name != "snapshot", event.name != "progress", let json = try? JSON.parse(event.data)
            else { return true }
            do {
                return try show([json])
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
        switch end {
        case .stopped, .over: return false
        case .broken: return true
        case .refused(let status, let body):
            // A tenant has a limited number of streams on a node. Beyond that, the list is polled.
            guard status == 429 || status == 503 else { throw ServiceClient.failure(status, body) }
            return try pollList(&reader)
        }
    }

    private func pollList(_ reader: inout EventStreamReader) throws -> Bool {
        let events = try new(reader.lastEventID ?? "")
        guard let last = events.first?["id"]?.string else { return true }
        reader = EventStreamReader(lastEventID: last)
        return try show(events.reversed())
    }
}
