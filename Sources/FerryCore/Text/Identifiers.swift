import Synchronization

/// What kind of thing an identifier names; gives it its prefix and keeps kinds apart at compile time.
package protocol IdentifierKind: Sendable {
    static var prefix: String { get }
}

package enum JobKindTag: IdentifierKind { package static let prefix = "job_" }
package enum EventKindTag: IdentifierKind { package static let prefix = "evt_" }
package enum DeliveryKindTag: IdentifierKind { package static let prefix = "dlv_" }
/// A receiver: an endpoint's identifier, or a digest of tenant and origin. Never shown.
package enum ReceiverQueueKindTag: IdentifierKind { package static let prefix = "lane_" }
package enum WebhookKindTag: IdentifierKind { package static let prefix = "whk_" }
package enum NodeKindTag: IdentifierKind { package static let prefix = "nod_" }
package enum KeyKindTag: IdentifierKind { package static let prefix = "key_" }
package enum AuditKindTag: IdentifierKind { package static let prefix = "aud_" }
package enum ScheduleKindTag: IdentifierKind { package static let prefix = "sch_" }

package typealias JobID = Identifier<JobKindTag>
package typealias EventID = Identifier<EventKindTag>
package typealias DeliveryID = Identifier<DeliveryKindTag>
package typealias ReceiverQueueID = Identifier<ReceiverQueueKindTag>
package typealias WebhookID = Identifier<WebhookKindTag>
package typealias NodeID = Identifier<NodeKindTag>
package typealias KeyID = Identifier<KeyKindTag>
package typealias AuditID = Identifier<AuditKindTag>
package typealias ScheduleID = Identifier<ScheduleKindTag>

/// A prefix and a time-ordered 128-bit value (the layout of UUIDv7, RFC 9562 §5.7) in Crockford base32.
package struct Identifier<Kind: IdentifierKind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Reads the form that `description` writes; upper case is accepted. Nil for anything else.
    package init?(_ text: some StringProtocol) {
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

    package var description: String {
        String(decoding: utf8, as: UTF8.self)
    }

    /// The text as bytes, for writers that need no String.
    package var utf8: [UInt8] {
        let prefix = Kind.prefix.utf8
        var text = [UInt8](repeating: 0, count: prefix.count + 26)
        text.replaceSubrange(0..<prefix.count, with: prefix)
        var (high, low) = (high, low)
        for index in stride(from: text.count - 1, through: prefix.count, by: -1) {
            text[index] = crockfordDigits[Int(low & 31)]
            low = low >> 5 | high << 59
            high >>= 5
        }
        return text
    }

    /// Milliseconds since 1970 at which it was made.
    package var millisecondsSince1970: Int64 { Int64(high >> 16) }

    package static func < (a: Self, b: Self) -> Bool {
        a.high != b.high ? a.high < b.high : a.low < b.low
    }
}

private let crockfordDigits = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)

private func crockfordValue(_ byte: UInt8) -> UInt8? {
    let lower = byte >= 65 && byte <= 90 ? byte + 32 : byte
    return crockfordDigits.firstIndex(of: lower).map(UInt8.init)
}

/// Makes identifiers that sort by the time at which they were made, also within one millisecond.
///
/// 48 bits of milliseconds, 12 + 14 bits of counter that start at random, 48 random bits (RFC 9562 §6.2,
/// method 1).
package final class IdentifierGenerator: Sendable {
    private struct State {
        var milliseconds: Int64 = 0
        var counter: UInt32 = 0
        var random = SystemRandomNumberGenerator()
    }
    private let state = Mutex(State())
    private let now: @Sendable () -> Timestamp

    package init(now: @escaping @Sendable () -> Timestamp) {
        self.now = now
    }

    package func make<Kind: IdentifierKind>(_ kind: Kind.Type = Kind.self) -> Identifier<Kind> {
        let current = now().microseconds / 1000
        return state.withLock { state in
            if current > state.milliseconds {
                state.milliseconds = current
                state.counter = UInt32.random(in: 0..<(1 << 25), using: &state.random)
            } else {
                // Within one millisecond, or when the clock steps back: count on; an overflow borrows from
                // the future.
                state.counter += 1
                if state.counter >= 1 << 26 {
                    state.milliseconds += 1
                    state.counter = 0
                }
            }
            let random = UInt64.random(in: 0...UInt64.max, using: &state.random) & 0xFFFF_FFFF_FFFF
            let high = UInt64(state.milliseconds) << 16 | 0x7000 | UInt64(state.counter >> 14)
            let low = 0x8000_0000_0000_0000 | UInt64(state.counter & 0x3FFF) << 48 | random
            return Identifier(high: high, low: low)
        }
    }
}
