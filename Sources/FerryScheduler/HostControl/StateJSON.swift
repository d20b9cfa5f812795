public import FerryCore

/// Coder for the JSON of a `Codable` state. Members that are zero, `false`, empty or `nil` are left out.
enum StateJSON {
    /// Returns the JSON of a state.
    static func bytes(of state: some Encodable) -> [UInt8] {
        var writer = JSONWriter()
        do {
            writer.value(try StateEncoder.json(of: state))
        } catch {
            // No input reaches this: the encoder throws nothing itself, and neither do the states.
            preconditionFailure("The state of a host cannot be encoded: \(error)")
        }
        return writer.bytes
    }

    /// Reads a state; `nil` if `bytes` is no JSON object or a member has an invalid value.
    static func state<State: Decodable>(of bytes: [UInt8]) -> State? {
        // Why the state is damaged does not matter: the caller starts without it.
        guard let json = try? JSON.parse(bytes), json.members != nil else { return nil }
        // A state of another form counts as damaged.
        return try? StateDecoder.value(of: json) as State
    }

    /// Stops the process: a state has no arrays or superclasses. Which containers are asked for is decided by
    /// the types of the states, for every input alike.
    fileprivate static func unused() -> Never { preconditionFailure("A state has objects and values only.") }
}

/// Collects the JSON of one value.
private final class StateEncoder: Encoder, SingleValueEncodingContainer {
    var json = JSON.object([])
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    func container<Key>(keyedBy: Key.Type) -> KeyedEncodingContainer<Key> { .init(Members(encoder: self)) }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { StateJSON.unused() }
    func singleValueContainer() -> any SingleValueEncodingContainer { self }
    func encodeNil() { json = .null }
    func encode<Value: Encodable>(_ value: Value) throws { json = try Self.json(of: value) }

    /// Returns the JSON of a value.
    static func json(of value: some Encodable) throws -> JSON {
        switch value {
        case let value as Bool: return .bool(value)
        case let value as Int: return .integer(Int64(value))
        case let value as Int64: return .integer(value)
        case let value as Double: return .number(value)
        case let value as String: return .string(value)
        default:
            let encoder = StateEncoder()
            try value.encode(to: encoder)
            return encoder.json
        }
    }

    /// Adds members to the object.
    private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let encoder: StateEncoder
        var codingPath: [any CodingKey] { [] }
        func encodeNil(forKey key: Key) {}
        func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
            let json = try StateEncoder.json(of: value)
            if ![.bool(false), .integer(0), .number(0), .string(""), .object([])].contains(json) {
                add(json, key)
            }
        }
        func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
            if let value { add(try StateEncoder.json(of: value), key) }
        }
        private func add(_ json: JSON, _ key: Key) {
            encoder.json = .object((encoder.json.members ?? []) + [JSON.Member(key.stringValue, json)])
        }
        func nestedContainer<Nested>(keyedBy: Nested.Type, forKey: Key) -> KeyedEncodingContainer<Nested> {
            StateJSON.unused()
        }
        func nestedUnkeyedContainer(forKey: Key) -> any UnkeyedEncodingContainer { StateJSON.unused() }
        func superEncoder() -> any Encoder { StateJSON.unused() }
        func superEncoder(forKey: Key) -> any Encoder { StateJSON.unused() }
    }
}

/// Reads one value; `json` is `nil` if the member was left out.
private struct StateDecoder: Decoder, SingleValueDecodingContainer {
    let json: JSON?
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    func container<Key>(keyedBy: Key.Type) -> KeyedDecodingContainer<Key> {
        let members = (json?.members ?? []).map { ($0.name, $0.value) }
        return .init(Members(members: Dictionary(members) { first, _ in first }))
    }
    func unkeyedContainer() -> any UnkeyedDecodingContainer { StateJSON.unused() }
    func singleValueContainer() -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { json == nil }
    func decode<Value: Decodable>(_: Value.Type) throws -> Value { try Self.value(of: json) }

    /// Returns the value of `json`, or the default of its type if it was left out.
    static func value<Value: Decodable>(of json: JSON?) throws -> Value {
        let simple: Any? =
            switch Value.self {
            case is Bool.Type: json?.bool ?? false
            case is Int.Type: Int(json?.integer ?? 0)
            case is Int64.Type: json?.integer ?? 0
            case is Double.Type: json?.double ?? 0
            case is String.Type: json?.string ?? ""
            default: nil
            }
        if let simple, let value = simple as? Value { return value }
        return try Value(from: StateDecoder(json: json))
    }

    /// Reads the members of an object.
    private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let members: [String: JSON]
        var codingPath: [any CodingKey] { [] }
        var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }
        func contains(_ key: Key) -> Bool { members[key.stringValue] != nil }
        func decodeNil(forKey key: Key) -> Bool { !contains(key) }
        func decode<Value: Decodable>(_: Value.Type, forKey key: Key) throws -> Value {
            try StateDecoder.value(of: members[key.stringValue])
        }
        func nestedContainer<Nested>(keyedBy: Nested.Type, forKey: Key) -> KeyedDecodingContainer<Nested> {
            StateJSON.unused()
        }
        func nestedUnkeyedContainer(forKey: Key) -> any UnkeyedDecodingContainer { StateJSON.unused() }
        func superDecoder() -> any Decoder { StateJSON.unused() }
        func superDecoder(forKey: Key) -> any Decoder { StateJSON.unused() }
    }
}

/// Encoded as microseconds.
extension Timestamp: Codable {
    public init(from decoder: any Decoder) throws {
        self.init(microseconds: try decoder.singleValueContainer().decode(Int64.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(microseconds)
    }
}

/// Encoded as its text.
extension Identifier: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an identifier")
        }
        self = identifier
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

extension TransferError.Code: Codable {}

/// Encoded as the name of a member, `tenant/path`. The name of a tenant has no slash.
extension HostScope: CodingKeyRepresentable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public var codingKey: any CodingKey { Key(stringValue: tenant + "/" + path) }

    public init?(codingKey: some CodingKey) {
        let parts = codingKey.stringValue.split(
            separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        self.init(tenant: String(parts[0]), path: String(parts[1]))
    }
}
