/// A change of a jar that is to be written.
public enum CookieChange: Sendable, Equatable {
    /// The cookie is new or has changed.
    case stored(Cookie)
    /// The cookie is gone.
    case removed(Cookie.Key)

    /// Identity of the cookie.
    public var key: Cookie.Key {
        switch self {
        case .stored(let cookie): cookie.key
        case .removed(let key): key
        }
    }
}

/// The cookies of a jar whose state is newer than what is stored. A pure value.
struct UnwrittenCookies: Sendable {
    /// Cookies with changes that no write has taken.
    private(set) var changed: Set<Cookie.Key> = []
    /// Cookies with changes that writes have taken, and the number of these writes.
    private var taken: [Cookie.Key: Int] = [:]

    /// Returns `true` if the jar knows more about the cookie than what is stored.
    func contains(_ key: Cookie.Key) -> Bool { changed.contains(key) || taken[key] != nil }

    /// Notes that the cookie has changed.
    mutating func insert(_ key: Cookie.Key) { changed.insert(key) }

    /// Gives the changed cookies to a write.
    mutating func take() -> [Cookie.Key] {
        let keys = changed.sorted()
        for key in keys { taken[key, default: 0] += 1 }
        changed.removeAll(keepingCapacity: true)
        return keys
    }

    /// Ends a write. `isDone`: `false` if it failed, and the cookies have to be written again.
    mutating func end(_ keys: some Sequence<Cookie.Key>, isDone: Bool) {
        for key in keys {
            guard let count = taken[key] else { continue }
            taken[key] = count > 1 ? count - 1 : nil
            if !isDone { changed.insert(key) }
        }
    }
}
