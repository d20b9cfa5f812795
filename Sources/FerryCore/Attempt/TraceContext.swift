/// The W3C Trace Context of a submission. What is kept of it is one text: `traceparent`, then, if the client
/// gave one, a space and `tracestate`.
package struct TraceContext: Sendable, Equatable {
    package let parent: String
    /// Nil: there is none.
    package let state: String?

    /// Reads what `text` has made. Without a state nothing is copied.
    package init(_ text: String) {
        guard let space = text.utf8.firstIndex(of: 0x20) else {
            (parent, state) = (text, nil)
            return
        }
        parent = String(text[..<space])
        state = String(text[text.utf8.index(after: space)...])
    }

    package static func text(parent: String, state: String?) -> String {
        state.map { "\(parent) \($0)" } ?? parent
    }

    /// What the fields of a request say together (§3.3: they are one list); nil when there is none or it is
    /// no list of members. Of one that is too long members are left out, the long ones and the last ones
    /// first (§3.3.1.5).
    package static func state(_ fields: [String]) -> String? {
        guard !fields.isEmpty else { return nil }
        var members = fields.flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }
            .map { Substring($0).trimmed }.filter { !$0.isEmpty }
        guard (1...Limits.traceStateMemberCountMax).contains(members.count), members.allSatisfy(isMember),
            Set(members.map(key)).count == members.count
        else { return nil }
        while members.reduce(-1, { $0 + $1.utf8.count + 1 }) > Limits.traceStateByteCountMax {
            members.remove(at: members.lastIndex { $0.utf8.count > longMember } ?? members.count - 1)
        }
        return members.isEmpty ? nil : members.joined(separator: ",")
    }

    private static let longMember = 128

    private static func key(_ member: Substring) -> Substring { member.prefix { $0 != "=" } }

    /// `key "=" value` (§3.3.1.3).
    private static func isMember(_ member: Substring) -> Bool {
        let parts = member.utf8.split(
            separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, (1...256).contains(parts[0].count), (1...256).contains(parts[1].count),
            let first = parts[0].first, isLowerOrDigit(first)
        else { return false }
        return parts[0].allSatisfy { isLowerOrDigit($0) || "_-*/@".utf8.contains($0) }
            && parts[1].allSatisfy { (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "=") }
    }

    private static func isLowerOrDigit(_ byte: UInt8) -> Bool {
        (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte)
    }
}
