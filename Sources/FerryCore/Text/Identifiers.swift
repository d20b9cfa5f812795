import Synchronization

/// Kind of object that an identifier names. Gives the identifier its prefix, and makes identifiers of
/// different kinds different types.
public protocol IdentifierKind: Sendable {
    /// Text before the encoded value.
    static var prefix: String { get }
}

/// Jobs.
public enum JobKindTag: IdentifierKind { public static let prefix = "job_" }
/// Events.
public enum EventKindTag: IdentifierKind { public static let prefix = "evt_" }
/// Deliveries.
public enum DeliveryKindTag: IdentifierKind { public static let prefix = "dlv_" }
/// Receivers: the identifier of an endpoint, or a digest of tenant and origin. Never shown.
public enum ReceiverQueueKindTag: IdentifierKind { public static let prefix = "rcv_" }
/// Webhook endpoints.
public enum WebhookKindTag: IdentifierKind { public static let prefix = "whk_" }
/// Nodes.
public enum NodeKindTag: IdentifierKind { public static let prefix = "nod_" }
/// API keys.
public enum KeyKindTag: IdentifierKind { public static let prefix = "key_" }
/// Entries of the audit.
public enum AuditKindTag: IdentifierKind { public static let prefix = "aud_" }
/// Schedules.
public enum ScheduleKindTag: IdentifierKind { public static let prefix = "sch_" }
/// Bulk operations.
public enum BulkOperationKindTag: IdentifierKind { public static let prefix = "opn_" }
/// Groups of jobs. Shown only in cursors.
public enum JobGroupKindTag: IdentifierKind { public static let prefix = "grp_" }
/// Staged uploads.
public enum UploadKindTag: IdentifierKind { public static let prefix = "upl_" }

/// Identifier of a job.
public typealias JobID = Identifier<JobKindTag>
/// Identifier of an event.
public typealias EventID = Identifier<EventKindTag>
/// Identifier of a delivery.
public typealias DeliveryID = Identifier<DeliveryKindTag>
/// Identifier of a receiver.
public typealias ReceiverQueueID = Identifier<ReceiverQueueKindTag>
/// Identifier of a webhook endpoint.
public typealias WebhookID = Identifier<WebhookKindTag>
/// Identifier of a node.
public typealias NodeID = Identifier<NodeKindTag>
/// Identifier of an API key.
public typealias KeyID = Identifier<KeyKindTag>
/// Identifier of an entry of the audit.
public typealias AuditID = Identifier<AuditKindTag>
/// Identifier of a schedule.
public typealias ScheduleID = Identifier<ScheduleKindTag>
/// Identifier of a bulk operation.
public typealias BulkOperationID = Identifier<BulkOperationKindTag>
/// Identifier of a group of jobs.
public typealias JobGroupID = Identifier<JobGroupKindTag>
/// Identifier of a staged upload.
public typealias UploadID = Identifier<UploadKindTag>

/// A time-ordered 128-bit value (UUIDv7, RFC 9562 §5.7), written as a prefix and Crockford base32.
public struct Identifier<Kind: IdentifierKind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// First 8 bytes.
    public let high: UInt64
    /// Last 8 bytes.
    public let low: UInt64

    /// Creates an identifier.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Reads the text of `description`, also in upper case; `nil` for anything else.
    public init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard bytes.count == Kind.prefix.utf8.count + 26, text.hasPrefix(Kind.prefix) else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, byte) in bytes.suffix(26).enumerated() {
            guard let digit = crockfordValue(byte), index > 0 || digit < 8 else { return nil }
            high = high << 5 | low >> 59
            low = low << 5 | UInt64(digit)
        }
        self.init(high: high, low: low)
    }

    /// The prefix and 26 digits in lower case.
    public var description: String {
        String(decoding: utf8, as: UTF8.self)
    }

    /// `description` as bytes.
    public var utf8: [UInt8] {
        let digits = crockfordDigits
        return [UInt8](capacity: Kind.prefix.utf8.count + 26) { text in
            for byte in Kind.prefix.utf8 { text.append(byte) }
            // The first digit has the three highest bits, each other one five.
            text.append(digits[Int(high >> 61)])
            for shift in stride(from: 56, through: 1, by: -5) {
                text.append(digits[Int(high >> UInt64(shift) & 31)])
            }
            text.append(digits[Int((high << 4 | low >> 60) & 31)])
            for shift in stride(from: 55, through: 0, by: -5) {
                text.append(digits[Int(low >> UInt64(shift) & 31)])
            }
        }
    }

    /// Time of creation in milliseconds since 1970.
    public var millisecondsSince1970: Int64 { Int64(high >> 16) }

    /// Orders identifiers by their time of creation.
    public static func < (a: Self, b: Self) -> Bool {
        a.high != b.high ? a.high < b.high : a.low < b.low
    }
}

private let crockfordDigits = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)

private func crockfordValue(_ byte: UInt8) -> UInt8? {
    let lower = byte >= 65 && byte <= 90 ? byte + 32 : byte
    return crockfordDigits.firstIndex(of: lower).map(UInt8.init)
}

/// Creates identifiers that sort by their time of creation, also within one millisecond. May be used on any
/// thread.
///
/// 48 bits of milliseconds, 12 + 14 bits of a counter with a random start, 48 random bits (RFC 9562 §6.2,
/// method 1).
public final class IdentifierGenerator: Sendable {
    private struct State {
        var milliseconds: Int64 = 0
        var counter: UInt32 = 0
        var random: any RandomNumberGenerator & Sendable
    }
    private let state: Mutex<State>
    private let now: @Sendable () -> Timestamp

    /// Creates a generator with a clock. `random` must be unpredictable.
    public init(
        random: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator(),
        now: @escaping @Sendable () -> Timestamp
    ) {
        state = Mutex(State(random: random))
        self.now = now
    }

    /// Returns a new identifier.
    public func make<Kind: IdentifierKind>(_ kind: Kind.Type = Kind.self) -> Identifier<Kind> {
        let current = now().microseconds / 1000
        return state.withLock { state in
            if current > state.milliseconds {
                state.milliseconds = current
                state.counter = UInt32.random(in: 0..<(1 << 25), using: &state.random)
            } else {
                // Within one millisecond, or after the clock has stepped back, the counter continues. An
                // overflow uses the next millisecond.
                state.counter += 1
                if state.counter >= 1 << 26 {
                    state.milliseconds += 1
                    state.counter = 0
                }
            }
            let random = state.random.next() & 0xFFFF_FFFF_FFFF
            let high = UInt64(state.milliseconds) << 16 | 0x7000 | UInt64(state.counter >> 14)
            let low = 0x8000_0000_0000_0000 | UInt64(state.counter & 0x3FFF) << 48 | random
            return Identifier(high: high, low: low)
        }
    }
}
