import Glibc
import Synchronization
import Sys
package import Testing

/// Runs each test on a thread of its own: these tests wait for other threads and processes, and on the two
/// threads of Swift's pool only two of them could wait at a time. So many at once that the machine is kept
/// busy, and not so many that each of them waits for the others instead of what it is about.
package struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor.shared) {
            await Places.shared.take()
            defer { Places.shared.leave() }
            try await function()
        }
    }
}

extension Trait where Self == OwnThread {
    package static var onOwnThread: Self { Self() }
}

/// A thread for each piece of work between two suspensions.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        _ = Thread(name: "test") { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// Who comes when all places are taken waits for one; who came last goes first. What comes late is the next
/// test of a suite that runs one after the other, and all others are there from the start: behind them it
/// would end the run alone.
private final class Places: Sendable {
    static let shared = Places(max(4, 3 * sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    private struct State {
        var freeCount: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }
    private let state: Mutex<State>

    private init(_ count: Int) { state = Mutex(State(freeCount: count)) }

    func take() async {
        await withCheckedContinuation { continuation in
            let hasPlace = state.withLock { state in
                guard state.freeCount == 0 else {
                    state.freeCount -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if hasPlace { continuation.resume() }
        }
    }

    func leave() {
        let next: CheckedContinuation<Void, Never>? = state.withLock { state in
            guard state.waiting.isEmpty else { return state.waiting.removeLast() }
            state.freeCount += 1
            return nil
        }
        next?.resume()
    }
}
