/// How a question to the store is answered: exactly once, on a thread that must not block.
package typealias Reply<Value> = @Sendable (Result<Value, StoreError>) -> Void
