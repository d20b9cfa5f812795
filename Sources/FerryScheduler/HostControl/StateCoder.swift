import FerryCore

/// A value that is kept as JSON. One function lists its members for reading and for writing.
protocol CodedState: Equatable {
    init()
    mutating func code(_ coder: inout StateCoder)
}

/// Writes the members of a state into a JSON object, or reads them from one. A member that has its first
/// value is left out. Instants are microseconds.
struct StateCoder {
    private var writer: JSONWriter?
    private var json = JSON.null

    static func write(_ state: some CodedState) -> [UInt8] {
        var (state, coder) = (state, StateCoder())
        coder.writer = JSONWriter()
        coder.writer?.beginObject()
        state.code(&coder)
        coder.writer?.endObject()
        return coder.writer?.bytes ?? []
    }

    static func read<State: CodedState>(_ json: JSON, _: State.Type = State.self) -> State {
        var (state, coder) = (State(), StateCoder())
        coder.json = json
        state.code(&coder)
        return state
    }

    private mutating func member<Value: Equatable>(
        _ name: String, _ value: inout Value, _ write: (Value) -> JSON?, _ read: (JSON) -> Value?
    ) {
        if writer != nil {
            if let json = write(value) { writer?.member(name, json) }
        } else if let json = json[name], let read = read(json) {
            value = read
        }
    }

    mutating func value(_ name: String, _ value: inout Int, unless first: Int = 0) {
        member(name, &value, { $0 == first ? nil : .integer(Int64($0)) }, { $0.integer.map { Int($0) } })
    }
    mutating func value(_ name: String, _ value: inout Int?) {
        member(name, &value, { $0.map { .integer(Int64($0)) } }, { $0.integer.map { Int($0) } })
    }
    mutating func value(_ name: String, _ value: inout Int64?) {
        member(name, &value, { $0.map { .integer($0) } }, { $0.integer })
    }
    mutating func value(_ name: String, _ value: inout Double, unless first: Double = 0) {
        member(name, &value, { $0 == first || !$0.isFinite ? nil : .number($0) }, { $0.double })
    }
    mutating func value(_ name: String, _ value: inout Double?) {
        member(name, &value, { $0.flatMap { $0.isFinite ? .number($0) : nil } }, { $0.double })
    }
    mutating func value(_ name: String, _ value: inout Bool) {
        member(name, &value, { $0 ? .bool(true) : nil }, { $0.bool })
    }
    mutating func value(_ name: String, _ value: inout Timestamp?) {
        member(
            name, &value, { $0.map { .integer($0.microseconds) } },
            { $0.integer.map { Timestamp(microseconds: $0) } })
    }
    mutating func value<Value: RawRepresentable<String> & Equatable>(_ name: String, _ value: inout Value?) {
        member(
            name, &value, { $0.map { .string($0.rawValue) } }, { $0.string.flatMap { Value(rawValue: $0) } })
    }
    mutating func value<Kind>(_ name: String, _ value: inout Identifier<Kind>?) {
        member(name, &value, { $0.map { .string($0.description) } }, { $0.string.flatMap { .init($0) } })
    }
    mutating func value(_ name: String, _ value: inout ScopeReport.Jobs) {
        member(
            name, &value,
            { jobs in
                switch jobs {
                case .none: nil
                case .one(let job): .string(job.description)
                case .several: .bool(true)
                }
            }, { $0.string.flatMap { JobID($0) }.map { .one($0) } ?? .several })
    }
    mutating func value<State: CodedState>(_ name: String, _ value: inout State) {
        guard writer != nil else {
            if let json = json[name] { value = Self.read(json) }
            return
        }
        if value != State() { writer?.name(name); writer?.raw(Self.write(value)) }
    }
    mutating func value<State: CodedState>(_ name: String, _ value: inout State?) {
        guard writer != nil else {
            value = json[name].map { Self.read($0) }
            return
        }
        if let value { writer?.name(name); writer?.raw(Self.write(value)) }
    }
    /// An array of objects: each is a state with `tenant` and `path`.
    mutating func value<State: CodedState>(_ name: String, _ states: inout [HostScope: State]) {
        guard writer != nil else {
            for json in json[name]?.array ?? [] {
                let scope = HostScope(tenant: json["tenant"]?.string ?? "", path: json["path"]?.string ?? "")
                states[scope] = Self.read(json)
            }
            return
        }
        guard !states.isEmpty else { return }
        writer?.name(name)
        writer?.beginArray()
        for (scope, state) in states {
            writer?.beginObject()
            if !scope.tenant.isEmpty { writer?.member("tenant", scope.tenant) }
            if !scope.path.isEmpty { writer?.member("path", scope.path) }
            writer?.rawMembers(of: Self.write(state))
            writer?.endObject()
        }
        writer?.endArray()
    }
}
