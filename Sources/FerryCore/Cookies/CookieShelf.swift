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
            if entries[middle].cookie.order < entry.cookie.order { low = middle + 1 } else { high = middle }
        }
        entries.insert(entry, at: low)
    }

    /// Removes the cookie at a place.
    mutating func remove(at place: Int) -> Cookie { entries.remove(at: place).cookie }

    /// Notes that a request carries the cookie. Returns `true` if the access is to be stored.
    mutating func touch(_ place: Int, _ now: Timestamp) -> Bool {
        entries[place].cookie.lastAccessAt = max(now, entries[place].cookie.lastAccessAt)
        guard now - entries[place].recordedAccessAt > Limits.cookieAccessSeconds else { return false }
        entries[place].recordedAccessAt = now
        return true
    }
}

extension Cookie {
    /// Place of a cookie among those of a request: longer paths first, then earlier creation.
    struct Order: Comparable {
        private let pathLength: Int
        private let createdAt: Timestamp
        private let name: [UInt8]

        fileprivate init(_ cookie: Cookie) {
            (pathLength, createdAt, name) = (cookie.path.utf8.count, cookie.createdAt, cookie.name)
        }

        static func < (a: Self, b: Self) -> Bool {
            if a.pathLength != b.pathLength { return a.pathLength > b.pathLength }
            if a.createdAt != b.createdAt { return a.createdAt < b.createdAt }
            return a.name.lexicographicallyPrecedes(b.name)
        }
    }

    /// Place among the cookies of a request.
    var order: Order { Order(self) }

    /// Returns `true` if this cookie is evicted before the other one (RFC 6265bis §5.7): its last access is
    /// earlier.
    func isEvictedBefore(_ other: Cookie) -> Bool {
        if lastAccessAt != other.lastAccessAt { return lastAccessAt < other.lastAccessAt }
        if createdAt != other.createdAt { return createdAt < other.createdAt }
        return key < other.key
    }
}
