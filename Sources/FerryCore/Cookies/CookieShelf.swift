/// The cookies of one domain in the order in which a request carries them: longer paths first, then earlier
/// creation (RFC 6265bis §5.8.3). A pure value.
struct CookieShelf: Sendable {
    /// A cookie and the last access that is to be stored.
    struct Entry: Sendable {
        var cookie: Cookie
        /// `lastAccessAt` of the latest change.
        var recordedAccessAt: Timestamp
    }

    /// `true` if only hosts of the domain's own name may have cookies here.
    let isPublicSuffix: Bool
    /// The cookies in order.
    private(set) var entries: [Entry] = []

    init(isPublicSuffix: Bool) { self.isPublicSuffix = isPublicSuffix }

    /// Returns the place of a cookie, or `nil`.
    func place(of key: Cookie.Key) -> Int? {
        entries.firstIndex {
            $0.cookie.name == key.name && $0.cookie.isHostOnly == key.isHostOnly && $0.cookie.path == key.path
        }
    }

    /// Inserts a cookie that is not here yet.
    mutating func insert(_ entry: Entry) {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if !(entry.cookie.order < entries[middle].cookie.order) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        entries.insert(entry, at: low)
    }

    /// Removes the cookie at a place.
    mutating func remove(at place: Int) -> Cookie { entries.remove(at: place).cookie }

    /// Adds the cookies that a request carries, and notes the access. `isHost`: the shelf's domain is the
    /// request's host. Returns the keys of the cookies whose access is to be stored.
    mutating func send(
        to request: CookieRequest, isHost: Bool, _ field: inout CookieField
    ) -> [Cookie.Key] {
        var touched: [Cookie.Key] = []
        for place in entries.indices {
            guard entries[place].cookie.isHostOnly ? isHost : !isPublicSuffix,
                request.isSecure || !entries[place].cookie.isSecure,
                request.isSameSite || entries[place].cookie.sameSite == .unrestricted,
                Cookie.path(request.path, matches: entries[place].cookie.path)
            else { continue }
            field.add(
                entries[place].cookie.name, entries[place].cookie.value, entries[place].cookie.order)
            let now = request.now
            if now > entries[place].cookie.lastAccessAt { entries[place].cookie.lastAccessAt = now }
            if now - entries[place].recordedAccessAt > Limits.cookieAccessSeconds {
                entries[place].recordedAccessAt = now
                touched.append(entries[place].cookie.key)
            }
        }
        return touched
    }

    /// Returns the place of the cookie that is evicted first, or `nil` if there is none. `sparesSecure`: of
    /// those without `Secure`.
    func leastUsed(sparesSecure: Bool) -> Int? {
        var least: Int?
        for place in entries.indices where !sparesSecure || !entries[place].cookie.isSecure {
            guard let other = least, entries[other].isUsed(before: entries[place]) else {
                least = place
                continue
            }
        }
        return least
    }
}

extension CookieShelf.Entry {
    /// Returns `true` if this cookie is evicted before the other one (RFC 6265bis §5.7): its last access is
    /// earlier.
    func isUsed(before other: Self) -> Bool {
        if cookie.lastAccessAt != other.cookie.lastAccessAt {
            return cookie.lastAccessAt < other.cookie.lastAccessAt
        }
        if cookie.createdAt != other.cookie.createdAt {
            return cookie.createdAt < other.cookie.createdAt
        }
        return cookie.key < other.cookie.key
    }
}

extension Cookie {
    /// Place of a cookie among those of a request: longer paths first, then earlier creation.
    struct Order: Comparable {
        private let pathLength: Int
        private let createdAt: Timestamp

        fileprivate init(pathLength: Int, createdAt: Timestamp) {
            (self.pathLength, self.createdAt) = (pathLength, createdAt)
        }

        static func < (a: Self, b: Self) -> Bool {
            if a.pathLength != b.pathLength { return a.pathLength > b.pathLength }
            return a.createdAt < b.createdAt
        }
    }

    /// Place among the cookies of a request.
    var order: Order { Order(pathLength: path.utf8.count, createdAt: createdAt) }
}
