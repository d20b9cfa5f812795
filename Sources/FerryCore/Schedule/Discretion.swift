/// Rules for jobs that may wait for a good moment: their latest start, and which of them start. In seconds
/// and bytes.
public enum Discretion {
    /// Rate of a host that has not been measured.
    public static let bytesPerSecondUnknown = 1_048_576.0
    /// Duration of a transfer of unknown length, limited to half of the available time.
    public static let unknownTransferSeconds = 3_600.0
    /// Part of a window's budget that a transfer of unknown length uses.
    public static let unknownByteCount: Int64 = 64 << 20
    /// Fraction of the measured rate that is assumed: the rate is a mean, and differs between night and day.
    private static let rateShare = 0.5
    private static let marginShare = 0.1
    private static let marginMax = 300.0

    /// Returns the latest time at which a job can start so that it is likely to end before its deadline: the
    /// deadline less the duration of the transfer and a margin of a tenth of the time, at most five minutes.
    ///
    /// `expected`: bytes of the job, or `nil` if not known; `bytesPerSecond`: measured rate of its host, or
    /// `nil`.
    public static func latestStart(
        from now: Timestamp, deadline: Timestamp, expected: Int64?, bytesPerSecond: Double?
    ) -> Timestamp {
        let left = deadline - now
        guard left > 0 else { return now }
        let margin = min(marginMax, left * marginShare)
        let transfer =
            expected.map { bytes in
                Double(bytes) / (bytesPerSecond.map { $0 * rateShare } ?? bytesPerSecondUnknown)
            } ?? min(unknownTransferSeconds, left / 2)
        return max(now, deadline + -(transfer + margin))
    }

    /// Decides which discretionary jobs start now.
    public struct Release: Sendable, Equatable {
        /// A discretionary job.
        public struct Candidate: Sendable, Equatable {
            /// The job.
            public var job: JobID
            /// Expected bytes, or `nil` if not known.
            public var byteCount: Int64?
            /// Creates a candidate.
            public init(job: JobID, byteCount: Int64?) {
                self.job = job
                self.byteCount = byteCount
            }
        }

        /// Bytes of the jobs that were started in one opening of a window. Counted without a budget as well,
        /// since the window may get one while it is open.
        public struct Usage: Sendable, Equatable {
            /// Start of the opening.
            public var opensAt: Timestamp
            /// Bytes that were started.
            public var byteCount: Int64

            /// Saturates, because clients may state any number of expected bytes.
            fileprivate mutating func add(_ count: Int64) {
                let (sum, isTooLarge) = byteCount.addingReportingOverflow(count)
                byteCount = isTooLarge ? .max : sum
            }
        }

        /// Jobs that start, in the order of the candidates.
        public private(set) var jobs: [JobID] = []
        /// Usage of the open windows by name.
        public private(set) var usage: [String: Usage] = [:]

        /// Decides. `candidates`: in the order in which they may start, and no more than may start now.
        /// Without windows for discretionary jobs, all start; otherwise each starts in the first open window
        /// with enough budget for its bytes.
        public init(
            _ candidates: [Candidate], _ windows: OffPeakWindows, usage before: [String: Usage],
            at now: Timestamp, _ zones: some TimeZoneSource
        ) {
            guard !windows.discretionary.isEmpty else {
                jobs = candidates.map(\.job)
                return
            }
            let open: [OffPeakWindow]
            (open, usage) = Self.open(windows, usage: before, at: now, zones)
            for candidate in candidates {
                let byteCount = candidate.byteCount ?? unknownByteCount
                let window = open.first { window in
                    let used = usage[window.name]?.byteCount ?? 0
                    // A job that is larger than the whole budget starts in an opening without other jobs.
                    return window.byteCountMax.map { used == 0 || byteCount <= $0 - used } ?? true
                }
                guard let window else { continue }
                usage[window.name]?.add(byteCount)
                jobs.append(candidate.job)
            }
        }

        /// Returns the open windows with the usage of their openings.
        private static func open(
            _ windows: OffPeakWindows, usage before: [String: Usage], at now: Timestamp,
            _ zones: some TimeZoneSource
        ) -> ([OffPeakWindow], [String: Usage]) {
            var usage: [String: Usage] = [:]
            let open = windows.discretionary.filter { window in
                guard let opening = window.opening(at: now, zones) else { return false }
                let known = before[window.name].flatMap { $0.opensAt == opening.opensAt ? $0 : nil }
                usage[window.name] = known ?? Usage(opensAt: opening.opensAt, byteCount: 0)
                return true
            }
            return (open, usage)
        }

        /// Returns the bytes of the largest job that can start in an open window, or `nil` if there is no
        /// limit.
        public static func byteCountMax(
            _ windows: OffPeakWindows, usage before: [String: Usage], at now: Timestamp,
            _ zones: some TimeZoneSource
        ) -> Int64? {
            guard !windows.discretionary.isEmpty else { return nil }
            let (open, usage) = open(windows, usage: before, at: now, zones)
            var largest: Int64 = 0
            for window in open {
                let used = usage[window.name]?.byteCount ?? 0
                guard let budget = window.byteCountMax, used > 0 else { return nil }
                largest = max(largest, budget - used)
            }
            return largest
        }

        /// Returns the usage as it is stored.
        public static func encode(_ usage: [String: Usage]) -> [UInt8] {
            var writer = JSONWriter()
            writer.beginObject()
            for (name, used) in usage.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                writer.beginObject()
                writer.member("opens_at", used.opensAt)
                writer.member("bytes", used.byteCount)
                writer.endObject()
            }
            writer.endObject()
            return writer.bytes
        }

        /// Reads what `encode` returned; leaves out damaged entries.
        public static func usage(storedJSON: [UInt8]) -> [String: Usage] {
            var usage: [String: Usage] = [:]
            // Damaged usage counts as none: the budget starts anew.
            for member in (try? JSON.parse(storedJSON))?.members ?? [] {
                guard let opensAt = member.value["opens_at"]?.string.flatMap({ Timestamp(rfc3339: $0) }),
                    let byteCount = member.value["bytes"]?.integer, byteCount >= 0
                else { continue }
                usage[member.name] = Usage(opensAt: opensAt, byteCount: byteCount)
            }
            return usage
        }
    }
}

extension JobSpec {
    /// Bytes that the job will send and receive, or `nil` if the client has not stated them.
    public var expectedByteCount: Int64? {
        switch (schedule.expectedBytesToSend, schedule.expectedBytesToReceive) {
        case (nil, nil): nil
        case (let sent, let received): (sent ?? 0) + (received ?? 0)
        }
    }

    /// Returns the latest start of a discretionary job, or `nil` if it must start at once.
    public func latestDiscretionaryStart(
        createdAt: Timestamp, now: Timestamp, bytesPerSecond: Double?
    ) -> Timestamp? {
        let begin = max(now, schedule.earliestBeginAt ?? now)
        let latest = Discretion.latestStart(
            from: begin, deadline: schedule.expiry(createdAt: createdAt), expected: expectedByteCount,
            bytesPerSecond: bytesPerSecond)
        return latest > now ? latest : nil
    }
}
