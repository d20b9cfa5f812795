import FerryCore
import Testing

/// The cookies of sessions in the memory of a node, and what of them is in the database.
@Suite("Cookies of sessions in memory") struct CookieStorageTests {
    private static let now = Timestamp(microseconds: 1_700_000_000_000_000)

    /// Storages of the sessions `0`, `1`, … of one tenant.
    private static func storages(
        _ count: Int, byteCountMax: Int = .max
    ) -> (storages: CookieStorages, records: [SessionRecord]) {
        let records = (0..<count).map { record("\($0)") }
        let sessions = SessionCache()
        sessions.put(
            SessionSnapshot(
                epoch: 1, removal: 0, records: Dictionary(uniqueKeysWithValues: records.map { ($0.key, $0) }))
        )
        return (CookieStorages(of: sessions, publicSuffixes: .installed, byteCountMax: byteCountMax), records)
    }

    private static func record(_ name: String, createdAt: Timestamp = now) -> SessionRecord {
        SessionRecord(
            SessionKey(tenant: "acme", name: name), revision: 1, epoch: 1, createdAt: createdAt,
            updatedAt: createdAt, configuration: SessionConfiguration())
    }

    private static func context(_ url: String = "http://a.example/") throws -> CookieContext {
        CookieContext(url: try WebURL.parse(url), now: now)
    }

    private static func cookie(_ name: String, _ value: String, domain: String = "a.example") -> Cookie {
        Cookie(
            name: Array(name.utf8), value: Array(value.utf8), domain: domain, isHostOnly: true,
            createdAt: now, lastAccessAt: now)
    }

    private static func sent(_ storage: CookieStorage) throws -> String? {
        storage.field(for: try context()).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a session has one storage as long as it is the same session")
    func identity() {
        let (storages, records) = Self.storages(1)
        #expect(storages.storage(of: records[0]) === storages.storage(of: records[0]))
        let again = Self.record("0", createdAt: Self.now + 1)
        #expect(storages.storage(of: again) !== storages.storage(of: records[0]))
    }

    @Test("changes are taken once, and again if they could not be written")
    func changes() throws {
        let (storages, records) = Self.storages(2)
        let storage = storages.storage(of: records[0])
        #expect(storages.takeChanges().isEmpty)
        storage.take([Array("a=1".utf8)], try Self.context())
        let taken = storages.takeChanges()
        #expect(taken.count == 1 && taken[0].changes.count == 1 && storages.takeChanges().isEmpty)
        storage.putBack(taken[0].changes)
        storage.take([Array("b=1".utf8)], try Self.context())
        let again = storages.takeChanges()
        #expect(again.count == 1 && again[0].changes.count == 2)
        storage.confirm(again[0].changes, version: 1)
        #expect(storages.takeChanges().isEmpty && storage.version == 1)
    }

    @Test("a version that was read in between is read again if it may have replaced what was being written")
    func versions() throws {
        let (storages, records) = Self.storages(1)
        let storage = storages.storage(of: records[0])
        storage.take([Array("a=mine".utf8)], try Self.context())
        let taken = storages.takeChanges()[0].changes
        // The write got version 1, another node wrote the same cookie with version 2, and both were read
        // before this node knew that its own write was committed.
        storage.apply([Self.cookie("a", "theirs")], version: 2, isWhole: false, now: Self.now)
        #expect(try Self.sent(storage) == "a=mine")
        storage.confirm(taken, version: 1)
        #expect(storage.version == 0)
        storage.apply([Self.cookie("a", "theirs")], version: 2, isWhole: false, now: Self.now)
        #expect(try Self.sent(storage) == "a=theirs" && storage.version == 2)
        // A reading that began earlier and ends later changes nothing.
        storage.apply([Self.cookie("a", "old")], version: 1, isWhole: true, now: Self.now)
        #expect(try Self.sent(storage) == "a=theirs" && storage.version == 2)
        storage.apply([], version: 3, isWhole: true, now: Self.now)
        #expect(try Self.sent(storage) == nil)
    }

    @Test("beyond the limit of memory, the storages that were not used for the longest time are forgotten")
    func memory() throws {
        let size = Self.cookie("a", "1").byteCount
        let (storages, records) = Self.storages(20, byteCountMax: 10 * size)
        // One that an attempt uses, and one with a change that is not written.
        let used = storages.storage(of: records[0])
        storages.storage(of: records[1]).take([Array("x=1".utf8)], try Self.context())
        for (index, record) in records.enumerated() {
            let storage = storages.storage(of: record)
            storage.apply([Self.cookie("a", "\(index)")], version: 1, isWhole: true, now: Self.now)
            storages.noteRead(storage)
            #expect(storages.byteCount <= 11 * size)
        }
        #expect(storages.storage(of: records[0]) === used)
        #expect(try Self.sent(storages.storage(of: records[1]))?.contains("x=1") == true)
        #expect(try Self.sent(storages.storage(of: records[2])) == nil)
        #expect(try Self.sent(storages.storage(of: records[19])) == "a=19")
    }

    @Test("an attempt sends and keeps what its session and its request say")
    func attempts() throws {
        let (storages, records) = Self.storages(1)
        let storage = storages.storage(of: records[0])
        storage.apply([Self.cookie("a", "1")], version: 1, isWhole: true, now: Self.now)
        let url = try WebURL.parse("http://a.example/")
        var spec = JobSpec()
        spec.session = "0"
        spec.request = .init(url: url.string, method: "GET")
        #expect(storages.session(of: spec, tenant: "other") == nil)
        let session = try #require(storages.session(of: spec, tenant: "acme"))
        #expect(session.cookieField(for: url, at: Self.now) == Array("a=1".utf8))
        session.keepCookies([Array("b=2".utf8)], from: url, at: Self.now)
        #expect(session.cookieField(for: url, at: Self.now) == Array("a=1; b=2".utf8))
        spec.request.handlesCookies = false
        let other = try #require(storages.session(of: spec, tenant: "acme"))
        #expect(other.cookieField(for: url, at: Self.now) == nil)
        other.keepCookies([Array("c=3".utf8)], from: url, at: Self.now)
        #expect(try Self.sent(storage) == "a=1; b=2")
    }
}
