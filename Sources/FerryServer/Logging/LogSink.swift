import Glibc
import Synchronization
import Sys

/// Destination of log lines. Writing never blocks: while a pipe is full (a collector that hangs, a stopped
/// terminal), lines are kept in memory up to a limit, and further ones are dropped and counted. Usable on any
/// thread.
package final class LogSink: Sendable {
    private struct State {
        /// Lines not written yet, oldest first; `writtenCount` bytes of the first one are written.
        var waiting: [[UInt8]] = []
        var writtenCount = 0
        var waitingByteCount = 0
        /// Lines dropped since the last notice.
        var unreportedCount = 0
    }

    /// Standard error of the process.
    package static let standardError = LogSink(STDERR_FILENO)
    /// Bytes that a writable pipe accepts without blocking (PIPE_BUF, pipe(7)).
    private static let pieceByteCount = 4_096

    private let descriptor: Int32
    private let byteCountMax: Int
    private let state = Mutex(State())
    private let lost = Atomic<Int>(0)

    /// `descriptor` stays open and belongs to the caller. `byteCountMax`: bytes that may wait in memory.
    package init(_ descriptor: Int32, byteCountMax: Int = 1 << 20) {
        self.descriptor = descriptor
        self.byteCountMax = byteCountMax
    }

    /// Number of dropped lines.
    package var lostCount: Int { lost.load(ordering: .relaxed) }

    /// Writes a line, or keeps it while the descriptor is not writable. `notice` returns a line with the
    /// number of dropped lines, which is written in their place when there is room again.
    package func write(_ line: [UInt8], notice: (Int) -> [UInt8]) {
        state.withLock { state in
            drain(&state)
            if state.unreportedCount > 0 {
                guard state.waitingByteCount <= byteCountMax / 2 else { return drop(1, &state) }
                let count = state.unreportedCount
                state.unreportedCount = 0
                add(notice(count), &state)
            }
            add(line, &state)
            drain(&state)
        }
    }

    /// Writes waiting lines as far as possible without blocking. Returns `true` if none is left.
    @discardableResult
    package func flush() -> Bool {
        state.withLock { state in
            drain(&state)
            return state.waiting.isEmpty
        }
    }

    /// Writes waiting lines at the end of the process. Waits for at most `milliseconds`.
    package func finish(milliseconds: Int32) {
        let end = monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
        while !flush() {
            let left = end - monotonicNanoseconds()
            guard left > 0 else { return }
            _ = isReady(milliseconds: Int32(left / 1_000_000 + 1))
        }
    }

    private func add(_ line: [UInt8], _ state: inout State) {
        guard state.waitingByteCount + line.count <= byteCountMax else { return drop(1, &state) }
        state.waiting.append(line)
        state.waitingByteCount += line.count
    }

    private func drop(_ count: Int, _ state: inout State) {
        state.unreportedCount += count
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
            // The reader is gone, or the disk is full: drop the line and try the next one.
            if written < 0 { drop(1, &state) }
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
