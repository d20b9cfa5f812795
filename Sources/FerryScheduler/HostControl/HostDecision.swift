package import FerryCore

/// One decision about a host, with what it was made of and a sentence for people. Kept as history.
package struct HostDecision: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        /// A limit was set, raised because it paid or may pay, taken back because it did not, lowered,
        /// removed.
        case limited, raised, reverted, lowered, released
        /// The requests that may begin per second changed, and nothing else.
        case paced
        /// Nothing begins for a while; nobody is reached; somebody is reached again.
        case backedOff = "backed_off"
        case unreachable, reachable
        /// An operator changed something.
        case configured
    }

    package var at: Timestamp
    package var kind: Kind
    /// The requests that it is about.
    package var scope: HostScope
    package var limitBefore: Int?
    package var limitAfter: Int?
    package var inFlight: Int?
    package var answeredPerSecond: Double?
    package var bytesPerSecond: Double?
    package var throttled: Int
    package var lost: Int
    /// Requests per second. `nil` if there is no limit.
    package var rateBefore: Double?
    package var rateAfter: Double?
    package var sentence: String

    package init(
        at: Timestamp, kind: Kind, scope: HostScope = .origin, limitBefore: Int?, limitAfter: Int?,
        inFlight: Int? = nil, answeredPerSecond: Double? = nil, bytesPerSecond: Double? = nil,
        throttled: Int = 0, lost: Int = 0, rateBefore: Double? = nil, rateAfter: Double? = nil,
        sentence: String
    ) {
        self.at = at
        self.kind = kind
        self.scope = scope
        self.limitBefore = limitBefore
        self.limitAfter = limitAfter
        self.inFlight = inFlight
        self.answeredPerSecond = answeredPerSecond
        self.bytesPerSecond = bytesPerSecond
        self.throttled = throttled
        self.lost = lost
        self.rateBefore = rateBefore
        self.rateAfter = rateAfter
        self.sentence = sentence
    }

    /// What is stored and shown.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 320)
        writer.beginObject()
        writer.member("at", at)
        writer.member("kind", kind.rawValue)
        writer.memberOrNull("tenant", scope.tenant.isEmpty ? nil : scope.tenant)
        writer.memberOrNull("path", scope.path.isEmpty ? nil : scope.path)
        writer.memberOrNull("limit_before", limitBefore)
        writer.memberOrNull("limit_after", limitAfter)
        writer.memberOrNull("in_flight", inFlight)
        writer.memberOrNull("jobs_per_second", answeredPerSecond)
        writer.memberOrNull("bytes_per_second", bytesPerSecond)
        writer.member("throttled", throttled)
        writer.member("lost", lost)
        writer.memberOrNull("request_rate_before", rateBefore)
        writer.memberOrNull("request_rate_after", rateAfter)
        writer.member("sentence", sentence)
        writer.endObject()
        return writer.bytes
    }
}
