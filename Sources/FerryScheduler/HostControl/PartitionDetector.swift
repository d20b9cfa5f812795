package import FerryCore

/// Whether it is this node that is cut off, by its network, its resolver or its proxy, and not the hosts that
/// are away: it reaches nobody, and others reach what it does not. A pure state machine of what it misses and
/// of the clock.
package struct PartitionDetector: Sendable {
    /// What it looks for, to see whether it is back; nil: it is not cut off.
    package private(set) var origin: String?
    private var nextLookAt: Timestamp?
    private var lookCount = 0
    /// When it tries transfers again although it has not seen that host: others may be reached.
    private var triesAgainAt: Timestamp?
    private var tryCount = 0
    private var lastTryAt: Timestamp?

    /// Seconds that another node's answer has to be later than the first of them: answers are told by the
    /// second, and a host that goes away has answered everybody a moment ago.
    package static let witnessSeconds = 3.0
    static let lookSecondsMin = 1.0
    static let lookSecondsMax = 30.0
    static let trySecondsMin = 30.0
    static let trySecondsMax = 300.0
    /// Seconds for which nobody wonders what came of a look: connecting may take its time.
    static let lookLeaseSeconds = 60.0

    package init() {}

    package var isCutOff: Bool { origin != nil }

    /// Others reach a host, and this node has reached nobody for a while.
    package mutating func begin(_ origin: String, at now: Timestamp) {
        guard !isCutOff else { return }
        self.origin = origin
        lookCount = 0
        nextLookAt = now + Self.lookSecondsMin
        // Whatever was long ago is over.
        if let lastTryAt, now - lastTryAt > Self.trySecondsMax { tryCount = 0 }
        triesAgainAt = now + Self.delay(Self.trySecondsMin, doubled: tryCount, atMost: Self.trySecondsMax)
        tryCount += 1
    }

    /// It has reached somebody, or there is nobody else to leave the work to.
    package mutating func end() { self = PartitionDetector() }

    /// Whether it is to try transfers again: once it has tried in vain, later each time.
    package mutating func triesAgain(at now: Timestamp) -> Bool {
        guard isCutOff, let triesAgainAt, triesAgainAt <= now else { return false }
        origin = nil
        nextLookAt = nil
        self.triesAgainAt = nil
        lastTryAt = now
        return true
    }

    /// The host to look for now. Its end is told with `looked`.
    package mutating func look(at now: Timestamp) -> String? {
        guard let origin, let next = nextLookAt, next <= now else { return nil }
        nextLookAt = now + Self.lookLeaseSeconds
        return origin
    }

    /// A look has ended. True: the node is back.
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

    /// When something is due.
    package var dueAt: Timestamp? { [nextLookAt, triesAgainAt].compactMap(\.self).min() }

    private static func delay(_ first: Double, doubled count: Int, atMost most: Double) -> Double {
        min(first * Double(1 << min(count, 10)), most)
    }
}

/// Attempts of one node in a row that have reached nobody, wherever they went.
package struct UnreachableNodes: Sendable {
    private var count = 0
    /// When the first and the last of them ended; monotonic nanoseconds.
    private var first: Int64 = 0
    private var last: Int64 = 0

    /// So many in a row are no accident.
    static let countMin = 3
    /// Nanoseconds between two after which they are not in a row any more.
    static let pauseMax: Int64 = 15_000_000_000

    package init() {}

    /// Takes what an attempt says about its host. A connection that is lost says nothing: when the network
    /// goes, those go that stood.
    package mutating func note(_ signal: HostSignal, at nanoseconds: Int64) {
        switch signal {
        case .lost, .silent, .none: return
        case .answered, .throttled: self = UnreachableNodes()
        case .unreachable:
            if count == 0 || nanoseconds - last > Self.pauseMax { (count, first) = (0, nanoseconds) }
            last = nanoseconds
            count += 1
        }
    }

    /// For how many seconds nobody was reached; nil: that may be an accident.
    package func seconds(at nanoseconds: Int64) -> Double? {
        count < Self.countMin ? nil : Double(nanoseconds - first) / 1e9
    }

    /// Whether somebody was reached after the last one.
    package var hasReached: Bool { count == 0 }
}
