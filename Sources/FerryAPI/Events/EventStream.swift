internal import FerryCore
internal import HTTPServer
internal import Synchronization
internal import Sys

/// One listener: a response body that never ends by itself. What waits for it is bounded; whoever reads too
/// slowly is let go, and comes back with the last event that it has seen.
final class EventStream: ResponseStream {
    /// What it is about.
    struct Subject: Sendable {
        /// Tenant, session and types.
        let query: EventQuery
        /// Nil: all jobs.
        let job: JobID?
        let showsProgress: Bool

        func admits(_ event: Event) -> Bool {
            event.tenant == query.tenant && query.admits(event) && (job == nil || job == event.record.job)
        }
    }

    private enum Phase {
        /// What is older comes from the log; what comes meanwhile is held back.
        case catchingUp
        case live
        case ended
    }

    private struct State {
        var phase = Phase.catchingUp
        /// Nil: the answer has not begun.
        var waker: StreamWaker?
        var queue: [[UInt8]] = []
        /// Of `queue`, and of the bytes of the one that is there. What is before it is read, and empty.
        var position = 0
        var offset = 0
        var byteCount = 0
        /// Texts at the front of `queue` that answer the reader itself, a page or a snapshot. Who reads too
        /// slowly gets them all the same: without them he would never get on.
        var answerCount = 0
        /// Held back while a page is on its way: in their order.
        var held: [(id: EventID, text: [UInt8], isLast: Bool)] = []
        var heldByteCount = 0
        /// There was more to hold back than may wait: it comes with another page.
        var hasMissed = false
        var last = EventID(high: 0, low: 0)
        var writtenAt: Int64 = 0
        /// The next page of the log is not asked for yet.
        var needsPage = false
        /// The last progress that was told of the job that this is about.
        var progress: TransferProgress?
    }

    let subject: Subject
    let number: UInt64
    private let whenOver: @Sendable (EventStream) -> Void
    private let readPage: @Sendable (EventStream, EventID) -> Void
    private let state = Mutex(State())

    /// `readPage` gets what follows an event from the log and calls `add`; `whenOver` comes once.
    init(
        _ subject: Subject, number: UInt64, readPage: @escaping @Sendable (EventStream, EventID) -> Void,
        whenOver: @escaping @Sendable (EventStream) -> Void
    ) {
        self.subject = subject
        self.number = number
        self.readPage = readPage
        self.whenOver = whenOver
        state.withLock { $0.writtenAt = monotonicNanoseconds() }
    }

    // MARK: The connection's thread

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let (step, page) = state.withLock { state in
            let step = unsafe Self.take(&state, into: buffer)
            // The next page only when this one is on its way: a slow reader holds nothing but a page.
            guard state.needsPage, state.queue.isEmpty else { return (step, nil as EventID?) }
            state.needsPage = false
            return (step, state.last)
        }
        if let page { readPage(self, page) }
        return step
    }

    private static func take(
        _ state: inout State, into buffer: UnsafeMutableRawBufferPointer
    ) -> StreamStep {
        var count = 0
        while count < buffer.count, state.position < state.queue.count {
            let rest = state.queue[state.position][state.offset...]
            let some = rest.prefix(buffer.count - count)
            unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyBytes(from: some)
            count += some.count
            state.offset += some.count
            if some.count == rest.count {
                state.queue[state.position] = []
                state.position += 1
                state.offset = 0
            }
        }
        state.byteCount -= count
        if state.position == state.queue.count {
            state.queue.removeAll(keepingCapacity: state.queue.count < 64)
            state.position = 0
            state.answerCount = 0
        } else if state.position * 2 >= state.queue.count {
            // A reader that never catches up leaves no more behind than what is ahead of it.
            state.queue.removeFirst(state.position)
            state.answerCount = max(0, state.answerCount - state.position)
            state.position = 0
        }
        guard count == 0 else { return .bytes(count) }
        if state.phase == .ended { return .end }
        return .wait
    }

    func clientStoppedSending() -> Bool {
        change { state in state.queue.isEmpty && Self.enqueue(&state, Self.comment) }
        return true
    }

    func cancelled() {
        state.withLock { state in
            state.phase = .ended
            state.waker = nil
            state.queue = []
            Self.releaseHeld(&state)
        }
        whenOver(self)
    }

    // MARK: Any thread

    /// What it has in memory for its reader: texts, with the places of those that are read, and bytes.
    var kept: (textCount: Int, byteCount: Int) {
        state.withLock { state in (state.queue.count, state.queue.reduce(0) { $0 + $1.count }) }
    }

    /// An event that has just got its number. `isLast`: nothing comes after it.
    func push(_ id: EventID, _ text: [UInt8], isLast: Bool) {
        change { state in
            switch state.phase {
            case .ended: return false
            case .catchingUp:
                // The next page will have it.
                if state.needsPage || state.hasMissed { return false }
                guard state.heldByteCount + text.count <= Limits.eventQueueByteCountMax else {
                    Self.releaseHeld(&state)
                    state.hasMissed = true
                    return false
                }
                state.heldByteCount += text.count
                state.held.append((id, text, isLast))
                return false
            case .live: return Self.append(&state, id, text, isLast)
            }
        }
    }

    /// A page of the log, in its order. `isWhole`: what follows it comes by `push`.
    func add(_ page: [(id: EventID, text: [UInt8], isLast: Bool)], isWhole: Bool) {
        change { state in
            guard case .catchingUp = state.phase else { return false }
            // It is what was asked for: no more than the reader wants.
            for entry in page {
                _ = Self.append(&state, entry.id, entry.text, entry.isLast, isBounded: false)
            }
            state.answerCount = state.queue.count
            guard case .catchingUp = state.phase else { return true }
            let held = state.held
            let fits = state.byteCount + state.heldByteCount <= Limits.eventQueueByteCountMax
            let isCaughtUp = isWhole && !state.hasMissed && fits
            Self.releaseHeld(&state)
            state.hasMissed = false
            guard isCaughtUp else {
                state.needsPage = true
                return true
            }
            state.phase = .live
            for entry in held { _ = Self.append(&state, entry.id, entry.text, entry.isLast) }
            return true
        }
    }

    private static func releaseHeld(_ state: inout State) {
        state.held = []
        state.heldByteCount = 0
    }

    /// What the client has seen already.
    func start(after id: EventID) { state.withLock { $0.last = id } }

    /// What stands for everything up to `id`, whatever the client has said that it has seen. To be followed
    /// by `add`.
    func addSnapshot(_ text: [UInt8], upTo id: EventID) {
        change { state in
            state.last = id
            return Self.enqueue(&state, text)
        }
    }

    /// What clients skip: it only shows that the connection is alive.
    private static let comment = Array(":\n\n".utf8)

    /// A comment, when nothing was written for a while.
    func beat(now: Int64) {
        change { state in
            guard Double(now - state.writtenAt) / 1e9 >= Limits.eventHeartbeatSeconds, state.queue.isEmpty
            else { return false }
            return Self.enqueue(&state, Self.comment)
        }
    }

    /// News of the job that this is about, unless they are old or the reader is slow.
    func tell(_ progress: TransferProgress, of job: JobID) {
        let isNew = state.withLock { state in
            guard case .live = state.phase, state.queue.isEmpty, state.progress != progress else {
                return false
            }
            state.progress = progress
            return true
        }
        if isNew { tell(progressEvent(progress, of: job)) }
    }

    /// News that have no place in the log, unless the reader is slow.
    func tell(_ text: [UInt8]) {
        change { state in
            guard case .live = state.phase, state.queue.isEmpty else { return false }
            return Self.enqueue(&state, text)
        }
    }

    /// Ends it after what waits.
    func end() {
        change { state in
            state.phase = .ended
            return true
        }
    }

    /// `body` says whether there is something for the connection.
    private func change(_ body: (inout State) -> Bool) {
        let waker = state.withLock { state in body(&state) ? state.waker : nil }
        waker?.wake()
    }

    private static func append(
        _ state: inout State, _ id: EventID, _ text: [UInt8], _ isLast: Bool, isBounded: Bool = true
    ) -> Bool {
        guard state.phase != .ended, id > state.last else { return false }
        if isBounded, state.byteCount + text.count > Limits.eventQueueByteCountMax { return drop(&state) }
        state.last = id
        _ = enqueue(&state, text)
        if isLast { state.phase = .ended }
        return true
    }

    private static func enqueue(_ state: inout State, _ text: [UInt8]) -> Bool {
        guard state.phase != .ended else { return false }
        state.queue.append(text)
        state.byteCount += text.count
        state.writtenAt = monotonicNanoseconds()
        return true
    }

    /// The reader is too slow: what it has begun to get, and what answers it, is finished, the rest it asks
    /// for again.
    private static func drop(_ state: inout State) -> Bool {
        let begun = state.position + (state.offset > 0 ? 1 : 0)
        let left = state.queue[state.position..<max(begun, state.answerCount)]
        state.queue = Array(left) + [Array(": too slow, come again\n\n".utf8)]
        state.position = 0
        state.answerCount = 0
        state.byteCount = state.queue.reduce(0) { $0 + $1.count } - state.offset
        state.phase = .ended
        return true
    }
}

/// How far a running job is.
func progressEvent(_ progress: TransferProgress, of job: JobID) -> [UInt8] {
    var writer = JSONWriter(reservingCapacity: 320)
    writer.beginObject()
    writer.member("job", job)
    writer.name("progress")
    progress.write(into: &writer, isSucceeded: false)
    writer.endObject()
    return serverSentEvent("progress", id: nil, writer.bytes)
}

/// One event of a stream (HTML Standard §9.2.6): JSON holds no line feed.
func serverSentEvent(_ type: String, id: EventID?, _ data: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(data.count + 96)
    if let id {
        text.append(contentsOf: "id: ".utf8)
        text.append(contentsOf: id.utf8)
        text.append(UInt8(ascii: "\n"))
    }
    text.append(contentsOf: "event: \(type)\ndata: ".utf8)
    text.append(contentsOf: data)
    text.append(contentsOf: "\n\n".utf8)
    return text
}
