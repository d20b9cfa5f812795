/// W3C Trace Context of a submission. It is stored as one text: `traceparent`, then, if the client sent one,
/// a space and `tracestate`.
public struct TraceContext: Sendable, Equatable {
    /// Value of `traceparent`.
    public let parent: String
    /// Value of `tracestate`, or `nil` if there is none.
    public let state: String?

    /// Reads a stored text.
    public init(_ text: String) {
        guard let space = text.firstIndex(ofByte: 0x20) else {
            (parent, state) = (text, nil)
            return
        }
        parent = String(text[..<space])
        state = String(text[text.utf8.index(after: space)...])
    }

    /// Returns the text to store.
    public static func text(parent: String, state: String?) -> String {
        state.map { "\(parent) \($0)" } ?? parent
    }

    /// Returns the value of `tracestate` from the fields of a request, which form one list (§3.3); `nil` if
    /// there are none or the list is invalid. If it is too long, members are dropped: first long ones, then
    /// the last ones (§3.3.1.5).
    public static func state(_ fields: [String]) -> String? {
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

    /// Bytes above which a member counts as long.
    private static let longMember = 128

    private static func key(_ member: Substring) -> Substring { member.prefix { $0 != "=" } }

    /// Returns `true` for `key "=" value` (§3.3.1.3).
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
