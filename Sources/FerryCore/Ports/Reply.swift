/// Receives the result of an operation of the store: called exactly once, on a thread that must not block.
public typealias Reply<Value> = @Sendable (Result<Value, StoreError>) -> Void
