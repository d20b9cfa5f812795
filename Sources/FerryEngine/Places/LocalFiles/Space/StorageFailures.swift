import FerryCore
import Glibc
import Synchronization
import Sys

/// The file systems that cannot be written to: read-only after errors, without their server or device, or
/// beyond what the process may have open. A file system stays listed until a trial has succeeded. Any thread.
final class StorageFailures: Sendable {
    private struct Failure {
        /// The directory where a write failed.
        let place: StorageDirectory
        var osError: Int32
        var metAt: Int64
    }

    private let failures = Mutex<[dev_t: Failure]>([:])
    private let counter = Atomic<Int>(0)

    /// Number of file systems. Costs one atomic load.
    var count: Int { counter.load(ordering: .relaxed) }

    /// The errno of the last failed write to a file system; `nil` if it can be written to as far as is known.
    subscript(device: dev_t) -> Int32? { count == 0 ? nil : failures.withLock { $0[device]?.osError } }

    /// Like the subscript, for a transfer that wants to write there: the entry is then kept longer.
    func meet(_ device: dev_t) -> Int32? {
        guard count > 0 else { return nil }
        return failures.withLock { failures in
            failures[device]?.metAt = monotonicNanoseconds()
            return failures[device]?.osError
        }
    }

    func note(_ osError: Int32, at place: StorageDirectory, on device: dev_t) {
        change { $0[device] = Failure(place: place, osError: osError, metAt: monotonicNanoseconds()) }
    }

    /// Throws `storage_unavailable` if writing to the file system is known to fail.
    func check(_ device: dev_t) throws(TransferError) {
        if let osError = meet(device) { throw storageError(osError) }
    }

    /// Tries each file system again. Forgets those that can be written to, and those that no transfer has
    /// asked about since `instant`. File thread: a file system that fails may take its time.
    func lookAgain(metBefore instant: Int64) {
        guard count > 0 else { return }
        let known = failures.withLock { $0 }
        for (device, failure) in known {
            let osError = failure.place.writingTrial()
            let isOver = !saysUnavailable(osError)
            change { failures in
                // Another failure was noted during the trial.
                guard let now = failures[device], now.place === failure.place else { return }
                if isOver || now.metAt <= instant {
                    failures[device] = nil
                } else {
                    failures[device]?.osError = osError
                }
            }
        }
    }

    private func change(_ body: (inout [dev_t: Failure]) -> Void) {
        failures.withLock { failures in
            body(&failures)
            counter.store(failures.count, ordering: .relaxed)
        }
    }
}

/// Whether an errno says that no file there can be written. A file system that denies permission or has no
/// room left works.
func saysUnavailable(_ osError: Int32) -> Bool {
    osError != 0 && storageError(osError).code == .storageUnavailable
}
