import Synchronization

/// The limits of tenants, and what tenants have used of them, as this node knows it. Any thread.
///
/// The store reads both at each heartbeat, and the limits when another node has changed some. Tenants without
/// limits cost one load of an atomic.
public final class TenantQuotas: Sendable {
    /// Limits and use of a tenant, as the store has read them.
    public struct Reading: Sendable, Equatable {
        public let limits: TenantLimits
        /// Bytes of bodies of ended attempts since midnight (UTC). Counted while the tenant has a limit.
        public let transferredByteCount: Int64

        public init(limits: TenantLimits, transferredByteCount: Int64 = 0) {
            self.limits = limits
            self.transferredByteCount = transferredByteCount
        }
    }

    /// A number that the store reads, and to which this node adds until the next reading. What it adds while
    /// a reading is under way may be counted twice until the next one, and is never missed.
    struct Usage {
        var read: Int64 = 0
        /// Added since the reading began that `read` comes from.
        var added: Int64 = 0
        /// Added since the latest reading began.
        var addedSinceBegin: Int64 = 0
        var count: Int64 { read + added }

        mutating func add(_ count: Int64) {
            added += count
            addedSinceBegin += count
        }
    }

    struct Tenant {
        var limits: TenantLimits
        var transferred = Usage()
        /// Bytes of ended attempts whose results are not committed.
        var uncommitted: Int64 = 0
        /// Day (UTC) of `transferred`, in days since 1970.
        var day: Int64 = 0
        /// Bytes of managed files and kept bodies of finished jobs, and of staged uploads. Before the first
        /// reading, those that this node has added since the tenant has a limit.
        var stored = Usage()
        var isStoredRead = false
        /// Bytes kept for finished jobs that were noted since the latest reading began; `stored` has them.
        var finishedSinceBegin: [JobID: Int64] = [:]
        /// Finished jobs of the last two readings whose bytes are in `stored.read`, and are not noted yet.
        var readBeforeNoted: (latest: Set<JobID>, former: Set<JobID>) = ([], [])
        /// Bytes that attempts of this node have written or are about to write, and those that they have left
        /// for a later attempt.
        var reserved: [JobID: Int64] = [:]
        /// Bytes that requests of this node may add to staged uploads.
        var arriving: [UploadID: Int64] = [:]
    }

    private struct State {
        var tenants: [String: Tenant] = [:]
        var begun = 0
        var applied = 0
    }

    private let state = Mutex(State())
    private let isEmpty = Atomic<Bool>(true)

    /// Creates quotas without limits.
    public init() {}

    /// The limits of a tenant; `nil` if it has none.
    public func limits(of tenant: String) -> TenantLimits? {
        guard !isEmpty.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.tenants[tenant]?.limits }
    }

    /// Calls `body` with the tenants that have limits; returns `nil` without a call if there are none.
    @discardableResult
    func withTenants<Value: Sendable>(_ body: (inout [String: Tenant]) -> Value) -> Value? {
        guard !isEmpty.load(ordering: .relaxed) else { return nil }
        return state.withLock { body(&$0.tenants) }
    }

    // MARK: Readings

    /// Returns the number of this reading. Call before the limits are read.
    public func beginReading() -> Int {
        state.withLock { state in
            state.begun += 1
            for tenant in state.tenants.keys {
                state.tenants[tenant]?.transferred.addedSinceBegin = 0
            }
            return state.begun
        }
    }

    /// Replaces limits and usage by what was read, unless a later reading was applied before. Returns `true`
    /// if the limits have changed. `reading`: the value of `beginReading`; `now`: the time of the reading.
    public func apply(_ readings: [String: Reading], reading: Int, at now: Timestamp) -> Bool {
        state.withLock { state in
            guard reading > state.applied else { return false }
            let isLatest = reading == state.begun
            state.applied = reading
            var tenants: [String: Tenant] = [:]
            for (name, read) in readings {
                let before = state.tenants[name]
                var tenant = Tenant(limits: read.limits)
                if let before {
                    tenant = before
                    (tenant.limits, tenant.transferred) = (read.limits, Usage())
                }
                tenant.day = now.day
                tenant.transferred.read = read.transferredByteCount
                if let before, before.day == now.day {
                    let added = before.transferred.addedSinceBegin
                    tenant.transferred.addedSinceBegin = added
                    // If another reading has begun since, what was added before it is not told apart.
                    tenant.transferred.added = isLatest ? added : before.transferred.added
                }
                tenants[name] = tenant
            }
            let isChanged = tenants.mapValues(\.limits) != state.tenants.mapValues(\.limits)
            state.tenants = tenants
            isEmpty.store(tenants.isEmpty, ordering: .relaxed)
            return isChanged
        }
    }

    // MARK: Bytes of a day

    /// `true` if the bytes of the tenant's transfers are counted.
    public func countsTransfers(of tenant: String) -> Bool { limits(of: tenant)?.bytesPerDay != nil }

    /// Adds the bytes of an attempt whose result is to be committed.
    public func note(ended byteCount: Int64, of tenant: String) {
        withTenants { tenants in
            guard let before = tenants[tenant]?.uncommitted else { return }
            tenants[tenant]?.uncommitted = before + byteCount
        }
    }

    /// Notes that the bytes of an ended attempt are committed. The next reading has them.
    public func note(committed byteCount: Int64, of tenant: String, at now: Timestamp) {
        state.withLock { state in
            guard var entry = state.tenants[tenant] else { return }
            entry.uncommitted = max(0, entry.uncommitted - byteCount)
            if entry.day != now.day { (entry.day, entry.transferred) = (now.day, Usage()) }
            entry.transferred.add(byteCount)
            state.tenants[tenant] = entry
        }
    }

    /// The end of the day (UTC) until which the tenant's jobs wait, because its bytes of the day are used up;
    /// `nil` if they need not wait.
    public func usedUpUntil(_ tenant: String, at now: Timestamp) -> Timestamp? {
        guard !isEmpty.load(ordering: .relaxed) else { return nil }
        return state.withLock { state in
            guard let entry = state.tenants[tenant], let most = entry.limits.bytesPerDay else { return nil }
            let used = entry.day == now.day ? entry.transferred.count : 0
            return used + entry.uncommitted >= most ? now.nextDay : nil
        }
    }
}

extension Timestamp {
    /// Microseconds of a day.
    private static let dayMicroseconds: Int64 = 86_400_000_000

    /// Days since 1970 (UTC).
    fileprivate var day: Int64 { CivilCalendar.floorDivide(microseconds, Self.dayMicroseconds) }

    /// Begin of the next day (UTC).
    fileprivate var nextDay: Timestamp { Timestamp(microseconds: (day + 1) * Self.dayMicroseconds) }
}
