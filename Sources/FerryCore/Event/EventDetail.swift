/// Values that the row of a job has at an event and may not have later: the detail of a packed event about an
/// unfinished job. The row of a finished job never changes, except that it is acknowledged and retried.
///
/// SQL writes it as well (`event_detail` in migrations/0001_baseline.sql): fields after one another, each a
/// byte that names it and its value. Values of the names from 16 on have a length (4 bytes), so that a
/// version that does not know such a field skips it.
public struct EventDetail: Sendable, Equatable {
    private enum Field: UInt8 {
        case node = 1
        case startedAt = 2
        case nextAttemptAt = 3
        case offset = 4
        case error = 16
        case question = 17
        case keptAttempt = 18
    }

    /// Names from this one on have values with a length.
    private static let firstSizedField: UInt8 = 16

    /// The node that runs the job.
    public var node: NodeID?
    /// Start of the first attempt. `nil` for `job.started`, and for the creation of a job that starts at
    /// once: it is the time of the event.
    public var startedAt: Timestamp?
    /// Time at which a waiting job continues.
    public var nextAttemptAt: Timestamp?
    /// `job.resumed_at_offset`: the first byte that is fetched, or sent.
    public var offset: Int64?
    /// Of the last attempt that failed.
    public var error: Stored<ErrorRecord>?
    /// The open question as stored.
    public var questionJSON: [UInt8]?
    /// The latest attempt that left bytes (`AttemptRecord`), if the next one may continue them.
    public var keptAttempt: [UInt8]?

    /// Creates a detail. `error`: for the event of an attempt that has failed.
    public init(
        node: NodeID? = nil, nextAttemptAt: Timestamp? = nil, error: Stored<ErrorRecord>? = nil
    ) {
        self.node = node
        self.nextAttemptAt = nextAttemptAt
        self.error = error
    }

    /// Reads a packed detail.
    public init(packed: [UInt8]) throws(PackedReader.Damage) {
        self.init()
        var reader = PackedReader(packed)
        while !reader.isAtEnd {
            let name = try reader.byte()
            let sized: [UInt8] =
                name >= Self.firstSizedField
                ? try reader.bytes(Int(try reader.bytes(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) })) : []
            switch Field(rawValue: name) {
            case .node: node = NodeID(high: try reader.bigEndian(), low: try reader.bigEndian())
            case .startedAt: startedAt = try Self.timestamp(&reader)
            case .nextAttemptAt: nextAttemptAt = try Self.timestamp(&reader)
            case .offset: offset = Int64(bitPattern: try reader.bigEndian())
            case .error: error = Stored(json: sized)
            case .question: questionJSON = sized
            case .keptAttempt: keptAttempt = sized
            case nil: if name < Self.firstSizedField { throw PackedReader.Damage() }
            }
        }
    }

    private static func timestamp(_ reader: inout PackedReader) throws(PackedReader.Damage) -> Timestamp {
        Timestamp(microseconds: Int64(bitPattern: try reader.bigEndian()))
    }

    /// The packed form.
    public var packed: [UInt8] {
        var bytes: [UInt8] = []
        if let node {
            bytes.append(Field.node.rawValue)
            bytes.appendBigEndian(node.high)
            bytes.appendBigEndian(node.low)
        }
        for (field, value) in [
            (Field.startedAt, startedAt?.microseconds), (.nextAttemptAt, nextAttemptAt?.microseconds),
            (.offset, offset),
        ] {
            guard let value else { continue }
            bytes.append(field.rawValue)
            bytes.appendBigEndian(UInt64(bitPattern: value))
        }
        for (field, value) in [
            (Field.error, error?.json), (.question, questionJSON), (.keptAttempt, keptAttempt),
        ] {
            guard let value else { continue }
            bytes.append(field.rawValue)
            bytes.appendBigEndian(UInt32(value.count))
            bytes.append(contentsOf: value)
        }
        return bytes
    }
}
