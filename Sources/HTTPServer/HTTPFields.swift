/// Header fields in the order in which they were received or appended. Names compare without regard to ASCII
/// case (RFC 9110 §5.1).
///
/// All names and values share one buffer, and a zero byte ends each of them. So the fields of a request cost
/// two allocations, and the fields of a response are passed to C without copies.
public struct HTTPFields: Sendable {
    struct Entry: Sendable {
        var name: UInt32
        var nameLength: UInt32
        var value: UInt32
        var valueLength: UInt32
    }
    private(set) var bytes: [UInt8] = []
    private(set) var entries: [Entry] = []

    /// Creates an empty list.
    public init() {}

    /// Creates a list of the pairs, in order. A name may occur several times.
    public init(_ pairs: [(name: String, value: String)]) {
        for pair in pairs { append(pair.name, pair.value) }
    }

    /// Number of fields. Each repetition of a name counts.
    public var count: Int { entries.count }

    /// Appends a field. Replaces CR, LF and NUL by spaces, so that no value can begin another field.
    public mutating func append(_ name: String, _ value: String) {
        var name = name
        var value = value
        name.withUTF8 { name in value.withUTF8 { append(name: name, value: $0) } }
    }

    /// Reserves memory for `fields` fields. `bytes`: the sum of all names and values, plus two bytes for each
    /// field.
    mutating func reserve(fields: Int, bytes count: Int) {
        entries.reserveCapacity(fields)
        bytes.reserveCapacity(count)
    }

    mutating func append(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        let start = UInt32(bytes.count)
        appendText(name)
        let middle = UInt32(bytes.count)
        appendText(value)
        entries.append(
            Entry(
                name: start, nameLength: UInt32(name.count), value: middle, valueLength: UInt32(value.count)))
    }

    private mutating func appendText(_ text: UnsafeBufferPointer<UInt8>) {
        let start = bytes.count
        bytes.append(contentsOf: text)
        for index in start..<bytes.count where bytes[index] == 0 || bytes[index] == 10 || bytes[index] == 13 {
            bytes[index] = 32
        }
        bytes.append(0)
    }

    /// The first value of the field `name`, or `nil` if there is none. Setting replaces all values; setting
    /// `nil` removes them.
    public subscript(name: String) -> String? {
        get { firstIndex(name).map { value(at: $0) } }
        set {
            removeAll(name)
            if let newValue { append(name, newValue) }
        }
    }

    /// Returns the value of the field `name` if there is exactly one, else `nil`.
    public func only(_ name: String) -> String? {
        guard let first = firstIndex(name),
            !entries.indices.dropFirst(first + 1).contains(where: { matches($0, name) })
        else { return nil }
        return value(at: first)
    }

    /// Returns all values of the field `name`, in order.
    public func all(_ name: String) -> [String] {
        indices(name).map { value(at: $0) }
    }

    /// Returns `true` if a field has this name, even with an empty value.
    public func contains(_ name: String) -> Bool { firstIndex(name) != nil }

    /// Removes all fields with this name. Does nothing if there are none.
    public mutating func removeAll(_ name: String) {
        guard firstIndex(name) != nil else { return }
        var kept = HTTPFields()
        for index in entries.indices where !matches(index, name) {
            kept.append(self.name(at: index), value(at: index))
        }
        self = kept
    }

    /// The fields as pairs of name and value, in order.
    public var pairs: [(name: String, value: String)] {
        entries.indices.map { (name(at: $0), value(at: $0)) }
    }

    func name(at index: Int) -> String {
        let entry = entries[index]
        return text(entry.name, entry.nameLength)
    }

    func value(at index: Int) -> String {
        let entry = entries[index]
        return text(entry.value, entry.valueLength)
    }

    private func text(_ start: UInt32, _ length: UInt32) -> String {
        String(decoding: bytes[Int(start)..<Int(start) + Int(length)], as: UTF8.self)
    }

    private func firstIndex(_ name: String) -> Int? {
        entries.indices.first { matches($0, name) }
    }

    private func indices(_ name: String) -> [Int] {
        entries.indices.filter { matches($0, name) }
    }

    private func matches(_ index: Int, _ name: String) -> Bool {
        let entry = entries[index]
        let utf8 = name.utf8
        guard utf8.count == Int(entry.nameLength) else { return false }
        var position = Int(entry.name)
        for byte in utf8 {
            guard lowercased(byte) == lowercased(bytes[position]) else { return false }
            position += 1
        }
        return true
    }
}

/// Returns an ASCII letter in lower case, and any other byte unchanged.
@inline(__always)
func lowercased(_ byte: UInt8) -> UInt8 {
    byte &- 65 < 26 ? byte | 0x20 : byte
}
