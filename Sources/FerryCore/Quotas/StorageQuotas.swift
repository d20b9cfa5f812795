import Synchronization

// Bytes of managed files, kept bodies and staged uploads.
extension TenantQuotas {
    /// The tenants whose stored bytes are limited.
    public var storageTenants: [String] {
        withTenants { tenants in
            tenants.filter { $0.value.limits.storageByteCountMax != nil }.map(\.key).sorted()
        } ?? []
    }

    /// Bytes that are kept for finished jobs and staged uploads of a tenant with a limit of stored bytes;
    /// `nil` if not known.
    public func storedByteCount(of tenant: String) -> Int64? {
        withTenants { tenants in tenants[tenant].flatMap { $0.isStoredRead ? $0.stored.count : nil } } ?? nil
    }

    /// Returns the limit of a tenant whose stored bytes have reached it, or `nil`.
    public func storageUsedUp(_ tenant: String) -> Int64? {
        withTenants { tenants in
            guard let entry = tenants[tenant], let most = entry.limits.storageByteCountMax else { return nil }
            return entry.storedByteCount >= most ? most : nil
        } ?? nil
    }

    /// Reserves bytes for the file or body of a job, those that are reserved for it included. Returns `false`
    /// if its tenant must not store so many.
    public func reserve(_ byteCount: Int64, for job: JobID, of tenant: String) -> Bool {
        withTenants { tenants in
            guard let entry = tenants[tenant], let most = entry.limits.storageByteCountMax else {
                return true
            }
            let own = entry.reserved[job] ?? 0
            guard byteCount > own else { return true }
            guard entry.storedByteCount - own + byteCount <= most else { return false }
            tenants[tenant]?.reserved[job] = byteCount
            return true
        } ?? true
    }

    /// Reserves bytes that a request may add to an upload, those that are reserved for it included. Returns
    /// the limit of its tenant if the tenant must not store so many, else `nil`.
    public func reserve(_ byteCount: Int64, for upload: UploadID, of tenant: String) -> Int64? {
        withTenants { tenants in
            guard let entry = tenants[tenant], let most = entry.limits.storageByteCountMax else { return nil }
            let own = entry.arriving[upload] ?? 0
            guard byteCount > own else { return nil }
            guard entry.storedByteCount - own + byteCount <= most else { return most }
            tenants[tenant]?.arriving[upload] = byteCount
            return nil
        } ?? nil
    }

    /// Notes the end of a request that has added so many bytes to an upload.
    public func note(added byteCount: Int64, to upload: UploadID, of tenant: String) {
        withTenants { tenants in
            tenants[tenant]?.arriving[upload] = nil
            tenants[tenant]?.stored.add(byteCount)
        }
    }

    /// Notes the end of an attempt, after its result is committed. `stored`: bytes of the finished job that
    /// are kept; `left`: bytes of an unfinished one.
    public func note(stored: Int64, left: Int64, by job: JobID, of tenant: String) {
        withTenants { tenants in
            guard var entry = tenants[tenant], entry.limits.storageByteCountMax != nil else { return }
            entry.reserved[job] = left > 0 ? left : nil
            if stored > 0 && !entry.isRead(job) {
                entry.stored.add(stored)
                entry.finishedSinceBegin[job] = stored
            }
            tenants[tenant] = entry
        }
    }

    /// Call before the stored bytes are read. Returns the jobs for which bytes are reserved.
    @discardableResult
    public func beginStorageReading() -> Set<JobID> {
        withTenants { tenants in
            for tenant in tenants.keys {
                tenants[tenant]?.stored.addedSinceBegin = 0
                tenants[tenant]?.finishedSinceBegin = [:]
            }
            return Set(tenants.values.flatMap(\.reserved.keys))
        } ?? []
    }

    /// The jobs of which a reading must tell whether it has seen their ends: those for which bytes are
    /// reserved, and those that were finished since it began. Call after the bytes are read.
    public var jobsOfStorageReading: [JobID] {
        withTenants { tenants in
            tenants.values.flatMap { Array($0.reserved.keys) + Array($0.finishedSinceBegin.keys) }
        } ?? []
    }

    /// Takes the stored bytes of tenants that were read. `finished`: those of `jobsOfStorageReading` whose
    /// ends this reading has seen. Bytes of each job count once, whether its end is noted before or after.
    public func apply(stored byteCounts: [String: Int64], finished: Set<JobID>) {
        withTenants { tenants in
            for (tenant, byteCount) in byteCounts { tenants[tenant]?.apply(stored: byteCount, finished) }
        }
    }
}

extension TenantQuotas.Tenant {
    fileprivate var storedByteCount: Int64 {
        reserved.values.reduce(stored.count, +) + arriving.values.reduce(0, +)
    }

    /// Returns `true`, once, if the bytes of a finished job were read before its end is noted.
    fileprivate mutating func isRead(_ job: JobID) -> Bool {
        let isLatest = readBeforeNoted.latest.remove(job) != nil
        return readBeforeNoted.former.remove(job) != nil || isLatest
    }

    fileprivate mutating func apply(stored byteCount: Int64, _ finished: Set<JobID>) {
        let isRead = { (job: JobID) in finished.contains(job) }
        let readTwice = finishedSinceBegin.filter { isRead($0.key) }.values.reduce(0, +)
        let added = stored.addedSinceBegin - readTwice
        stored = TenantQuotas.Usage(read: byteCount, added: added, addedSinceBegin: added)
        isStoredRead = true
        finishedSinceBegin = finishedSinceBegin.filter { !isRead($0.key) }
        readBeforeNoted = (Set(reserved.keys.filter(isRead)), readBeforeNoted.latest)
        reserved = reserved.filter { !isRead($0.key) }
    }
}
