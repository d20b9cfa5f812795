/// Reads the members of one untrusted object and reports each that is invalid, missing or unknown.
///
/// A missing member reads as `nil` without an error. `finish` reports the members that were never read.
struct FieldReader {
    /// JSON Pointer of the object: `#`, `#/request`, `#/jobs/17`.
    let path: String
    /// The errors found so far.
    let errors: ValidationErrors
    private let view: JSONView
    /// Whether each member was read.
    private var isRead: [Bool]

    /// Creates a reader. Returns `nil` and reports an error if the value is no object.
    init?(_ value: JSONView, at path: String, _ errors: ValidationErrors) {
        guard value.isObject else {
            errors.addWrongType(path, "an object", value)
            return nil
        }
        self.path = path
        self.errors = errors
        view = value
        isRead = [Bool](repeating: false, count: value.pairs.reduce(0) { count, _ in count + 1 })
    }

    /// Returns the JSON Pointer of a member.
    func pointer(_ name: String) -> String { "\(path)/\(pointerStep(name))" }

    /// Reports an error of a member.
    func addError(_ name: String, _ code: String, _ detail: String) {
        errors.add(pointer(name), code, detail)
    }

    /// Returns `true` if the member is present, null included.
    func has(_ name: String) -> Bool { view.member(name) != nil }

    /// `true` if a member is null.
    var hasNull: Bool { view.pairs.contains { $0.value.isNull } }

    /// `true` if a member was not read.
    var hasUnread: Bool { isRead.contains(false) }

    /// Returns `true` if the member is present and not null.
    func hasValue(_ name: String) -> Bool { view.member(name)?.value.isNull == false }

    /// Returns the member unchanged, or `nil` if it is absent.
    mutating func value(_ name: String) -> JSONView? {
        guard let (place, value) = view.member(name) else { return nil }
        isRead[place] = true
        return value
    }

    /// Returns the member, or `nil` if it is absent, or null and nullable.
    private mutating func present(_ name: String, _ isNullable: Bool) -> JSONView? {
        guard let value = value(name), !(isNullable && value.isNull) else { return nil }
        return value
    }

    /// Reports a wrong type and returns `nil`.
    private func wrongType<T>(_ name: String, _ expected: String, _ value: JSONView) -> T? {
        errors.addWrongType(pointer(name), expected, value)
        return nil
    }

    /// Reads a string.
    mutating func string(_ name: String, isNullable: Bool = false) -> String? {
        guard let value = present(name, isNullable) else { return nil }
        return value.string ?? wrongType(name, "a string", value)
    }

    /// Returns a reader of the member, which must be an object.
    mutating func object(_ name: String, isNullable: Bool = false) -> FieldReader? {
        guard let value = present(name, isNullable) else { return nil }
        return FieldReader(value, at: pointer(name), errors)
    }

    /// Reads an array of at most `countMax` values.
    mutating func array(_ name: String, countMax: Int) -> [JSONView]? {
        guard let value = value(name) else { return nil }
        guard let values = value.array else { return wrongType(name, "an array", value) }
        guard values.count <= countMax else {
            addError(name, "too_many", "At most \(countMax) entries are allowed, these are \(values.count).")
            return nil
        }
        return values
    }

    /// Returns all members and marks them as read; for objects whose names the client chooses.
    mutating func all(countMax: Int) -> [JSONView.Member] {
        for index in isRead.indices { isRead[index] = true }
        if isRead.count > countMax {
            errors.add(
                path, "too_many", "At most \(countMax) entries are allowed, these are \(isRead.count).")
            return []
        }
        return view.members ?? []
    }

    /// Reports each member that was not read as unknown.
    func finish() {
        guard hasUnread else { return }
        for (member, isRead) in zip(view.members ?? [], isRead) where !isRead {
            addError(member.name, "unknown_field", "There is no field of this name here.")
        }
    }
}
