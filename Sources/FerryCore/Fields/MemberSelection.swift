/// Members of an object of responses that a client has selected by their names, such as `id` and
/// `error.code`.
public struct MemberSelection: Sendable, Equatable {
    /// The selected members of the object; empty if all of it is selected.
    private var members: [String: MemberSelection] = [:]

    /// Creates a selection of the whole object. The first name that is added limits it.
    public init() {}

    /// Adds the member with these names, one for each level. A whole object includes its members, whichever
    /// was added first.
    public mutating func add(_ names: some Collection<String>) {
        guard let name = names.first else {
            members = [:]
            return
        }
        var member = members[name] ?? MemberSelection()
        let isWhole = members[name] != nil && member.members.isEmpty
        if !isWhole { member.add(names.dropFirst()) }
        members[name] = member
    }

    /// Writes the selected members of an object that is JSON already, in its order. Selected members that the
    /// object does not have are left out; a value without members is written whole.
    public func write(_ object: [UInt8], into writer: inout JSONWriter) throws(JSON.SyntaxError) {
        write(try JSONView(parsing: object), into: &writer)
    }

    private func write(_ value: JSONView, into writer: inout JSONWriter) {
        guard !members.isEmpty, value.isObject else { return writer.value(value) }
        writer.beginObject()
        for member in value.members ?? [] {
            guard let selection = members[member.name] else { continue }
            writer.name(member.name)
            selection.write(member.value, into: &writer)
        }
        writer.endObject()
    }
}
