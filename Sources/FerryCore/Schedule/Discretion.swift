/// When a job that may wait has to start after all. Seconds and bytes.
package enum Discretion {
    /// Of a host that nobody has measured.
    package static let bytesPerSecondUnknown = 1_048_576.0
    /// For a transfer of unknown length, but no more than half of the time that there is.
    package static let unknownTransferSeconds = 3_600.0
    /// What a transfer of unknown length takes of a window's budget.
    package static let unknownByteCount: Int64 = 64 << 20
    /// A measured rate is a mean, and the night's is not the day's.
    private static let rateShare = 0.5
    private static let marginShare = 0.1
    private static let marginMax = 300.0

    /// The latest moment at which a job may start so that it is likely to end in time: its deadline less the
    /// time of the transfer, less a margin of a tenth of the time, at most five minutes.
    ///
    /// `expected`: its bytes, nil when nobody knows; `bytesPerSecond`: what its host was measured at.
    package static func latestStart(
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

    /// Which of the jobs that may wait start now.
    package struct Release: Sendable, Equatable {
        package struct Candidate: Sendable, Equatable {
            package var job: JobID
            /// Nil: nobody knows.
            package var byteCount: Int64?
            package init(job: JobID, byteCount: Int64?) {
                self.job = job
                self.byteCount = byteCount
            }
        }

        /// Bytes that were started in an opening of a window. Also of one without a budget: it may get one
        /// while it is open.
        package struct Usage: Sendable, Equatable {
            package var opensAt: Timestamp
            package var byteCount: Int64
            package init(opensAt: Timestamp, byteCount: Int64) {
                self.opensAt = opensAt
                self.byteCount = byteCount
            }

            /// What clients expect is their word alone: a thousand of them may say more than there is.
            fileprivate mutating func add(_ count: Int64) {
                let (sum, isTooLarge) = byteCount.addingReportingOverflow(count)
                byteCount = isTooLarge ? .max : sum
            }
        }

        /// In the candidates' order.
        package private(set) var jobs: [JobID] = []
        /// By window, of those that are open.
        package private(set) var usage: [String: Usage] = [:]

        /// `candidates`: in the order in which they may start, no more than may start now. Without windows
        /// for them, all start; else each in the first open window that has room for its bytes.
        package init(
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
                    // One that is larger than the whole budget starts in an opening of its own.
                    return window.byteCountMax.map { used == 0 || byteCount <= $0 - used } ?? true
                }
                guard let window else { continue }
                usage[window.name]?.add(byteCount)
                jobs.append(candidate.job)
            }
        }

        /// The windows that are open, with what was started in their openings.
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

        /// The bytes of the largest job that an open window has room for; nil: any job.
        package static func byteCountMax(
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

        package static func encode(_ usage: [String: Usage]) -> [UInt8] {
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

        /// Reads what `encode` wrote; what is damaged is nothing.
        package static func usage(storedJSON: [UInt8]) -> [String: Usage] {
            var usage: [String: Usage] = [:]
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
    /// What it will send and receive; nil: the client has not said.
    package var expectedByteCount: Int64? {
        switch (schedule.expectedBytesToSend, schedule.expectedBytesToReceive) {
        case (nil, nil): nil
        case (let sent, let received): (sent ?? 0) + (received ?? 0)
        }
    }

    /// When a job that may wait begins at the latest; nil: at once.
    package func latestDiscretionaryStart(
        createdAt: Timestamp, now: Timestamp, bytesPerSecond: Double?
    ) -> Timestamp? {
        let begin = max(now, schedule.earliestBeginAt ?? now)
        let latest = Discretion.latestStart(
            from: begin, deadline: schedule.expiry(createdAt: createdAt), expected: expectedByteCount,
            bytesPerSecond: bytesPerSecond)
        return latest > now ? latest : nil
    }
}
