import Curl
import FerryCore

/// The attempts of one loop. Loop thread only.
final class EngineLoop {
    let context: EngineContext
    let index: Int
    /// `Engine` owns the loop.
    let loop: CurlLoop
    unowned let multi: CurlMulti
    /// This object, for closures on other threads.
    let state: LoopBound<EngineLoop>
    private var live: [AttemptKey: RunningAttempt] = [:]
    /// Attempts that have ended in this turn: functions of theirs may still be running.
    private var ended: [RunningAttempt] = []
    /// Attempts whose slots are lent.
    private var lentCount = 0
    private var lastScan: Int64
    /// `true` while `lendEarly` runs every quarter of a second, and when it ran last.
    private var lendsEarly = false
    private var lastEarlyLoans: Int64 = 0
    let stage = WriteStage()

    init(_ context: EngineContext, index: Int, loop: CurlLoop, multi: CurlMulti, state: LoopBound<EngineLoop>)
    {
        self.context = context
        self.index = index
        self.loop = loop
        self.multi = multi
        self.state = state
        lastScan = multi.now
        multi.everySecond { [unowned self] now in scan(now) }
        multi.afterEachTurn { [unowned self] in
            stage.flush()
            if !ended.isEmpty { ended.removeAll(keepingCapacity: true) }
        }
    }

    /// Lets any thread run a closure on this loop; dropped after the loop has stopped.
    var runner: @Sendable (@escaping @Sendable (EngineLoop) -> Void) -> Void {
        { [loop, state] body in loop.perform { multi in body(state.get(multi)) } }
    }

    /// Runs the attempt. Its result is reported exactly once.
    func begin(_ assigned: AssignedAttempt) {
        let attempt = assigned.attempt
        guard !attempt.isCancelRequested else {
            context.report(unbegun: assigned, on: index, .cancelled)
            return
        }
        let running = RunningAttempt(assigned, on: self)
        live[AttemptKey(attempt)] = running
        running.begin()
    }

    func stop(_ job: JobID, _ how: AttemptStop) {
        guard let number = context.registry[job]?.number else { return }
        live[AttemptKey(job, number)]?.handle(.stop(how))
    }

    /// Returns the job's attempt so far; `nil` if it does not run here any more.
    func snapshot(_ job: JobID) -> AttemptSnapshot? {
        guard let number = context.registry[job]?.number else { return nil }
        return live[AttemptKey(job, number)]?.snapshot
    }

    /// Ends all attempts, except those whose files are about to be published.
    func releaseAll() {
        for transfer in Array(live.values) { transfer.handle(.release) }
    }

    /// Passes an edit to the attempt that it is meant for.
    func adopt(_ edit: AttemptEdit, of job: JobID) {
        live[AttemptKey(job, edit.attempt)]?.exchanges.adopt(edit)
    }

    func limitsChanged() {
        for transfer in Array(live.values) { transfer.exchanges.limitsChanged() }
    }

    /// Passes an event from a file thread to an attempt, unless it has ended.
    func handle(_ event: AttemptMachine.Event, for key: AttemptKey) { live[key]?.handle(event) }

    /// Tells an attempt that its sink has found what is there.
    func sinkOpened(_ key: AttemptKey) { live[key]?.sinkOpened() }

    func putAside(_ bytes: PartialDownload?, for key: AttemptKey) { live[key]?.putAside = bytes }

    func report(_ outcome: AttemptResult.Outcome, for key: AttemptKey, partial: PartialDownload?) {
        live[key]?.report(outcome, partial: partial)
    }

    /// Passes a reply from another thread to the exchanges of an attempt, unless it has ended.
    func take(_ reply: ExchangeReply, for key: AttemptKey) { live[key]?.exchanges.take(reply) }

    /// Passes the answer about a connection to its attempt. Gives back a connection that no request waits
    /// for.
    func connectionAnswered(_ grant: ConnectionGrant, for attempt: Attempt, at scope: RequestScope) {
        let isTaken = live[AttemptKey(attempt)]?.exchanges.connectionAnswered(grant, at: scope) ?? false
        if !isTaken, grant == .granted { context.connections?.giveBack(attempt, scope) }
    }

    /// Whether further transfers should use little memory. Attempts whose slots are lent do not count.
    var isCrowded: Bool { live.count - lentCount > EngineLimits.crowdedTransferCountMin }

    /// Whether so few transfers run that their memory does not matter.
    var usesLargeBuffers: Bool { live.count <= EngineLimits.largeBufferTransferCountMax }

    func ended(_ key: AttemptKey) { if let gone = live.removeValue(forKey: key) { ended.append(gone) } }

    /// Lends the slot of an attempt that moves no bytes. Returns `false` if that is not possible.
    func lendSlot(of attempt: Attempt) -> Bool {
        guard context.lendSlot(of: attempt) else { return false }
        lentCount += 1
        return true
    }

    /// Like `lendSlot`, of a slow attempt. Returns `false` also if no other tenant waits for a slot.
    func lendSlotEarly(of attempt: Attempt) -> Bool {
        guard context.lendSlotEarly(of: attempt) else { return false }
        lentCount += 1
        return true
    }

    /// Lends slots of slow attempts while tenants wait for some.
    func lendSlots() {
        guard !lendsEarly else { return }
        lendsEarly = true
        lastEarlyLoans = multi.now
        lendEarly()
    }

    /// Lends slots now and every quarter of a second, those of the slowest attempts first.
    private func lendEarly() {
        guard context.areSlotsMissing else {
            lendsEarly = false
            return
        }
        let now = multi.now
        let isLate = now - lastEarlyLoans > EngineLimits.earlyLoanInterval + EngineLimits.lateNanoseconds
        lastEarlyLoans = now
        var slow: [(rate: Double, transfer: RunningAttempt)] = []
        for transfer in live.values {
            transfer.measureSlot(now, isLate: isLate)
            if let rate = transfer.earlyLoanRate { slow.append((rate, transfer)) }
        }
        slow.sort { $0.rate < $1.rate }
        for one in slow { one.transfer.lendSlotEarly(now) }
        multi.after(nanoseconds: EngineLimits.earlyLoanInterval) { [unowned self] in lendEarly() }
    }

    func takeBackSlot(of attempt: Attempt, isEarly: Bool) {
        lentCount -= 1
        context.takeBackSlot(of: attempt, isEarly: isEarly)
    }

    private func scan(_ now: Int64) {
        let seconds = Double(now - lastScan) / 1e9
        if index == 0 {
            for place in context.places.all { place.secondPassed() }
            context.names.giveUpSlow()
        }
        // A late loop cannot tell whether servers or the loop itself were slow.
        let isLate = now - lastScan > 1_000_000_000 + EngineLimits.lateNanoseconds
        lastScan = now
        let isDiskLost = context.places.localFiles.space.isLost
        for transfer in Array(live.values) {
            if !isLate { transfer.lendSlot(now) }
            transfer.measureSlot(now, isLate: isLate)
            transfer.secondPassed(now, seconds)
            transfer.watchDisk(isLost: isDiskLost)
        }
    }
}

extension JobSpec {
    /// Whether several connections or URLs may serve the job.
    var isFetchedInParts: Bool { kind == .download && (segmentCountMax > 1 || !mirrors.isEmpty) }
}

extension AttemptKey {
    init(_ job: JobID, _ number: Int32) {
        self.job = job
        self.number = number
    }
}
