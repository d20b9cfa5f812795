internal import FerryCore
internal import HTTPServer
internal import Synchronization
internal import Sys

/// Response body with the events that one client listens to. It ends with its job, at `end`, or when the
/// client reads too slowly: its queue is bounded. The client then reconnects with the last event that it has
/// seen.
final class EventStream: ResponseStream {
    /// The events that a stream shows.
    struct Subject: Sendable {
        /// Tenant, session and types of the events.
        let query: EventQuery
        /// The only job; `nil` for all jobs.
        let job: JobID?
        let showsProgress: Bool

        func admits(_ event: Event) -> Bool {
            event.tenant == query.tenant && query.admits(event) && (job == nil || job == event.record.job)
        }
    }

    private enum Phase {
        /// Older events come from the log in pages. New events are held back meanwhile.
        case catchingUp
        case live
        case ended
    }

    private struct State {
        var phase = Phase.catchingUp
        /// `nil` until the response begins.
        var waker: StreamWaker?
        var queue: [[UInt8]] = []
        /// Index in `queue` of the text that is read next, and offset in its bytes. Texts before it are
        /// empty.
        var position = 0
        var offset = 0
        var byteCount = 0
        /// Number of texts at the front of `queue` that belong to a page or a snapshot. A client that reads
        /// too slowly still gets them: without them it would request the same page again and again.
        var pageTextCount = 0
        /// New events that are held back until the page arrives, in their order.
        var held: [(id: EventID, text: [UInt8], isLast: Bool)] = []
        var heldByteCount = 0
        /// `true` if more events were to be held back than fit: they come with another page.
        var hasMissed = false
        /// The last event in `queue` or before.
        var last = EventID(high: 0, low: 0)
        /// Monotonic nanoseconds.
        var writtenAt: Int64 = 0
        /// `true` if another page of the log is needed and not requested yet.
        var needsPage = false
        /// The last progress that was sent of the stream's job.
        var progress: TransferProgress?
    }

    let subject: Subject
    let number: UInt64
    private let onEnd: @Sendable (EventStream) -> Void
    private let readPage: @Sendable (EventStream, EventID) -> Void
    private let state = Mutex(State())

    /// `readPage` reads the events after a given one and calls `add`. `onEnd` is called when the connection
    /// has ended.
    init(
        _ subject: Subject, number: UInt64, readPage: @escaping @Sendable (EventStream, EventID) -> Void,
        onEnd: @escaping @Sendable (EventStream) -> Void
    ) {
        self.subject = subject
        self.number = number
        self.readPage = readPage
        self.onEnd = onEnd
        state.withLock { $0.writtenAt = monotonicNanoseconds() }
    }

    // MARK: The connection's thread

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let (step, page) = state.withLock { state in
            let step = unsafe Self.take(&state, into: buffer)
            // The next page is read when this one was sent, so that a slow client holds one page in memory.
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
            state.pageTextCount = 0
        } else if state.position * 2 >= state.queue.count {
            // Drops the empty texts if they are the larger part: a slow client may never empty the queue.
            state.queue.removeFirst(state.position)
            state.pageTextCount = max(0, state.pageTextCount - state.position)
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
        onEnd(self)
    }

    // MARK: Any thread

    /// Size of the queue: number of texts, sent ones included, and number of bytes.
    var queued: (textCount: Int, byteCount: Int) {
        state.withLock { state in (state.queue.count, state.queue.reduce(0) { $0 + $1.count }) }
    }

    /// Adds a new event. `isLast`: the stream ends after it.
    func push(_ id: EventID, _ text: [UInt8], isLast: Bool) {
        change { state in
            switch state.phase {
            case .ended: return false
            case .catchingUp:
                // The next page will include the event.
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

    /// Adds a page of the log, oldest event first. `isWhole`: later events come by `push`.
    func add(_ page: [(id: EventID, text: [UInt8], isLast: Bool)], isWhole: Bool) {
        change { state in
            guard case .catchingUp = state.phase else { return false }
            // Not bounded: the client reads a page before the next one is requested.
            for entry in page {
                _ = Self.append(&state, entry.id, entry.text, entry.isLast, isBounded: false)
            }
            state.pageTextCount = state.queue.count
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

    /// Sets the last event that the client has seen.
    func start(after id: EventID) { state.withLock { $0.last = id } }

    /// Adds a text that replaces all events up to `id`, those included that the client has not seen. `add`
    /// must follow.
    func addSnapshot(_ text: [UInt8], upTo id: EventID) {
        change { state in
            state.last = id
            return Self.enqueue(&state, text)
        }
    }

    /// A comment, which clients skip. It shows that the connection is alive.
    private static let comment = Array(":\n\n".utf8)

    /// Sends a comment if nothing was written for `Limits.eventHeartbeatSeconds`.
    func sendHeartbeat(now: Int64) {
        change { state in
            guard Double(now - state.writtenAt) / 1e9 >= Limits.eventHeartbeatSeconds, state.queue.isEmpty
            else { return false }
            return Self.enqueue(&state, Self.comment)
        }
    }

    /// Sends the progress of the stream's job, unless it is unchanged or the client reads slowly.
    func sendProgress(_ progress: TransferProgress, of job: JobID) {
        let isNew = state.withLock { state in
            guard case .live = state.phase, state.queue.isEmpty, state.progress != progress else {
                return false
            }
            state.progress = progress
            return true
        }
        if isNew { sendProgress(progressEvent(progress, of: job)) }
    }

    /// Sends events of progress, which are not in the log, unless the client reads slowly.
    func sendProgress(_ text: [UInt8]) {
        change { state in
            guard case .live = state.phase, state.queue.isEmpty else { return false }
            return Self.enqueue(&state, text)
        }
    }

    /// Ends the stream after the texts in its queue.
    func end() {
        change { state in
            state.phase = .ended
            return true
        }
    }

    /// Changes the state. `body` returns `true` if the connection has something to send.
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

    /// Ends the stream of a client that reads too slowly, after the text that it is reading and the texts of
    /// a page. The client requests the rest when it reconnects.
    private static func drop(_ state: inout State) -> Bool {
        let begun = state.position + (state.offset > 0 ? 1 : 0)
        let left = state.queue[state.position..<max(begun, state.pageTextCount)]
        state.queue = Array(left) + [Array(": too slow, come again\n\n".utf8)]
        state.position = 0
        state.pageTextCount = 0
        state.byteCount = state.queue.reduce(0) { $0 + $1.count } - state.offset
        state.phase = .ended
        return true
    }
}

/// Returns the event that shows the progress of a running job.
func progressEvent(_ progress: TransferProgress, of job: JobID) -> [UInt8] {
    var writer = JSONWriter(reservingCapacity: 320)
    writer.beginObject()
    writer.member("job", job)
    writer.name("progress")
    ShownProgress(progress: progress).show(into: &writer, isRedacted: true)
    writer.endObject()
    return serverSentEvent("progress", id: nil, writer.bytes)
}

/// Returns one server-sent event (HTML Standard §9.2.6). `data` is JSON without line feeds.
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
