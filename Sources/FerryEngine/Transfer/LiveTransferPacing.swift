import Curl
import FerryCore

/// How fast an attempt may be.
extension LiveTransfer {
    /// Whether the limits let these bytes pass now; otherwise comes back when they do. libcurl's own limit is
    /// an average that lets a megabyte through at once.
    func mayMove(_ byteCount: Int, _ direction: Pacing.Direction) -> Bool {
        guard let pacing else { return true }
        let wait = pacing.take(byteCount, direction, now: loop.multi.now)
        if wait > 0 { comeBack(pacing, after: wait) }
        return wait <= 0
    }

    /// Bytes that have come already: what follows waits for them.
    func charge(_ byteCount: Int) {
        guard let pacing else { return }
        pacing.charge(byteCount, .receiving, now: loop.multi.now)
        let wait = pacing.timeLeft(loop.multi.now)
        guard wait > 0 else { return }
        transfer?.pauseReceiving()
        comeBack(pacing, after: wait)
    }

    private func comeBack(_ pacing: Pacing, after nanoseconds: Int64) {
        let instant = loop.multi.now + nanoseconds
        guard instant < pacing.returnsAt else { return }
        pacing.returnsAt = instant
        // Not held: a job leaves its limits with the last of its places.
        loop.multi.after(nanoseconds: nanoseconds) { [weak self, weak pacing] in
            if pacing?.returnsAt == instant { pacing?.returnsAt = .max }
            self?.resumePaced()
        }
    }

    /// What waits for its turn goes on when that has come, and comes back then otherwise.
    private func resumePaced() {
        guard !waitsForDigest, !machine.isEnded, let transfer, transfer.isPaused else { return }
        if let pacing, pacing.timeLeft(loop.multi.now) > 0 {
            comeBack(pacing, after: pacing.timeLeft(loop.multi.now))
            return
        }
        lastActivity = loop.multi.now
        transfer.resume()
    }

    /// Takes a place in the limits that hold where the current hop leads. `job`: its own.
    func pace(job: TokenBucket?) {
        pacing = context.rates.pacing(of: attempt, at: hop.url, job: job)
    }

    /// The job has another limit of its own; nil: none.
    func changeRate(_ bytesPerSecond: Int64?) {
        let job = bytesPerSecond.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) }
        pace(job: job)
        resumePaced()
    }

    /// Limits that others share have changed: in the same ones the turn may come sooner now, places in others
    /// are to be asked for anew.
    func limitsChanged() {
        let now = context.rates.pacing(of: attempt, at: hop.url, job: pacing?.job)
        if let now, let pacing, now.holds(like: pacing) { return resumePaced() }
        pacing = now
        resumePaced()
    }
}
