import Glibc
import Synchronization
import Sys

/// Where log lines go. Nobody who logs waits for whoever reads them: while a pipe is full (a collector that
/// hangs, a stopped terminal) lines gather here, and beyond a bound they are counted and lost. Any thread.
package final class LogSink: Sendable {
    private struct State {
        /// Not written yet, the oldest first; of the first one `writtenCount` bytes are.
        var waiting: [[UInt8]] = []
        var writtenCount = 0
        var waitingByteCount = 0
        /// Lost since it was last told.
        var untoldCount = 0
    }

    package static let standardError = LogSink(STDERR_FILENO)
    /// What a pipe that can be written to takes without blocking (PIPE_BUF, pipe(7)).
    private static let pieceByteCount = 4_096

    private let descriptor: Int32
    private let byteCountMax: Int
    private let state = Mutex(State())
    private let lost = Atomic<Int>(0)

    /// `byteCountMax`: bytes that may wait here.
    package init(_ descriptor: Int32, byteCountMax: Int = 1 << 20) {
        self.descriptor = descriptor
        self.byteCountMax = byteCountMax
    }

    /// Lines that nobody will read.
    package var lostCount: Int { lost.load(ordering: .relaxed) }

    /// Writes a line, or keeps it while the reader takes none. `notice` makes the line that tells how many
    /// were lost; it comes in their place, once there is room again.
    package func write(_ line: [UInt8], notice: (Int) -> [UInt8]) {
        state.withLock { state in
            drain(&state)
            if state.untoldCount > 0 {
                guard state.waitingByteCount <= byteCountMax / 2 else { return lose(1, &state) }
                let count = state.untoldCount
                state.untoldCount = 0
                add(notice(count), &state)
            }
            add(line, &state)
            drain(&state)
        }
    }

    /// Writes what waits, as far as the reader takes it. Returns whether nothing is left.
    @discardableResult
    package func flush() -> Bool {
        state.withLock { state in
            drain(&state)
            return state.waiting.isEmpty
        }
    }

    /// The same at the end of the process: for so long the reader may take its time.
    package func finish(milliseconds: Int32) {
        let end = monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
        while !flush() {
            let left = end - monotonicNanoseconds()
            guard left > 0 else { return }
            _ = isReady(milliseconds: Int32(left / 1_000_000 + 1))
        }
    }

    private func add(_ line: [UInt8], _ state: inout State) {
        guard state.waitingByteCount + line.count <= byteCountMax else { return lose(1, &state) }
        state.waiting.append(line)
        state.waitingByteCount += line.count
    }

    private func lose(_ count: Int, _ state: inout State) {
        state.untoldCount += count
        lost.add(count, ordering: .relaxed)
    }

    private func drain(_ state: inout State) {
        var doneCount = 0
        defer {
            state.waiting.removeFirst(doneCount)
            if state.waiting.isEmpty { state.waitingByteCount = 0 }
        }
        while doneCount < state.waiting.count, isReady(milliseconds: 0) {
            let line = state.waiting[doneCount]
            let count = min(line.count - state.writtenCount, Self.pieceByteCount)
            let written = line.withUnsafeBufferPointer {
                Glibc.write(descriptor, $0.baseAddress.map { $0 + state.writtenCount }, count)
            }
            if written < 0, errno == EINTR { continue }
            if written < 0, errno == EAGAIN { return }
            // Nobody is there any more, or a full disk: the next line may find somebody.
            if written < 0 { lose(1, &state) }
            state.writtenCount += max(0, written)
            guard written < 0 || state.writtenCount == line.count else { continue }
            state.waitingByteCount -= line.count
            state.writtenCount = 0
            doneCount += 1
        }
    }

    private func isReady(milliseconds: Int32) -> Bool {
        var ask = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&ask, 1, milliseconds) == 1
    }
}
