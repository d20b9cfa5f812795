import Glibc
import Synchronization
import Sys
package import Testing

/// Runs each test on a thread of its own. The tests wait for other threads and processes, and only two of
/// them could wait on the two threads of Swift's pool. The number of threads keeps the machine busy without
/// making tests wait for each other.
package struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor.shared) {
            await Places.shared.take()
            let began = monotonicNanoseconds()
            defer {
                TestTimes.add(test, seconds: Double(monotonicNanoseconds() - began) / 1e9)
                Places.shared.leave()
            }
            try await function()
        }
    }
}

extension Trait where Self == OwnThread {
    package static var onOwnThread: Self { Self() }
}

/// Times of the tests, each from its first statement to its last, without its wait for a place: a line of
/// seconds and name for each case, at the end of the file that `FERRY_TEST_TIMES` names.
private enum TestTimes {
    private static let descriptor: Int32? = getenv("FERRY_TEST_TIMES").map {
        open($0, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
    }

    static func add(_ test: Test, seconds: Double) {
        guard let descriptor else { return }
        let module = test.sourceLocation.moduleName
        let line = "\(seconds)\t\(module): \(test.displayName ?? test.name)\n"
        // In one call: the lines of several threads and processes stay whole.
        _ = Array(line.utf8).withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    }
}

/// Executor with a thread for each job between two suspensions.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        _ = Thread(name: "test") { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// When all slots are used, a job waits for one; the latest job goes first. A late job is the next test of a
/// serialized suite. All other tests are queued from the start, and behind them it would end the run alone.
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
