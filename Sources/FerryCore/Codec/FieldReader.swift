/// Reads the members of one untrusted object and complains about each that is wrong, missing or unknown.
///
/// A member that is absent reads as nil without a complaint. `finish` names what nobody asked for.
package struct FieldReader {
    /// Of the object itself: `#`, `#/request`, `#/jobs/17`.
    package let path: String
    package let complaints: ValidationErrors
    private let members: [JSON.Member]
    private var isRead: [Bool]
    private let patch: JSON?
    /// What the patch has taken out. There is nothing left of it to read, but its names have to be known.
    private var removed: [(name: String, isRead: Bool)]

    /// Nil, with a complaint, when the value is no object. `mergedWith`: the merge patch (RFC 7396) that made
    /// the value what it is, from this place on.
    package init?(
        _ value: JSON, at path: String, _ complaints: ValidationErrors, mergedWith patch: JSON? = nil
    ) {
        guard case .object(let members) = value else {
            complaints.addWrongType(path, "an object", value)
            return nil
        }
        self.path = path
        self.complaints = complaints
        self.members = members
        isRead = [Bool](repeating: false, count: members.count)
        self.patch = patch
        removed = (patch?.members ?? []).filter(\.value.isNull).map { (name: $0.name, isRead: false) }
    }

    package func pointer(_ name: String) -> String { "\(path)/\(pointerStep(name))" }

    package func complain(_ name: String, _ code: String, _ detail: String) {
        complaints.add(pointer(name), code, detail)
    }

    /// Whether the member is there, null included.
    package func has(_ name: String) -> Bool { members.contains { $0.name.hasSameBytes(as: name) } }

    /// Whether the member is there and not null.
    package func hasValue(_ name: String) -> Bool {
        members.contains { $0.name.hasSameBytes(as: name) && !$0.value.isNull }
    }

    /// The member as it is; nil when absent.
    package mutating func value(_ name: String) -> JSON? {
        if let index = removed.firstIndex(where: { $0.name.hasSameBytes(as: name) }) {
            removed[index].isRead = true
        }
        guard let index = members.firstIndex(where: { $0.name.hasSameBytes(as: name) }) else { return nil }
        isRead[index] = true
        return members[index].value
    }

    /// The member unless it is absent, or null where null means absent.
    private mutating func present(_ name: String, _ isNullable: Bool) -> JSON? {
        guard let value = value(name), !(isNullable && value.isNull) else { return nil }
        return value
    }

    private func wrongType<T>(_ name: String, _ expected: String, _ value: JSON) -> T? {
        complaints.addWrongType(pointer(name), expected, value)
        return nil
    }

    package mutating func string(
        _ name: String, byteCounts: ClosedRange<Int> = 0...Int.max, isNullable: Bool = false
    ) -> String? {
        guard let value = present(name, isNullable) else { return nil }
        guard let text = value.string else { return wrongType(name, "a string", value) }
        let count = text.utf8.count
        if count > byteCounts.upperBound {
            complain(
                name, "too_long", "At most \(byteCounts.upperBound) bytes are allowed, these are \(count).")
            return nil
        }
        if count < byteCounts.lowerBound {
            complain(name, "invalid_value", "This must not be empty.")
            return nil
        }
        return text
    }

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

    package mutating func number(_ name: String, in range: ClosedRange<Double>) -> Double? {
        guard let value = value(name) else { return nil }
        guard let number = value.double else { return wrongType(name, "a number", value) }
        return range.contains(number)
            ? number : outOfRange(name, decimalText(range.lowerBound), decimalText(range.upperBound))
    }

    private func outOfRange<T>(_ name: String, _ least: String, _ most: String) -> T? {
        complain(name, "out_of_range", "This must be from \(least) to \(most).")
        return nil
    }

    /// As `number`; null is absent.
    package mutating func optionalNumber(_ name: String, in range: ClosedRange<Double>) -> Double? {
        guard present(name, true) != nil else { return nil }
        return number(name, in: range)
    }

    package mutating func bool(_ name: String, isNullable: Bool = false) -> Bool? {
        guard let value = present(name, isNullable) else { return nil }
        return value.bool ?? wrongType(name, "a boolean", value)
    }

    package mutating func timestamp(_ name: String) -> Timestamp? {
        guard let value = present(name, true) else { return nil }
        guard let text = value.string else { return wrongType(name, "a string", value) }
        guard let instant = Timestamp(rfc3339: text) else {
            complain(name, "invalid_value", "This must be an RFC 3339 time such as 2026-11-21T22:00:00Z.")
            return nil
        }
        return instant
    }

    /// One of an enumeration's raw values; `later`: values of the contract that this version cannot do yet.
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
            complain(name, "not_supported", "\"\(text)\" is not supported yet by this version of Ferry.")
        } else {
            complain(name, "invalid_value", "This must be one of: \(possible.joined(separator: ", ")).")
        }
    }

    /// A string for which only `possible` is implemented and `later` is known.
    package mutating func only(_ possible: [String], _ name: String, later: [String]) {
        guard let value = value(name) else { return }
        guard let text = value.string else { return wrongType(name, "a string", value) ?? () }
        if !possible.contains(text) { refuse(name, text, among: possible, later: later) }
    }

    /// A field of the contract that this version does not implement: only what means "off" is accepted.
    package mutating func off(_ name: String, _ off: JSON, _ what: String) {
        guard let value = value(name), value != off else { return }
        guard off.isNull || value.typeName == off.typeName else {
            return complaints.addWrongType(pointer(name), off.typeName, value)
        }
        complain(name, "not_supported", "\(what) not supported yet by this version of Ferry; leave this out.")
    }

    /// A reader of the object under this name.
    package mutating func object(_ name: String, isNullable: Bool = false) -> FieldReader? {
        guard let value = present(name, isNullable) else { return nil }
        return FieldReader(value, at: pointer(name), complaints, mergedWith: patch?[name])
    }

    package mutating func array(_ name: String, countMax: Int) -> [JSON]? {
        guard let value = value(name) else { return nil }
        guard let values = value.array else { return wrongType(name, "an array", value) }
        guard values.count <= countMax else {
            complain(name, "too_many", "At most \(countMax) entries are allowed, these are \(values.count).")
            return nil
        }
        return values
    }

    /// Strings that occur once each.
    package mutating func strings(_ name: String, countMax: Int, byteCountMax: Int) -> [String]? {
        guard let values = array(name, countMax: countMax) else { return nil }
        var strings: [String] = []
        for (index, value) in values.enumerated() {
            let place = "\(pointer(name))/\(index)"
            guard let text = value.string else {
                complaints.addWrongType(place, "a string", value)
                continue
            }
            if text.isEmpty || text.utf8.count > byteCountMax {
                complaints.add(place, "invalid_value", "This must be 1 to \(byteCountMax) bytes long.")
            } else if strings.contains(text) {
                complaints.add(place, "duplicate", "This occurs twice.")
            } else {
                strings.append(text)
            }
        }
        return strings
    }

    /// The object's members, all of them known; for objects whose names the client chooses.
    package mutating func all(countMax: Int) -> [JSON.Member] {
        for index in isRead.indices { isRead[index] = true }
        for index in removed.indices { removed[index].isRead = true }
        if members.count > countMax {
            complaints.add(
                path, "too_many", "At most \(countMax) entries are allowed, these are \(members.count).")
            return []
        }
        return members
    }

    /// Complains about each member that nobody has asked for.
    package func finish() {
        let unread = members.indices.filter { !isRead[$0] }.map { members[$0].name }
        for name in unread + removed.filter({ !$0.isRead }).map({ $0.name }) {
            complain(name, "unknown_field", "There is no field of this name here.")
        }
    }
}
