import CSys
import Glibc

/// A kernel thread. Everything that blocks runs on these, never on Swift's cooperative thread pool.
///
/// Unchecked: `pthread_t` is an integer on Linux, and any thread may call `join`, once.
public struct Thread: @unchecked Sendable {
    private let handle: pthread_t

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void
        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Starts a thread. `name`: at most 15 bytes; the kernel ignores a longer one (pthread_setname_np(3)).
    /// SIGTERM, SIGINT and SIGHUP stay blocked as in the caller, so that only the thread that waits for them
    /// receives them.
    ///
    /// Ends the process if no thread can be created. Servers create all their threads at the start.
    public init(name: String, stackSize: Int = 1 << 20, _ run: @escaping @Sendable () -> Void) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, stackSize)
        defer { pthread_attr_destroy(&attributes) }
        var handle = pthread_t()
        let body = Unmanaged.passRetained(Body(name: name, run: run))
        let code = pthread_create(
            &handle, &attributes,
            { raw in
                guard let raw else { return nil }
                let body = Unmanaged<Body>.fromOpaque(raw).takeRetainedValue()
                csys_name_thread(body.name)
                csys_use_signal_stack()
                body.run()
                return nil
            }, body.toOpaque())
        // No input reaches this: requests create no thread.
        precondition(code == 0, "pthread_create failed with \(code): the process is out of threads or memory")
        self.handle = handle
    }

    /// Waits until the thread has ended. Call once.
    public func join() {
        pthread_join(handle, nil)
    }
}
