/// Reads the members of one untrusted object and reports each that is invalid, missing or unknown.
///
/// A missing member reads as `nil` without an error. `finish` reports the members that were never read.
package struct FieldReader {
    /// JSON Pointer of the object: `#`, `#/request`, `#/jobs/17`.
    package let path: String
    /// The errors found so far.
    package let errors: ValidationErrors
    private let members: [JSON.Member]
    private var isRead: [Bool]
    private let patch: JSON?
    /// Members that the patch has removed. They have no value, but their names must be known fields.
    private var removed: [(name: String, isRead: Bool)]

    /// Creates a reader. Returns `nil` and reports an error if the value is no object. `mergedWith`: the part
    /// of the merge patch (RFC 7396) that led to the value.
    package init?(
        _ value: JSON, at path: String, _ errors: ValidationErrors, mergedWith patch: JSON? = nil
    ) {
        guard case .object(let members) = value else {
            errors.addWrongType(path, "an object", value)
            return nil
        }
        self.path = path
        self.errors = errors
        self.members = members
        isRead = [Bool](repeating: false, count: members.count)
        self.patch = patch
        removed = (patch?.members ?? []).filter(\.value.isNull).map { (name: $0.name, isRead: false) }
    }

    /// Returns the JSON Pointer of a member.
    package func pointer(_ name: String) -> String { "\(path)/\(pointerStep(name))" }

    /// Reports an error of a member.
    package func addError(_ name: String, _ code: String, _ detail: String) {
        errors.add(pointer(name), code, detail)
    }

    /// Returns `true` if the member is present, null included.
    package func has(_ name: String) -> Bool { members.contains { $0.name.hasSameBytes(as: name) } }

    /// `true` if a member is null.
    var hasNull: Bool { members.contains { $0.value.isNull } }

    /// Returns `true` if the member is present and not null.
    package func hasValue(_ name: String) -> Bool {
        members.contains { $0.name.hasSameBytes(as: name) && !$0.value.isNull }
    }

    /// Returns the member unchanged, or `nil` if it is absent.
    package mutating func value(_ name: String) -> JSON? {
        if let index = removed.firstIndex(where: { $0.name.hasSameBytes(as: name) }) {
            removed[index].isRead = true
        }
        guard let index = members.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else { return nil }
        isRead[index] = true
        return members[index].value
    }

    /// Returns the member, or `nil` if it is absent, or null and nullable.
    private mutating func present(_ name: String, _ isNullable: Bool) -> JSON? {
        guard let value = value(name), !(isNullable && value.isNull) else { return nil }
        return value
    }

    /// Reports a wrong type and returns `nil`.
    private func wrongType<T>(_ name: String, _ expected: String, _ value: JSON) -> T? {
        errors.addWrongType(pointer(name), expected, value)
        return nil
    }

    /// Reads a string; `byteCounts` limits its length in bytes.
    package mutating func string(
        _ name: String, byteCounts: ClosedRange<Int> = 0...Int.max, isNullable: Bool = false
    ) -> String? {
        guard let value = present(name, isNullable) else { return nil }
        guard let text = value.string else { return wrongType(name, "a string", value) }
        let count = text.utf8.count
        if count > byteCounts.upperBound {
            addError(
                name, "too_long", "At most \(byteCounts.upperBound) bytes are allowed, these are \(count).")
            return nil
        }
        if count < byteCounts.lowerBound {
            addError(name, "invalid_value", "This must not be empty.")
            return nil
        }
        return text
    }

    /// Reads an integer of a range.
    package mutating func integer(
        _ name: String, in range: ClosedRange<Int64>, isNullable: Bool = false
    ) -> Int64? {
        guard let value = present(name, isNullable) else { return nil }
        var number = value.integer
        // `5.0` is an integer as well (JSON Schema 2020-12 §6.1.1).
        if number == nil, let double = value.double { number = Int64(exactly: double) }
        guard let number else {
            if let double = value.double, abs(double) >= 9.2e18 {
                return outOfRange(name, "\(range.lowerBound)", "\(range.upperBound)")
            }
            return wrongType(name, "an integer", value)
        }
        return range.contains(number)
            ? number : outOfRange(name, "\(range.lowerBound)", "\(range.upperBound)")
    }

    /// Reads a number of a range.
    package mutating func number(_ name: String, in range: ClosedRange<Double>) -> Double? {
        guard let value = value(name) else { return nil }
        guard let number = value.double else { return wrongType(name, "a number", value) }
        return range.contains(number)
            ? number : outOfRange(name, decimalText(range.lowerBound), decimalText(range.upperBound))
    }

    /// Reports a value outside the range and returns `nil`.
    private func outOfRange<T>(_ name: String, _ least: String, _ most: String) -> T? {
        addError(name, "out_of_range", "This must be from \(least) to \(most).")
        return nil
    }

    /// Like `number`, with null as absent.
    package mutating func optionalNumber(_ name: String, in range: ClosedRange<Double>) -> Double? {
        guard present(name, true) != nil else { return nil }
        return number(name, in: range)
    }

    /// Reads a boolean.
    package mutating func bool(_ name: String, isNullable: Bool = false) -> Bool? {
        guard let value = present(name, isNullable) else { return nil }
        return value.bool ?? wrongType(name, "a boolean", value)
    }

    /// Reads a time (RFC 3339), with null as absent.
    package mutating func timestamp(_ name: String) -> Timestamp? {
        guard let value = present(name, true) else { return nil }
        guard let text = value.string else { return wrongType(name, "a string", value) }
        guard let instant = Timestamp(rfc3339: text) else {
            addError(name, "invalid_value", "This must be an RFC 3339 time such as 2026-11-21T22:00:00Z.")
            return nil
        }
        return instant
    }

    /// Reads one of an enumeration's raw values. `later`: values of the API that this version does not
    /// support yet.
    package mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String, _ type: Choice.Type, later: [String] = []
    ) -> Choice? where Choice.RawValue == String {
        guard let value = value(name) else { return nil }
        guard let text = value.string else { return wrongType(name, "a string", value) }
        if let choice = Choice(rawValue: text) { return choice }
        refuse(name, text, among: Choice.allCases.map(\.rawValue), later: later)
        return nil
    }

    private func refuse(_ name: String, _ text: String, among possible: [String], later: [String]) {
        if later.contains(text) {
            addError(name, "not_supported", "\"\(text)\" is not supported yet by this version of Ferry.")
        } else {
            addError(name, "invalid_value", "This must be one of: \(possible.joined(separator: ", ")).")
        }
    }

    /// Checks a string of which only the values in `possible` are supported and those in `later` are known.
    package mutating func only(_ possible: [String], _ name: String, later: [String]) {
        guard let value = value(name) else { return }
        guard let text = value.string else { return wrongType(name, "a string", value) ?? () }
        if !possible.contains(text) { refuse(name, text, among: possible, later: later) }
    }

    /// Checks a field of the API that this version does not support: only the value that turns it off is
    /// accepted.
    package mutating func off(_ name: String, _ off: JSON, _ what: String) {
        guard let value = value(name), value != off else { return }
        guard off.isNull || value.typeName == off.typeName else {
            return errors.addWrongType(pointer(name), off.typeName, value)
        }
        addError(name, "not_supported", "\(what) not supported yet by this version of Ferry; leave this out.")
    }

    /// Returns a reader of the member, which must be an object.
    package mutating func object(_ name: String, isNullable: Bool = false) -> FieldReader? {
        guard let value = present(name, isNullable) else { return nil }
        return FieldReader(value, at: pointer(name), errors, mergedWith: patch?[name])
    }

    /// Reads an array of at most `countMax` values.
    package mutating func array(_ name: String, countMax: Int) -> [JSON]? {
        guard let value = value(name) else { return nil }
        guard let values = value.array else { return wrongType(name, "an array", value) }
        guard values.count <= countMax else {
            addError(name, "too_many", "At most \(countMax) entries are allowed, these are \(values.count).")
            return nil
        }
        return values
    }

    /// Reads an array of different strings of 1 to `byteCountMax` bytes.
    package mutating func strings(_ name: String, countMax: Int, byteCountMax: Int) -> [String]? {
        guard let values = array(name, countMax: countMax) else { return nil }
        var strings: [String] = []
        for (index, value) in values.enumerated() {
            let place = "\(pointer(name))/\(index)"
            guard let text = value.string else {
                errors.addWrongType(place, "a string", value)
                continue
            }
            if text.isEmpty || text.utf8.count > byteCountMax {
                errors.add(place, "invalid_value", "This must be 1 to \(byteCountMax) bytes long.")
            } else if strings.contains(text) {
                errors.add(place, "duplicate", "This occurs twice.")
            } else {
                strings.append(text)
            }
        }
        return strings
    }

    /// Returns all members and marks them as read; for objects whose names the client chooses.
    package mutating func all(countMax: Int) -> [JSON.Member] {
        for index in isRead.indices { isRead[index] = true }
        for index in removed.indices { removed[index].isRead = true }
        if members.count > countMax {
            errors.add(
                path, "too_many", "At most \(countMax) entries are allowed, these are \(members.count).")
            return []
        }
        return members
    }

    /// Reports each member that was not read as unknown.
    package func finish() {
        let unread = members.indices.filter { !isRead[$0] }.map { members[$0].name }
        for name in unread + removed.filter({ !$0.isRead }).map({ $0.name }) {
            addError(name, "unknown_field", "There is no field of this name here.")
        }
    }
}
