/// Reads the members of one untrusted object and reports each that is invalid, missing or unknown.
///
/// A missing member reads as `nil` without an error. `finish` reports the members that were never read.
struct FieldReader {
    /// JSON Pointer of the object: `#`, `#/request`, `#/jobs/17`.
    let path: String
    /// The errors found so far.
    let errors: ValidationErrors
    private let view: JSONView
    private let memberCount: Int
    /// A bit for each length that a name of a member may have, in bytes; the last one for all longer names.
    /// Most fields of an object are absent, and so are their lengths.
    private let nameLengths: UInt64
    /// A bit for each of the first 64 members: whether it was read.
    private var readMembers: UInt64 = 0
    /// Whether each further member was read.
    private var furtherRead: [Bool] = []

    /// Creates a reader. Returns `nil` and reports an error if the value is no object.
    init?(_ value: JSONView, at path: String, _ errors: ValidationErrors) {
        guard value.isObject else {
            errors.addWrongType(path, "an object", value)
            return nil
        }
        self.path = path
        self.errors = errors
        view = value
        var (count, lengths) = (0, UInt64(0))
        for (name, _) in value.pairs {
            count += 1
            // The length of a name with escapes is not known yet.
            lengths |= name.kind == .plainString ? Self.bit(Int(name.end - name.start)) : .max
        }
        (memberCount, nameLengths) = (count, lengths)
        if memberCount > 64 { furtherRead = Array(repeating: false, count: memberCount - 64) }
    }

    private static func bit(_ length: Int) -> UInt64 { 1 << UInt64(min(length, 63)) }

    private func member(_ name: String) -> (place: Int, value: JSONView)? {
        nameLengths & Self.bit(name.utf8.count) == 0 ? nil : view.member(name)
    }

    /// Returns `true` if the member at a place of the object was read.
    private func isRead(_ place: Int) -> Bool {
        place < 64 ? readMembers & 1 << UInt64(place) != 0 : furtherRead[place - 64]
    }

    /// Returns the JSON Pointer of a member.
    func pointer(_ name: String) -> String { "\(path)/\(pointerStep(name))" }

    /// Reports an error of a member.
    func addError(_ name: String, _ code: String, _ detail: String) {
        errors.add(pointer(name), code, detail)
    }

    /// Returns `true` if the member is present, null included.
    func has(_ name: String) -> Bool { member(name) != nil }

    /// `true` if a member is null.
    var hasNull: Bool { view.pairs.contains { $0.value.isNull } }

    /// `true` if a member was not read.
    var hasUnread: Bool { readMembers.nonzeroBitCount < min(memberCount, 64) || furtherRead.contains(false) }

    /// Returns `true` if the member is present and not null.
    func hasValue(_ name: String) -> Bool { member(name)?.value.isNull == false }

    /// Returns a member of an object that is a member, or `nil` if one of them is absent. Neither counts as
    /// read.
    func member(_ name: String, of object: String) -> JSONView? { member(object)?.value[name] }

    /// Returns the member unchanged, or `nil` if it is absent.
    mutating func value(_ name: String) -> JSONView? {
        guard let (place, value) = member(name) else { return nil }
        if place < 64 { readMembers |= 1 << UInt64(place) } else { furtherRead[place - 64] = true }
        return value
    }

    /// Returns the members whose names begin with `prefix`.
    func members(withPrefix prefix: String) -> [JSONView.Member] {
        (view.members ?? []).filter { $0.name.utf8.starts(with: prefix.utf8) }
    }

    /// Reports each member that was not read as unknown, unless its name begins with `prefix`.
    /// `nearest` returns the field that was probably meant.
    func finish(except prefix: String?, nearest: (String) -> String?) {
        guard hasUnread else { return }
        for (place, member) in (view.members ?? []).enumerated() where !isRead(place) && !errors.isFull {
            if let prefix, member.name.utf8.starts(with: prefix.utf8) { continue }
            let hint = nearest(member.name).map { " Did you mean \($0)?" } ?? ""
            addError(member.name, "unknown_field", "There is no field of this name here." + hint)
        }
    }
}
