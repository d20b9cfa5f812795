/// Bounds of a jar.
public struct CookieLimits: Sendable, Equatable {
    /// Cookies of one domain.
    public var domainCountMax: Int
    /// Cookies.
    public var countMax: Int
    /// Memory of all cookies (`Cookie.byteCount`), in bytes.
    public var byteCountMax: Int

    /// Creates bounds.
    public init(domainCountMax: Int, countMax: Int, byteCountMax: Int) {
        self.domainCountMax = domainCountMax
        self.countMax = countMax
        self.byteCountMax = byteCountMax
    }

    /// Bounds of a session's jar.
    public static let standard = CookieLimits(
        domainCountMax: Limits.cookieDomainCountMax, countMax: Limits.cookieCountMax,
        byteCountMax: Limits.cookieJarByteCountMax)
}

/// The cookies of a session or of a job (RFC 6265bis). A pure value: times come from the caller.
///
/// The jar notes which cookies have changed. The caller takes these changes, writes them, and confirms them
/// or puts them back; meanwhile the jar keeps what it knows about the cookies when it applies stored ones.
public struct CookieJar: Sendable {
    /// Bounds.
    public let limits: CookieLimits
    private let suffixes: any PublicSuffixes
    /// `false` if the jar notes no changes, since it is not written.
    private let recordsChanges: Bool
    private var shelves: [String: CookieShelf] = [:]
    private var unwritten = UnwrittenCookies()
    /// No cookie expires before this time.
    private var nextExpiry = Timestamp.distantFuture
    /// Creation time of the cookie that was created last.
    private var latestCreation = Timestamp.distantPast

    /// Number of cookies.
    public private(set) var count = 0
    /// Estimate of the memory that the cookies use, in bytes.
    public private(set) var byteCount = 0

    /// Creates an empty jar. `recordsChanges`: `false` for a jar that is not written.
    public init(
        limits: CookieLimits = .standard, publicSuffixes: any PublicSuffixes = .installed,
        recordsChanges: Bool = true
    ) {
        self.limits = limits
        suffixes = publicSuffixes
        self.recordsChanges = recordsChanges
    }

    /// `true` if there are no cookies.
    public var isEmpty: Bool { count == 0 }

    // MARK: Requests and answers

    /// Takes the value of a `Set-Cookie` field of an answer (RFC 6265bis §5.7). Returns `true` if it was
    /// accepted; a field that removes a cookie is, too.
    @discardableResult
    public mutating func take(setCookie octets: [UInt8], _ context: CookieContext) -> Bool {
        let now = context.now
        guard context.acceptsCookies(suffixes), let field = SetCookie(octets, now: now),
            let cookie = field.cookie(context, suffixes, now: now)
        else { return false }
        removeExpired(now)
        if !cookie.isSecure, !context.isSecure, overlaysSecureCookie(cookie) { return false }
        store(cookie, now)
        return true
    }

    /// Returns the value of the `Cookie` field of a request, or `nil` if the request carries no cookie
    /// (RFC 6265bis §5.8.3). Notes the access to the cookies.
    public mutating func field(_ context: CookieContext) -> [UInt8]? {
        guard !isEmpty else { return nil }
        removeExpired(context.now)
        let request = CookieRequest(
            path: context.url.path, isSecure: context.isSecure, isSameSite: context.isSameSite(suffixes),
            now: context.now)
        var (field, isHost) = (CookieField(), true)
        for domain in context.url.cookieDomains {
            if let index = shelves.index(forKey: domain) {
                for key in shelves.values[index].send(to: request, isHost: isHost, &field) { noteChange(key) }
            }
            isHost = false
        }
        return field.value
    }

    /// Returns `true` if a cookie of an unprotected connection would be sent beside or instead of a secure
    /// one (RFC 6265bis §5.7, step 16).
    private func overlaysSecureCookie(_ cookie: Cookie) -> Bool {
        shelves.contains { domain, shelf in
            (Cookie.domain(domain, matches: cookie.domain) || Cookie.domain(cookie.domain, matches: domain))
                && shelf.entries.contains {
                    $0.cookie.isSecure && $0.cookie.name == cookie.name
                        && Cookie.path(cookie.path, matches: $0.cookie.path)
                }
        }
    }

    // MARK: Reading and changing

    /// Stores a cookie that a client gives. One that has expired removes the cookie with the same key.
    /// Throws if no answer could have set the cookie.
    public mutating func set(_ cookie: Cookie, now: Timestamp) throws(Cookie.Failure) {
        try cookie.check(suffixes)
        var cookie = cookie
        cookie.expiresAt = cookie.expiresAt.map { min($0, Cookie.latestExpiry(now)) }
        cookie.lastAccessAt = min(cookie.lastAccessAt, now)
        removeExpired(now)
        store(cookie, now)
    }

    /// Removes cookies. Returns their number.
    public mutating func remove(where filter: CookieFilter, now: Timestamp) -> Int {
        removeExpired(now)
        let keys = selected(by: filter).map(\.key)
        for key in keys {
            discard(key)
            noteChange(key)
        }
        return keys.count
    }

    /// Returns cookies in the order of their keys. `after`: the last key of the page before, or `nil`.
    public func cookies(
        where filter: CookieFilter = .all, after key: Cookie.Key? = nil, limit: Int = .max, now: Timestamp
    ) -> [Cookie] {
        let found = selected(by: filter).filter { cookie in
            !cookie.isExpired(at: now) && key.map { $0 < cookie.key } ?? true
        }
        return Array(found.sorted { $0.key < $1.key }.prefix(limit))
    }

    private func selected(by filter: CookieFilter) -> [Cookie] {
        shelves.values.flatMap { $0.entries.lazy.map(\.cookie).filter(filter.matches) }
    }

    // MARK: Writing and reading the stored cookies

    /// `true` if there are changes that no write has taken.
    public var hasChanges: Bool { !unwritten.changed.isEmpty }

    /// Returns the changes since the last call. Until they are confirmed or put back, `apply` keeps these
    /// cookies as they are. A cookie that has expired is no change: its row may be removed by its time.
    public mutating func takeChanges() -> [CookieChange] {
        unwritten.take().map { key in
            entry(key).map { .stored($0.cookie) } ?? .removed(key)
        }
    }

    /// Notes that changes are written.
    public mutating func confirm(_ changes: [CookieChange]) {
        unwritten.end(changes.lazy.map(\.key), isDone: true)
    }

    /// Notes that changes could not be written: `takeChanges` returns these cookies again, as they are then.
    public mutating func putBack(_ changes: [CookieChange]) {
        unwritten.end(changes.lazy.map(\.key), isDone: false)
    }

    /// Takes stored cookies, which other nodes may have changed. Cookies with changes that are not confirmed
    /// stay as they are. `removesOthers`: `true` if these are all stored cookies, so that the jar loses the
    /// others.
    public mutating func apply(stored cookies: [Cookie], removesOthers: Bool, now: Timestamp) {
        if removesOthers {
            let keys = Set(cookies.map(\.key))
            for key in selected(by: .all).map(\.key) where !keys.contains(key) && !unwritten.contains(key) {
                discard(key)
            }
        }
        for var cookie in cookies {
            let key = cookie.key
            guard !unwritten.contains(key) else { continue }
            let (known, recorded) = (discard(key), cookie.lastAccessAt)
            guard !cookie.isExpired(at: now) else { continue }
            if let known { cookie.lastAccessAt = max(recorded, known.lastAccessAt) }
            insert(cookie, recordedAccessAt: recorded)
        }
        removeExpired(now)
        for domain in Set(cookies.map(\.domain)) { evict(from: domain) }
    }

    // MARK: Contents

    private func entry(_ key: Cookie.Key) -> CookieShelf.Entry? {
        guard let shelf = shelves[key.domain], let place = shelf.place(of: key) else { return nil }
        return shelf.entries[place]
    }

    /// Stores a cookie in place of the one with the same key, whose creation time it gets (RFC 6265bis §5.7,
    /// steps 23 and 24). An expired cookie only removes it.
    private mutating func store(_ cookie: Cookie, _ now: Timestamp) {
        var cookie = cookie
        let key = cookie.key
        let old = discard(key)
        if cookie.isExpired(at: now) {
            if old != nil { noteChange(key) }
            return
        }
        cookie.createdAt = old?.createdAt ?? creationTime(cookie.createdAt, now)
        insert(cookie, recordedAccessAt: cookie.lastAccessAt)
        noteChange(key)
        evict(from: key.domain)
    }

    /// Returns the creation time of a new cookie. Cookies that are created at the same time, such as those
    /// of one answer, get different ones, which keep their order.
    private mutating func creationTime(_ given: Timestamp, _ now: Timestamp) -> Timestamp {
        guard given >= now else { return given }
        // After a second, the clock was set back.
        let isRepeated = now <= latestCreation && latestCreation - now < 1
        latestCreation = isRepeated ? Timestamp(microseconds: latestCreation.microseconds + 1) : now
        return latestCreation
    }

    private mutating func insert(_ cookie: Cookie, recordedAccessAt: Timestamp) {
        count += 1
        byteCount += cookie.byteCount
        if let expiresAt = cookie.expiresAt { nextExpiry = min(nextExpiry, expiresAt) }
        let entry = CookieShelf.Entry(cookie: cookie, recordedAccessAt: recordedAccessAt)
        let isPublicSuffix = { [suffixes] in suffixes.isShared(cookie.domain) }
        shelves[cookie.domain, default: CookieShelf(isPublicSuffix: isPublicSuffix())].insert(entry)
    }

    /// Removes a cookie and returns it, or `nil` if there is none.
    @discardableResult
    private mutating func discard(_ key: Cookie.Key) -> Cookie? {
        guard let index = shelves.index(forKey: key.domain),
            let place = shelves.values[index].place(of: key)
        else { return nil }
        let cookie = shelves.values[index].remove(at: place)
        if shelves.values[index].entries.isEmpty { shelves.remove(at: index) }
        count -= 1
        byteCount -= cookie.byteCount
        return cookie
    }

    private mutating func noteChange(_ key: Cookie.Key) {
        if recordsChanges { unwritten.insert(key) }
    }

    private mutating func removeExpired(_ now: Timestamp) {
        guard nextExpiry <= now else { return }
        nextExpiry = .distantFuture
        for cookie in selected(by: .all) {
            if cookie.isExpired(at: now) {
                discard(cookie.key)
            } else if let expiresAt = cookie.expiresAt {
                nextExpiry = min(nextExpiry, expiresAt)
            }
        }
    }

    /// Removes cookies beyond the limits in the order of RFC 6265bis §5.7: of the domain, those that are not
    /// secure first; then of all. Of several, the one with the earliest last access.
    private mutating func evict(from domain: String) {
        while let index = shelves.index(forKey: domain) {
            let shelf = shelves.values[index]
            guard shelf.entries.count > limits.domainCountMax else { break }
            evict(shelf, at: shelf.leastUsed(sparesSecure: true) ?? shelf.leastUsed(sparesSecure: false))
        }
        while count > limits.countMax || byteCount > limits.byteCountMax {
            var least: (shelf: CookieShelf, place: Int)?
            for shelf in shelves.values {
                guard let place = shelf.leastUsed(sparesSecure: false) else { continue }
                if let other = least, other.shelf.entries[other.place].isUsed(before: shelf.entries[place]) {
                    continue
                }
                least = (shelf, place)
            }
            guard let least else { return }
            evict(least.shelf, at: least.place)
        }
    }

    private mutating func evict(_ shelf: CookieShelf, at place: Int?) {
        guard let place else { return }
        let key = shelf.entries[place].cookie.key
        discard(key)
        noteChange(key)
    }
}
