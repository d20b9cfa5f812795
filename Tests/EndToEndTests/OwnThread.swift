import Sys
import Testing

/// Runs each test on a thread of its own: these tests wait for other processes, and on the two threads of
/// Swift's pool only two of them could wait at a time.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor.shared) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    static var onOwnThread: Self { Self() }
}

/// A thread for each piece of work between two suspensions.
private final class ThreadExecutor: TaskExecutor {
    static let shared = ThreadExecutor()

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        _ = Thread(name: "test") { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
