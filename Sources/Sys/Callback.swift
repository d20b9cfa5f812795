/// Function without arguments that can be stored in a generic container, such as a `Mutex`.
///
/// A bare function must not be stored there. `Mutex.withLock` passes its value as `inout` with the calling
/// convention of generic code: each access converts the function to the usual convention and back, and stores
/// the result. Every conversion adds a frame to each later call, so that the stack overflows after some
/// thousand accesses. A structure is passed as it is.
public struct Callback: Sendable {
    private let body: @Sendable () -> Void

    /// Wraps a function.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    /// Calls the function.
    public func callAsFunction() { body() }
}

/// Like `Callback`, for a function with one argument.
public struct ValueCallback<Value>: Sendable {
    private let body: @Sendable (Value) -> Void

    /// Wraps a function.
    public init(_ body: @escaping @Sendable (Value) -> Void) { self.body = body }

    /// Calls the function.
    public func callAsFunction(_ value: Value) { body(value) }
}
