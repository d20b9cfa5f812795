import Synchronization

/// The quality of one origin as recent downloads have seen it. A pure value; times are monotonic nanoseconds.
package struct MirrorQuality: Sendable, Equatable {
    /// Order of use: good origins, then unknown ones, then those that failed lately.
    package enum Standing: Int, Sendable, Comparable {
        case good, unknown, bad
        /// Compares in the order of use.
        package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    }

    /// Nanoseconds after which a failure counts half, and after which a measurement does not count.
    private static let forgivingTime: Int64 = 60_000_000_000
    private static let validTime: Int64 = 3_600_000_000_000
    /// Bytes of a typical file, for which the expected time is computed.
    private static let typicalByteCount = 8_388_608.0

    private var bytesPerSecond: Double?
    private var latencySeconds: Double?
    private var failureWeight = 0.0
    private var measuredAt: Int64 = 0
    private var failedAt: Int64 = 0

    /// Begins without any observation.
    package init() {}

    /// A response came, so many seconds after its request.
    package mutating func answered(afterSeconds seconds: Double, now: Int64) {
        latencySeconds = latencySeconds.map { $0 * 0.7 + seconds * 0.3 } ?? seconds
        measuredAt = now
    }

    /// A part of a file came completely. A short one says little about speed, since its time is mostly
    /// latency.
    package mutating func delivered(_ byteCount: Int64, inSeconds seconds: Double, now: Int64) {
        failureWeight = failures(now) / 2
        failedAt = now
        guard byteCount >= 65_536, seconds > 0 else { return }
        let speed = Double(byteCount) / seconds
        bytesPerSecond = bytesPerSecond.map { $0 * 0.7 + speed * 0.3 } ?? speed
        measuredAt = now
    }

    /// `weight`: 1 for a request that failed, more for bytes that were wrong.
    package mutating func failed(weight: Double = 1, now: Int64) {
        failureWeight = min(16, failures(now) + weight)
        failedAt = now
    }

    private func failures(_ now: Int64) -> Double {
        var (weight, age) = (failureWeight, now - failedAt)
        while age >= Self.forgivingTime, weight > 0.01 {
            weight /= 2
            age -= Self.forgivingTime
        }
        return weight
    }

    /// Returns the standing at `now`.
    package func standing(now: Int64) -> Standing {
        if failures(now) > 0.5 { return .bad }
        return bytesPerSecond != nil && now - measuredAt < Self.validTime ? .good : .unknown
    }

    /// Expected time of a typical file, in steps of the square root of two, so that similar origins are
    /// equal; 0 if it was not measured.
    package var slowness: Int {
        guard let bytesPerSecond else { return 0 }
        let milliseconds = ((latencySeconds ?? 0) + Self.typicalByteCount / bytesPerSecond) * 1_000
        var (steps, bound) = (0, 1.0)
        while bound < milliseconds, steps < 80 {
            bound *= 1.414_213_562
            steps += 1
        }
        return steps
    }
}

/// The quality of the origins that downloads with mirrors have asked. Any thread.
package final class MirrorStatistics: Sendable {
    /// Origins that are remembered; beyond it all are forgotten.
    private static let originCountMax = 10_000

    private let qualities = Mutex<[String: MirrorQuality]>([:])

    /// Begins without any observation.
    package init() {}

    /// Changes the quality of an origin, which is created if it is unknown.
    package func note(_ origin: String, _ change: (inout MirrorQuality) -> Void) {
        qualities.withLock { qualities in
            if qualities.count >= Self.originCountMax, qualities[origin] == nil { qualities = [:] }
            change(&qualities[origin, default: MirrorQuality()])
        }
    }

    /// Returns the positions of these origins, best first; equal ones in the given order.
    package func order(_ origins: [String], now: Int64) -> [(place: Int, standing: MirrorQuality.Standing)] {
        let known = qualities.withLock { qualities in origins.map { qualities[$0] ?? MirrorQuality() } }
        let ranks = known.map { quality -> (MirrorQuality.Standing, Int) in
            let standing = quality.standing(now: now)
            return (standing, standing == .good ? quality.slowness : 0)
        }
        let places = origins.indices.sorted { a, b in
            ranks[a] == ranks[b] ? a < b : ranks[a] < ranks[b]
        }
        return places.map { ($0, ranks[$0].0) }
    }
}
