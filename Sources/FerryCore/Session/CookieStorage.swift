import Synchronization

/// The cookies of one session as this node knows them (URLSession's `HTTPCookieStorage`). May be used on any
/// thread; a lock is held briefly.
///
/// The database has the cookies of all sessions. A node reads the changes of other nodes before it begins a
/// job of the session, and writes its own ones with the results of its jobs.
public final class CookieStorage: Sendable {
    private struct State: Sendable {
        var jar: CookieJar
        /// Version of the session's cookies in the database that `jar` has; 0 before they were read.
        var version: Int64 = 0
    }

    /// The session.
    public let session: SessionKey
    /// Time at which the session was created; it tells the session from an earlier one of that name.
    public let createdAt: Timestamp
    private let state: Mutex<State>
    /// The storages that have to be written.
    private let unwritten: UnwrittenStorages

    init(_ session: SessionKey, createdAt: Timestamp, _ jar: CookieJar, _ unwritten: UnwrittenStorages) {
        self.session = session
        self.createdAt = createdAt
        self.unwritten = unwritten
        state = Mutex(State(jar: jar))
    }

    // MARK: Requests and responses

    /// Returns the value of `Cookie` for a request; `nil` if it has none.
    public func field(for context: CookieContext) -> [UInt8]? {
        change { $0.field(context) }
    }

    /// Takes the values of the `Set-Cookie` fields of a response.
    public func take(_ values: [[UInt8]], _ context: CookieContext) {
        change { jar in for value in values { jar.take(setCookie: value, context) } }
    }

    /// Reads or changes the jar. What has changed is written with the next results of this node.
    public func change<Value: Sendable, Failure: Error>(
        _ body: (inout CookieJar) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let (result, hasChanges) = state.withLock { state -> (Result<Value, Failure>, Bool) in
            let result = Result { () throws(Failure) in try body(&state.jar) }
            return (result, state.jar.hasChanges)
        }
        if hasChanges { unwritten.add(self) }
        return try result.get()
    }

    /// Bytes of memory that the cookies need, about.
    var byteCount: Int { state.withLock { $0.jar.byteCount } }
    var hasChanges: Bool { state.withLock { $0.jar.hasChanges } }

    // MARK: The database

    /// Version of the session's cookies in the database that this node has; 0 if it has none.
    public var version: Int64 { state.withLock { $0.version } }

    /// Takes cookies that were read from the database. `isWhole`: they are all cookies of the session, not
    /// only those that have changed since the version that this node had.
    public func apply(_ cookies: [Cookie], version: Int64, isWhole: Bool, now: Timestamp) {
        state.withLock { state in
            // Another thread has read a newer version meanwhile.
            guard version > state.version else { return }
            state.jar.apply(stored: cookies, removesOthers: isWhole, now: now)
            state.version = version
        }
    }

    /// Returns what has changed since the last call. The caller writes it, then calls `confirm` or `putBack`.
    public func takeChanges() -> [CookieChange] { state.withLock { $0.jar.takeChanges() } }

    /// Notes that changes are in the database, with the version that they got there.
    public func confirm(_ changes: [CookieChange], version: Int64) {
        state.withLock { state in
            state.jar.confirm(changes)
            if version == state.version + 1 {
                state.version = version
            } else if version <= state.version {
                // The version that was read in the meantime may have newer cookies in place of these, and
                // was not taken over for them.
                state.version = version - 1
            }
        }
    }

    /// Notes that changes could not be written. They are written with the next ones.
    public func putBack(_ changes: [CookieChange]) {
        state.withLock { $0.jar.putBack(changes) }
        unwritten.add(self)
    }
}

/// The storages with changes that are not written yet. May be used on any thread.
final class UnwrittenStorages: Sendable {
    private let storages = Mutex<[ObjectIdentifier: CookieStorage]>([:])
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    func add(_ storage: CookieStorage) {
        storages.withLock { storages in
            storages[ObjectIdentifier(storage)] = storage
            count.store(storages.count, ordering: .releasing)
        }
    }

    func takeAll() -> [CookieStorage] {
        guard !isEmpty else { return [] }
        return storages.withLock { storages in
            defer {
                storages = [:]
                count.store(0, ordering: .releasing)
            }
            return Array(storages.values)
        }
    }
}
