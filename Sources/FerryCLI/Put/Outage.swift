import Glibc
import Synchronization
import Sys

/// Whether the service has answered this process. Any thread.
final class ServiceContact: Sendable {
    private let isMadeFlag = Atomic(false)

    var isMade: Bool { isMadeFlag.load(ordering: .relaxed) }

    func note() { isMadeFlag.store(true, ordering: .relaxed) }
}

/// The time for which the service has not answered, and the pauses between the requests of that time.
struct Outage {
    let contact: ServiceContact
    private var since: Int64?
    private var pause = Self.pauses.first

    /// Seconds for which the service may be unreachable: longer than a restart that drains its connections.
    static let secondsMax: Int64 = 60
    /// Milliseconds between two requests: the first, and the largest.
    private static let pauses: (first: Int32, max: Int32) = (250, 4_000)

    init(_ contact: ServiceContact) { self.contact = contact }

    /// Waits before the next request. Throws the failure if it is final, if the service has never answered,
    /// or if it has been unreachable for too long. `isTemporary`: the service has asked for a later request.
    mutating func wait(after failure: ClientFailure, isTemporary: Bool = false) throws(ClientFailure) {
        let now = monotonicNanoseconds()
        let begin = since ?? now
        since = begin
        guard failure.kind == .unreachable || isTemporary, contact.isMade,
            (now - begin) / 1_000_000_000 < Self.secondsMax
        else { throw failure }
        poll(nil, 0, pause)
        pause = min(Self.pauses.max, pause * 2)
    }

    /// The service has answered, and the work has gone on.
    mutating func end() {
        contact.note()
        (since, pause) = (nil, Self.pauses.first)
    }
}
