import FerryCore
import Synchronization

/// Progress of one attempt. Its loop writes, any thread reads.
final class ProgressMeter: Sendable {
    private let received = Atomic<Int64>(0)
    private let sent = Atomic<Int64>(0)
    /// Negative is unknown.
    private let expectedToReceive = Atomic<Int64>(-1)
    private let expectedToSend = Atomic<Int64>(-1)
    /// Negative is unknown.
    private let resumed = Atomic<Int64>(-1)
    private let rate = Atomic<UInt64>(Double(0).bitPattern)
    private let measured = Atomic<Int64>(0)
    /// Seconds in which bytes moved, counted up to 2: the first one was not a whole second.
    private let busySeconds = Atomic<Int>(0)
    private let estimate: TransferProgress.Estimate?
    private struct WeakFile: Sendable { weak var file: PartialFile? }
    private let shown = Mutex(WeakFile())

    init(_ estimate: TransferProgress.Estimate? = nil) { self.estimate = estimate }

    /// The file with the attempt's bytes; `nil` if there is none.
    var file: PartialFile? { shown.withLock { $0.file } }
    func show(_ file: PartialFile) { shown.withLock { $0.file = file } }

    func set(received count: Int64) { received.store(count, ordering: .relaxed) }
    /// Counts bytes of an earlier attempt as progress, not as speed.
    func resume(at count: Int64) {
        measured.add(count, ordering: .relaxed)
        received.store(count, ordering: .relaxed)
    }
    /// Counts bytes that are sent on as progress; their speed is that of sending.
    func fetched(_ count: Int64) {
        measured.add(count - bytesReceived, ordering: .relaxed)
        set(received: count)
    }
    func resumedAt(_ offset: Int64) { resumed.store(offset, ordering: .relaxed) }
    var resumedAtOffset: Int64? {
        let offset = resumed.load(ordering: .relaxed)
        return offset < 0 ? nil : offset
    }
    func set(sent count: Int64) { sent.store(count, ordering: .relaxed) }
    /// Counts bytes that the server has already as progress, not as speed.
    func resume(sentAt count: Int64) {
        measured.add(count - bytesSent, ordering: .relaxed)
        set(sent: count)
    }
    func expect(toReceive count: Int64?) { expectedToReceive.store(count ?? -1, ordering: .relaxed) }
    func expect(toSend count: Int64?) { expectedToSend.store(count ?? -1, ordering: .relaxed) }

    var bytesReceived: Int64 { received.load(ordering: .relaxed) }
    var bytesSent: Int64 { sent.load(ordering: .relaxed) }

    /// Called about once a second: updates the average speed, which halves the weight of the past in two
    /// seconds. Loop thread.
    func measure(seconds: Double) {
        let total = bytesReceived + bytesSent
        let now = Double(max(0, total - measured.exchange(total, ordering: .relaxed))) / max(seconds, 0.001)
        let busy = busySeconds.load(ordering: .relaxed)
        guard busy > 0 || now > 0 else { return }
        if busy < 2 { busySeconds.store(busy + 1, ordering: .relaxed) }
        let before = Double(bitPattern: rate.load(ordering: .relaxed))
        rate.store((busy < 2 ? now : before * 0.7 + now * 0.3).bitPattern, ordering: .relaxed)
    }

    var snapshot: TransferProgress {
        let toReceive = expectedToReceive.load(ordering: .relaxed)
        let toSend = expectedToSend.load(ordering: .relaxed)
        return TransferProgress(
            bytesReceived: bytesReceived, bytesExpectedToReceive: toReceive < 0 ? nil : toReceive,
            bytesSent: bytesSent, bytesExpectedToSend: toSend < 0 ? nil : toSend, estimate: estimate,
            bytesPerSecond: Double(bitPattern: rate.load(ordering: .relaxed)),
            resumedAtOffset: resumedAtOffset)
    }
}
