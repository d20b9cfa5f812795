import Synchronization

/// The cookies of the sessions that this node uses. May be used on any thread; a lock is held briefly.
///
/// Those that were not used for the longest time are forgotten once all need more than
/// `Limits.cookieMemoryByteCountMax` bytes; the database has them. Storages that an attempt uses, or that
/// have changes to write, stay.
public final class CookieStorages: Sendable {
    fileprivate struct Entry: Sendable {
        var storage: CookieStorage
        var lastUse: UInt64
        var byteCount = 0
    }

    fileprivate struct State: Sendable {
        var entries: [SessionKey: Entry] = [:]
        var useCount: UInt64 = 0
        var byteCount = 0
    }

    private let sessions: SessionCache
    private let publicSuffixes: any PublicSuffixes
    private let unwritten = UnwrittenStorages()
    private let state = Mutex(State())
    private let byteCountMax: Int

    /// Creates storages for the sessions that `sessions` has.
    public init(
        of sessions: SessionCache, publicSuffixes: any PublicSuffixes,
        byteCountMax: Int = Limits.cookieMemoryByteCountMax
    ) {
        self.sessions = sessions
        self.publicSuffixes = publicSuffixes
        self.byteCountMax = byteCountMax
    }

    /// Returns the storage of a configured session.
    public func storage(of record: SessionRecord) -> CookieStorage {
        state.withLock { state in
            state.useCount += 1
            if let known = state.entries[record.key]?.storage, known.createdAt == record.createdAt {
                state.entries[record.key]?.lastUse = state.useCount
                return known
            }
            let storage = CookieStorage(
                record.key, createdAt: record.createdAt, CookieJar(publicSuffixes: publicSuffixes), unwritten)
            state.byteCount -= state.entries[record.key]?.byteCount ?? 0
            state.entries[record.key] = Entry(storage: storage, lastUse: state.useCount)
            return storage
        }
    }

    /// Returns what an attempt of a job uses of its session; `nil` if that is not configured.
    public func session(of spec: JobSpec, tenant: String) -> AttemptSession? {
        let sessions = sessions.current
        guard !sessions.records.isEmpty, let record = sessions.record(tenant, spec.session) else {
            return nil
        }
        return AttemptSession(record, storage(of: record), spec)
    }

    /// Notes that a storage was read from the database, and forgets others if all need too much memory.
    public func noteRead(_ storage: CookieStorage) {
        let byteCount = storage.byteCount
        state.withLock { state in
            guard let before = state.entries[storage.session], before.storage === storage else { return }
            state.byteCount += byteCount - before.byteCount
            state.entries[storage.session]?.byteCount = byteCount
            if state.byteCount > byteCountMax { state.shrink(to: byteCountMax, keeping: storage.session) }
        }
    }

    /// Forgets all cookies: the database was restored from an older copy.
    public func forgetAll() { state.withLock { $0 = State() } }

    /// Bytes of memory that the cookies of all sessions need, about.
    public var byteCount: Int { state.withLock { $0.byteCount } }

    /// Returns the storages with changes, and what has changed in them. The caller writes it, then calls
    /// `confirm` or `putBack` of each storage.
    public func takeChanges() -> [(storage: CookieStorage, changes: [CookieChange])] {
        unwritten.takeAll().compactMap { storage in
            let changes = storage.takeChanges()
            return changes.isEmpty ? nil : (storage, changes)
        }
    }
}

extension CookieStorages.State {
    /// Forgets storages in the order of their last use, until the others need at most seven eighths of
    /// `byteCountMax`: a node with many sessions sorts them seldom.
    fileprivate mutating func shrink(to byteCountMax: Int, keeping kept: SessionKey) {
        let order = entries.map { (key: $0.key, lastUse: $0.value.lastUse) }.sorted {
            $0.lastUse < $1.lastUse
        }
        for (key, _) in order where key != kept {
            guard byteCount > byteCountMax / 8 * 7 else { return }
            guard var entry = entries.removeValue(forKey: key) else { continue }
            if isKnownUniquelyReferenced(&entry.storage), !entry.storage.hasChanges {
                byteCount -= entry.byteCount
            } else {
                entries[key] = entry
            }
        }
    }
}
