/// A name and its value.
public struct NameValuePair: Sendable, Equatable {
    /// Name.
    public var name: String
    /// Value.
    public var value: String
    /// Creates a pair.
    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}
