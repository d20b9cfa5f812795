/// The state of the content store in a bucket, as a node sees it.
public struct ContentStoreStatus: Sendable, Equatable {
    /// `false` if the store did not answer the last request of the node.
    public let isAvailable: Bool
    /// Number in the database that each sweep raises.
    public let generation: Int64
    /// When the last sweep of a node began; `nil` if none has.
    public let sweptAt: Timestamp?
    /// `true` if the store has a higher generation: the database was restored.
    public let isRestored: Bool
    /// Objects and incomplete multipart uploads that sweeps of the node have removed.
    public let removedCount: Int64
    /// Reads of contents on the node whose object the store no longer has.
    public let missingCount: Int64

    /// Creates a state.
    public init(
        isAvailable: Bool, generation: Int64, sweptAt: Timestamp?, isRestored: Bool, removedCount: Int64,
        missingCount: Int64
    ) {
        self.isAvailable = isAvailable
        self.generation = generation
        self.sweptAt = sweptAt
        self.isRestored = isRestored
        self.removedCount = removedCount
        self.missingCount = missingCount
    }
}
