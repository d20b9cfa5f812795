import FerryCore

extension HostScope {
    /// The scopes that hold for its requests, itself first.
    var upward: [HostScope] {
        var scopes = [self]
        while let wider = scopes.last?.wider { scopes.append(wider) }
        return scopes
    }

    /// Whether every request of it is one of `wide`.
    func isInside(_ wide: HostScope) -> Bool {
        wide.isOrigin || tenant == wide.tenant && (wide.path.isEmpty || path == wide.path)
    }

    /// The requests of the scope, in words for the tenant.
    var words: String {
        if isOrigin { return "the requests to this host" }
        guard !path.isEmpty else { return "this tenant's requests to this host" }
        let segment = path.prefix { $0 != "#" }
        return "this tenant's requests to \(segment.hasPrefix("/") ? "" : "/")\(segment) on this host"
    }
}

extension Sequence<HostScope> {
    /// The widest first, so that the same events lead to the same state.
    var inOrder: [HostScope] { sorted { ($0.tenant, $0.path) < ($1.tenant, $1.path) } }
}

extension HostControl.Limit {
    /// How much it allows: `10 at once and 20 a second`.
    var words: String {
        let parts = [
            connectionLimit.map { "\($0) at once" }, requestRate.map { "\(decimalText($0)) a second" },
        ]
        let words = parts.compactMap(\.self).joined(separator: " and ")
        return words.isEmpty ? "no limit" : words
    }
}

extension ScopeControl {
    var level: HostControl.Limit {
        HostControl.Limit(connectionLimit: window?.size, requestRate: bucket?.rate)
    }
}

extension Double {
    /// With one digit after the point, unless it is large or whole.
    var tenths: String { decimalText(self >= 10 ? rounded() : (self * 10).rounded() / 10) }
}
