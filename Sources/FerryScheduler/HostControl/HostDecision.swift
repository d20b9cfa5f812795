package import FerryCore

/// One decision about a host, with the figures that it was based on and a sentence for people. Stored as
/// history.
package struct HostDecision: Sendable, Equatable {
    /// Kind of a decision.
    package enum Kind: String, Sendable, CaseIterable {
        /// A limit was set, raised, reverted because the increase brought failures or the decrease did not
        /// help, lowered, or removed.
        case limited, raised, reverted, lowered, released
        /// Only the request rate changed.
        case paced
        /// Requests are held; the host became unreachable; the host was reached again.
        case backedOff = "backed_off"
        case unreachable, reachable
        /// An operator changed the settings.
        case configured
    }

    /// Time of the decision.
    package var at: Timestamp
    /// What was decided.
    package var kind: Kind
    /// The requests that the decision is about.
    package var scope: HostScope
    /// Attempts at once before and after; `nil` if there is no limit.
    package var limitBefore: Int?
    package var limitAfter: Int?
    /// Attempts of the scope in flight.
    package var inFlight: Int?
    /// Throughput of the whole origin, or `nil` if it has not been measured.
    package var answeredPerSecond: Double?
    package var bytesPerSecond: Double?
    /// Attempts that were throttled, and lost, in the evidence.
    package var throttled: Int
    package var lost: Int
    /// Request rate before and after, in attempts per second; `nil` if there is no limit.
    package var rateBefore: Double?
    package var rateAfter: Double?
    /// The decision in words.
    package var sentence: String

    /// Creates a decision.
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

    /// The decision as JSON, as stored and as shown to administrators.
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
