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
            if stored > 0 { entry.stored.add(stored) }
            tenants[tenant] = entry
        }
    }

    /// Call before the stored bytes are read. Returns the jobs for which bytes are reserved.
    public func beginStorageReading() -> [JobID] {
        withTenants { tenants in
            for tenant in tenants.keys { tenants[tenant]?.stored.addedSinceBegin = 0 }
            return tenants.values.flatMap(\.reserved.keys)
        } ?? []
    }

    /// Takes the stored bytes of tenants that were read, and forgets what is reserved for jobs that were
    /// among those of `beginStorageReading` and are finished.
    public func apply(stored byteCounts: [String: Int64], finished: Set<JobID>) {
        withTenants { tenants in
            for (tenant, byteCount) in byteCounts {
                let added = tenants[tenant]?.stored.addedSinceBegin ?? 0
                tenants[tenant]?.stored = Usage(read: byteCount, added: added, addedSinceBegin: added)
                tenants[tenant]?.isStoredRead = true
            }
            guard !finished.isEmpty else { return }
            tenants = tenants.mapValues { entry in
                var entry = entry
                entry.reserved = entry.reserved.filter { !finished.contains($0.key) }
                return entry
            }
        }
    }
}

extension TenantQuotas.Tenant {
    fileprivate var storedByteCount: Int64 {
        reserved.values.reduce(stored.count, +) + arriving.values.reduce(0, +)
    }
}
