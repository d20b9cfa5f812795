internal import Synchronization

/// A function that is set after its owner was made, and called by any thread.
///
/// Functions are not stored in a `Mutex` directly: the lock passes its value as a generic `inout`, and each access
/// wraps the function in one more conversion between the generic and the specific calling convention. After some
/// thousand accesses a call goes through so many conversions that it overflows the stack. A structure that holds the
/// function is passed unchanged.
package final class Callback<Argument>: Sendable {
    private struct Function: Sendable {
        let body: @Sendable (Argument) -> Void
    }

    private let function = Mutex<Function?>(nil)

    package init() {}

    /// Replaces the function.
    package func set(_ body: @escaping @Sendable (Argument) -> Void) {
        let new = Function(body: body)
        function.withLock { $0 = new }
    }

    /// Calls the function outside of the lock. Has no effect if none was set.
    package func callAsFunction(_ argument: Argument) {
        let current = function.withLock { $0 }
        current?.body(argument)
    }
}

extension Callback<Void> {
    /// Calls the function outside of the lock. Has no effect if none was set.
    package func callAsFunction() { callAsFunction(()) }
}
