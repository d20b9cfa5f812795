/// An event of a job or a session as rows store it: many of them one after another in a `bytea`.
///
/// Integers are big-endian, so that SQL can write them (`event_pack` in migrations/0001_baseline.sql): type,
/// flags, state, and what is waited for (one byte each), job (16 bytes, zero for none), time (8), attempt
/// (4), revision (4), length of the detail (4), detail.
public struct EventRecord: Sendable, Equatable {
    /// Bytes of a record without its detail.
    public static let headerByteCount = 40
    /// Type of the event.
    public var type: EventType
    /// `true` if the job's own webhook gets the event.
    public var isWanted: Bool
    /// `true` if the job's own webhook gets events of its session.
    public var wantsSession: Bool
    /// `true` if only endpoints of operators get the event: an event of a host that the tenant does not use.
    public var isForOperators = false
    /// The job, or `nil` for an event of a session.
    public var job: JobID?
    /// When the event happened.
    public var occurredAt: Timestamp
    /// Number of the attempt.
    public var attempt: Int32
    /// Revision of the job's fields.
    public var revision: Int32
    /// State of the job after the event.
    public var state: JobState?
    /// Condition for which the job waits after the event, or `nil`.
    public var waitingFor: WaitingFor?
    /// Of a job: what its row may not say later (`EventDetail`). `webhook.disabled`: the endpoint (16 bytes)
    /// and the reason. `group.finished`: the group as it is shown. Events of hosts: `HostChange`. Else
    /// empty.
    public var detail: [UInt8]

    /// Creates a record. `wanted`: `JobSpec.wantedEvents`.
    public init(
        _ type: EventType, job: JobID?, at occurredAt: Timestamp, wanted: Int32? = nil, attempt: Int32 = 0,
        revision: Int32 = 0, state: JobState? = nil, waitingFor: WaitingFor? = nil, detail: [UInt8] = []
    ) {
        self.type = type
        let wanted = wanted ?? 0
        isWanted = wanted >> Int32(type.code) & 1 != 0
        wantsSession = wanted & Self.sessionTypes != 0
        self.job = job
        self.occurredAt = occurredAt
        self.attempt = attempt
        self.revision = revision
        self.state = state
        self.waitingFor = waitingFor
        self.detail = detail
    }

    /// Types of sessions as a bit set.
    public static let sessionTypes = EventType.allCases.filter(\.isOfSession).mask
}

// MARK: Packing

extension EventRecord {
    private struct Flags: OptionSet {
        let rawValue: UInt8
        static let isWanted = Flags(rawValue: 1)
        static let wantsSession = Flags(rawValue: 2)
        static let isForOperators = Flags(rawValue: 4)
    }

    /// Appends the packed record.
    public func pack(into bytes: inout [UInt8]) {
        var flags: Flags = []
        if isWanted { flags.insert(.isWanted) }
        if wantsSession { flags.insert(.wantsSession) }
        if isForOperators { flags.insert(.isForOperators) }
        bytes.append(type.code)
        bytes.append(flags.rawValue)
        bytes.append(state?.code ?? 0)
        bytes.append(waitingFor?.code ?? 0)
        bytes.appendBigEndian(job?.high ?? 0)
        bytes.appendBigEndian(job?.low ?? 0)
        bytes.appendBigEndian(UInt64(bitPattern: occurredAt.microseconds))
        bytes.appendBigEndian(UInt32(bitPattern: attempt))
        bytes.appendBigEndian(UInt32(bitPattern: revision))
        bytes.appendBigEndian(UInt32(detail.count))
        bytes.append(contentsOf: detail)
    }

    /// A record among packed ones, as far as this version knows its type.
    public struct Packed: Sendable, Equatable {
        /// The record, or `nil` for a type of a newer version; such an event has a number all the same.
        public let record: EventRecord?
        /// Code of the type, also of an unknown one.
        public let code: UInt8
        /// When the event happened.
        public let occurredAt: Timestamp
        /// The job, or `nil`.
        public let job: JobID?
        /// Position among the bytes.
        public let range: Range<Int>

        /// Returns the record for a position behind `offset` more bytes.
        public func moved(by offset: Int) -> Packed {
            Packed(
                record: record, code: code, occurredAt: occurredAt, job: job,
                range: (range.lowerBound + offset)..<(range.upperBound + offset))
        }
    }

    /// Reads packed records; stops before a damaged one.
    public static func unpack(_ bytes: [UInt8]) -> [Packed] {
        var reader = PackedReader(bytes)
        var all: [Packed] = []
        all.reserveCapacity(bytes.count / headerByteCount)
        var start = 0
        // The only error is damage, where reading ends.
        while !reader.isAtEnd, let next = try? read(&reader, start) {
            all.append(next)
            start = next.range.upperBound
        }
        return all
    }

    private static func read(
        _ reader: inout PackedReader, _ start: Int
    ) throws(PackedReader.Damage) -> Packed {
        let code = try reader.byte()
        let flags = Flags(rawValue: try reader.byte())
        let (state, waitingFor) = (try reader.byte(), try reader.byte())
        let (high, low) = (try reader.bigEndian(), try reader.bigEndian())
        let occurredAt = Timestamp(microseconds: Int64(bitPattern: try reader.bigEndian()))
        let numbers = try reader.bigEndian()
        let attempt = Int32(truncatingIfNeeded: numbers >> 32)
        let revision = Int32(truncatingIfNeeded: numbers)
        let detailCount = Int(try reader.bytes(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
        let detail = try reader.bytes(detailCount)
        let job = high == 0 && low == 0 ? nil : JobID(high: high, low: low)
        var record: EventRecord?
        if let type = EventType(code: code) {
            var known = EventRecord(
                type, job: job, at: occurredAt, attempt: attempt, revision: revision,
                state: JobState(code: state), waitingFor: WaitingFor(code: waitingFor), detail: detail)
            known.isWanted = flags.contains(.isWanted)
            known.wantsSession = flags.contains(.wantsSession)
            known.isForOperators = flags.contains(.isForOperators)
            record = known
        }
        return Packed(
            record: record, code: code, occurredAt: occurredAt, job: job,
            range: start..<(start + headerByteCount + detailCount))
    }
}

extension JobState {
    /// Code in packed events; stable.
    fileprivate var code: UInt8 {
        switch self {
        case .waiting: 1
        case .queued: 2
        case .running: 3
        case .suspended: 4
        case .succeeded: 5
        case .failed: 6
        case .cancelled: 7
        }
    }

    fileprivate init?(code: UInt8) {
        guard let state = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = state
    }
}

extension WaitingFor {
    /// Code in packed events; stable.
    fileprivate var code: UInt8 {
        switch self {
        case .beginDate: 1
        case .discretionary: 2
        case .connectivity: 3
        case .retry: 4
        case .dependency: 5
        case .challenge: 6
        case .confirmation: 7
        case .redirect: 8
        case .urlExpired: 9
        }
    }

    fileprivate init?(code: UInt8) {
        guard let reason = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = reason
    }
}

extension [UInt8] {
    mutating func appendBigEndian<Value: FixedWidthInteger>(_ value: Value) {
        append(addingCapacity: Value.bitWidth / 8) { output in
            for shift in stride(from: Value.bitWidth - 8, through: 0, by: -8) {
                output.append(UInt8(truncatingIfNeeded: value >> Value(shift)))
            }
        }
    }
}
