import Curl
import FerryCore

/// The slot of an attempt. It is lent to another job while no byte moves: names that do not resolve and
/// servers that do not accept connections take half a minute, servers that do not respond take longer
/// (docs/decisions/0028). While other tenants wait for slots, it is lent while few bytes move
/// (docs/decisions/0050). Instants are nanoseconds of the loop's clock.
struct HeldSlot {
    /// When the attempt got the slot, or took it back.
    private(set) var since: Int64
    private(set) var lentSince: Int64?
    /// Whether the slot was lent early, and the attempt has not stalled since.
    private(set) var isLentEarly = false
    private(set) var lentSeconds = 0.0
    /// Whether it was reported that the host does not respond.
    var isStallReported = false
    /// When the bytes that moved were counted, and their number.
    private var measured: (at: Int64, byteCount: Int64)
    /// Bytes per second between the last two counts if that is slow; `nil` if it is not, or not known.
    private(set) var slowRate: Double?

    init(since: Int64) {
        self.since = since
        measured = (since, 0)
    }

    /// Counts bytes if the last count is long enough ago. `isLate`: the loop was late, so that it cannot tell
    /// whether the server or the loop itself was slow.
    mutating func measure(_ byteCount: Int64, at now: Int64, isLate: Bool) {
        let seconds = Double(now - measured.at) / 1e9
        guard isLate || seconds >= EngineLimits.slotMeasurementSeconds else { return }
        let moved = byteCount - measured.byteCount
        measured = (now, byteCount)
        // A count that goes back is that of a body that begins again.
        guard !isLate, moved >= 0 else { return slowRate = nil }
        let rate = Double(moved) / seconds
        slowRate = rate < EngineLimits.slotBytesPerSecondMin ? rate : nil
    }

    mutating func lend(at now: Int64, early: Bool = false) { (lentSince, isLentEarly) = (now, early) }

    /// Makes an early loan an ordinary one.
    mutating func settleEarlyLoan() { isLentEarly = false }

    /// Takes the slot back. Returns `false` if it was not lent.
    mutating func takeBack(at now: Int64) -> Bool {
        guard let lentSince else { return false }
        lentSeconds += Double(now - lentSince) / 1e9
        (self.lentSince, isLentEarly) = (nil, false)
        since = now
        measured.at = now
        slowRate = nil
        return true
    }
}

extension RunningAttempt {
    /// Called about once a second: reports a host that does not respond, and lends the slot while no byte
    /// moves.
    func lendSlot(_ now: Int64) {
        let activity = exchanges.activity
        let idle = activity.idleTime
        let seconds = loop.context.stallSeconds
        if !slot.isStallReported, idle > Int64(seconds * 1e9), let scope = exchanges.unansweredScope {
            slot.isStallReported = loop.context.noteUnanswered(attempt, at: scope)
        }
        let least = Int64((activity.isConnecting ? EngineLimits.connectStallSeconds : seconds) * 1e9)
        if slot.isLentEarly, idle > least {
            slot.settleEarlyLoan()
            loop.context.settleEarlyLoan(of: attempt)
        }
        guard slot.lentSince == nil, min(idle, now - slot.since) > least else { return }
        if loop.lendSlot(of: attempt) { slot.lend(at: now) }
    }

    /// Reports the response of a host that was reported as not responding: the attempt may take long to end.
    func noteHead(_ head: ResponseHead, from url: WebURL) {
        let context = loop.context
        guard slot.isStallReported, head.status < 400,
            let response = context.hostResponse(head, from: url, to: attempt)
        else { return }
        slot.isStallReported = false
        context.report(response)
    }

    /// Measures how fast bytes move.
    func measureSlot(_ now: Int64, isLate: Bool) {
        slot.measure(progress.bytesReceived + progress.bytesSent, at: now, isLate: isLate)
    }

    /// Bytes per second if the slot may be lent early; `nil` if it may not.
    var earlyLoanRate: Double? {
        slot.lentSince == nil && exchanges.activity.waitsForServer && !waitsForDisk ? slot.slowRate : nil
    }

    /// Lends the slot of a slow attempt if another tenant waits for one.
    func lendSlotEarly(_ now: Int64) {
        if loop.lendSlotEarly(of: attempt) { slot.lend(at: now, early: true) }
    }

    /// Takes back a lent slot when a server is reached or a byte moves, unless tenants wait for slots.
    func needSlot() {
        guard slot.lentSince != nil, !loop.context.areSlotsMissing else { return }
        takeBackSlot()
    }

    /// Takes back a lent slot. Call at the end of the attempt.
    func takeBackSlot() {
        let isEarly = slot.isLentEarly
        guard slot.lentSince != nil, slot.takeBack(at: loop.multi.now) else { return }
        loop.takeBackSlot(of: attempt, isEarly: isEarly)
    }
}
