import FerryCore
import Glibc
import Sys

/// Shows events as they happen: the stream tells them, opened anew behind the last one when it breaks. Where
/// no stream can be had the list is looked at.
struct EventFollowing {
    let service: ServiceClient
    let path: String
    /// The event behind which it goes on; nil: nothing has happened yet, and a stream would begin with what
    /// comes after its opening.
    let last: String?
    /// What the list has behind an event, newest first.
    let new: (String) throws(ClientFailure) -> [JSON]
    /// Whether it goes on.
    let show: ([JSON]) throws -> Bool

    /// Seconds for which the service may stay away: a restart is shorter.
    private static let outageMax: Int64 = 15
    /// Milliseconds after which a stream is opened anew: a connection may die without a word.
    private static let streamMilliseconds = 60_000
    /// Between looks, and between streams that end at once.
    private static let pauseMilliseconds: Int32 = 500

    /// Returns when what is followed has ended. Throws `unreachable` when the service stays away.
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
        guard reader.lastEventID != nil else { return try look(&reader) }
        var failure: (any Error)?
        let end = try service.follow(path, &reader, milliseconds: Self.streamMilliseconds) { event in
            // Of jobs as they are, not of what has happened.
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
            // A node serves so many streams and no more: it is asked.
            guard status == 503 else { throw ServiceClient.failure(status, body) }
            return try look(&reader)
        }
    }

    private func look(_ reader: inout EventStreamReader) throws -> Bool {
        let events = try new(reader.lastEventID ?? "")
        guard let last = events.first?["id"]?.string else { return true }
        reader = EventStreamReader(lastEventID: last)
        return try show(events.reversed())
    }
}
