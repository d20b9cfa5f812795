package import FerryCore

/// Decides whether this node is cut off by its network, resolver or proxy: it reaches no host, and other
/// nodes reach hosts that it does not. A pure state machine of failed connections and the clock.
package struct PartitionDetector: Sendable {
    /// Origin that the node connects to in order to see whether it is still cut off; `nil` if it is not cut
    /// off.
    package private(set) var origin: String?
    private var nextLookAt: Timestamp?
    private var lookCount = 0
    /// Time at which the node takes transfers again although it has not reached `origin`; other origins may
    /// be reachable.
    private var triesAgainAt: Timestamp?
    private var tryCount = 0
    private var lastTryAt: Timestamp?

    /// Seconds by which another node's response must be later than this node's first failure. Response times
    /// are stored with a resolution of one second, and a host that just went away has responded to all nodes
    /// shortly before.
    package static let witnessSeconds = 3.0
    /// Seconds between two looks: the first delay, and the longest.
    static let lookSecondsMin = 1.0
    static let lookSecondsMax = 30.0
    /// Seconds until the node takes transfers again: the first delay, and the longest.
    static let trySecondsMin = 30.0
    static let trySecondsMax = 300.0
    /// Seconds before a look without a result is repeated; connecting can take long.
    static let lookLeaseSeconds = 60.0

    /// Creates the state of a node that is not cut off.
    package init() {}

    /// `true` if the node is cut off.
    package var isCutOff: Bool { origin != nil }

    /// Marks the node as cut off. Call it if other nodes reach `origin` and this node has reached no host for
    /// a while. Does nothing if the node is cut off already.
    package mutating func begin(_ origin: String, at now: Timestamp) {
        guard !isCutOff else { return }
        self.origin = origin
        lookCount = 0
        nextLookAt = now + Self.lookSecondsMin
        // After a long time without trouble the delay starts anew.
        if let lastTryAt, now - lastTryAt > Self.trySecondsMax { tryCount = 0 }
        triesAgainAt = now + Self.delay(Self.trySecondsMin, doubled: tryCount, atMost: Self.trySecondsMax)
        tryCount += 1
    }

    /// Ends the state: the node has reached a host, or no other node could do its work.
    package mutating func end() { self = PartitionDetector() }

    /// Returns `true` once when the node has to take transfers again; the delay grows with each vain try.
    package mutating func triesAgain(at now: Timestamp) -> Bool {
        guard isCutOff, let triesAgainAt, triesAgainAt <= now else { return false }
        origin = nil
        nextLookAt = nil
        self.triesAgainAt = nil
        lastTryAt = now
        return true
    }

    /// Returns the origin to connect to now, or `nil` if no look is due. Pass the result to `looked`.
    package mutating func look(at now: Timestamp) -> String? {
        guard let origin, let next = nextLookAt, next <= now else { return nil }
        nextLookAt = now + Self.lookLeaseSeconds
        return origin
    }

    /// Records the result of a look. Returns `true` if the node is no longer cut off.
    package mutating func looked(isReached: Bool, at now: Timestamp) -> Bool {
        guard isCutOff else { return false }
        if isReached {
            end()
            return true
        }
        lookCount += 1
        nextLookAt = now + Self.delay(Self.lookSecondsMin, doubled: lookCount, atMost: Self.lookSecondsMax)
        return false
    }

    /// Time of the next look or try, or `nil` if none is due.
    package var dueAt: Timestamp? { [nextLookAt, triesAgainAt].compactMap(\.self).min() }

    private static func delay(_ first: Double, doubled count: Int, atMost most: Double) -> Double {
        min(first * Double(1 << min(count, 10)), most)
    }
}

/// Counts the consecutive attempts of this node that reached no host.
package struct UnreachableAttempts: Sendable {
    private var count = 0
    /// End of the first and last of these attempts, in monotonic nanoseconds.
    private var first: Int64 = 0
    private var last: Int64 = 0

    /// Number of consecutive failures that is no accident.
    static let countMin = 3
    /// Nanoseconds between two failures after which they are not consecutive.
    static let pauseMax: Int64 = 15_000_000_000

    /// Creates a counter at zero.
    package init() {}

    /// Adds the signal of an attempt. A lost connection does not count as reached or unreached: connections
    /// also break when the network fails.
    package mutating func note(_ signal: HostSignal, at nanoseconds: Int64) {
        switch signal {
        case .lost, .unanswered, .none: return
        case .answered, .throttled: self = UnreachableAttempts()
        case .unreachable:
            if count == 0 || nanoseconds - last > Self.pauseMax { (count, first) = (0, nanoseconds) }
            last = nanoseconds
            count += 1
        }
    }

    /// Returns the seconds since the first failure, or `nil` if there were too few failures.
    package func seconds(at nanoseconds: Int64) -> Double? {
        count < Self.countMin ? nil : Double(nanoseconds - first) / 1e9
    }

    /// `true` if the last attempt that counts reached a host.
    package var hasReached: Bool { count == 0 }
}
