import FerryCore
import Glibc
import Synchronization
import Sys

/// The file systems that cannot be written to, as far as nobody has seen yet that they can be again:
/// read-only after errors, without their server or device, or beyond what the process may have open. Any
/// thread.
final class StorageFailures: Sendable {
    private struct Trouble {
        /// Where somebody failed to write.
        let place: StorageDirectory
        var osError: Int32
        var metAt: Int64
    }

    private let troubles = Mutex<[dev_t: Trouble]>([:])
    private let counter = Atomic<Int>(0)

    /// How many there are: one load.
    var count: Int { counter.load(ordering: .relaxed) }

    /// What the kernel said about writing to a file system; nil: nothing is known against it.
    subscript(device: dev_t) -> Int32? { count == 0 ? nil : troubles.withLock { $0[device]?.osError } }

    /// The same of somebody who wants to write there: it is not forgotten.
    func meet(_ device: dev_t) -> Int32? {
        guard count > 0 else { return nil }
        return troubles.withLock { troubles in
            troubles[device]?.metAt = monotonicNanoseconds()
            return troubles[device]?.osError
        }
    }

    func note(_ osError: Int32, at place: StorageDirectory, on device: dev_t) {
        change { $0[device] = Trouble(place: place, osError: osError, metAt: monotonicNanoseconds()) }
    }

    /// Throws `storage_unavailable` where writing is known to fail.
    func check(_ device: dev_t) throws(TransferError) {
        if let osError = meet(device) { throw storageError(osError) }
    }

    /// Tries each again, and forgets those that nobody has met since an instant. A file thread: what is in
    /// trouble may take its time.
    func lookAgain(metBefore instant: Int64) {
        guard count > 0 else { return }
        let known = troubles.withLock { $0 }
        for (device, trouble) in known {
            let osError = trouble.place.writingTrial()
            let isOver = !saysUnavailable(osError)
            change { troubles in
                // Somebody has met it anew, from elsewhere, while we looked.
                guard let now = troubles[device], now.place === trouble.place else { return }
                if isOver || now.metAt <= instant {
                    troubles[device] = nil
                } else {
                    troubles[device]?.osError = osError
                }
            }
        }
    }

    private func change(_ body: (inout [dev_t: Trouble]) -> Void) {
        troubles.withLock { troubles in
            body(&troubles)
            counter.store(troubles.count, ordering: .relaxed)
        }
    }
}

/// Whether an errno says that nobody can write there, whatever the file. Who may not, or finds no room, has
/// found a file system that works.
func saysUnavailable(_ osError: Int32) -> Bool {
    osError != 0 && storageError(osError).code == .storageUnavailable
}
