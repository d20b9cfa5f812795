/// Returns `true` if two URLs may lead to the same file: they differ at most in the query, as signed URLs do.
public func isSameLink(_ one: String, _ other: String) -> Bool {
    one.prefix { $0 != "?" } == other.prefix { $0 != "?" }
}
