/// Finds the route of a request: by the raw path, segment by segment; parameters are decoded afterwards, so
/// that an escaped slash never moves a boundary.
struct Router: Sendable {
    /// A pattern with everything that can be done there.
    private struct Place: Sendable {
        /// Nil: a parameter.
        var segments: [[UInt8]?]
        var routes: [(method: String, index: Int)]
        var allow: String
    }
    enum Match {
        /// Index into `routes`.
        case route(Int)
        /// The place exists, the method does not; `Allow` for the answer.
        case otherMethod(allow: String)
        case nothing
    }
    /// By the number of segments.
    private var places: [[Place]] = []

    init(_ routes: [Route]) {
        var patterns: [String] = []
        for route in routes where !patterns.contains(route.pattern) { patterns.append(route.pattern) }
        for pattern in patterns {
            let segments = pattern.utf8.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
            let own = routes.enumerated().filter { $0.element.pattern == pattern }
            var methods = own.map(\.element.method)
            if methods.contains("GET") { methods.append("HEAD") }
            methods.append("OPTIONS")
            let place = Place(
                segments: segments.map { $0.first == UInt8(ascii: "{") ? nil : Array($0) },
                routes: own.map { ($0.element.method, $0.offset) },
                allow: methods.sorted().joined(separator: ", "))
            while places.count <= segments.count { places.append([]) }
            places[segments.count].append(place)
        }
        // Fixed names before parameters: `/v1/jobs/batch` is no job.
        for index in places.indices {
            places[index].sort { a, b in
                a.segments.filter { $0 == nil }.count < b.segments.filter { $0 == nil }.count
            }
        }
    }

    func match(method: String, path: String) -> Match {
        guard path.utf8.first == slash else { return .nothing }
        let segments = path.utf8.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
        guard segments.count < places.count else { return .nothing }
        for place in places[segments.count] where fits(place, segments) {
            let wanted = method == "HEAD" ? "GET" : method
            if let found = place.routes.first(where: { $0.method == wanted }) { return .route(found.index) }
            return .otherMethod(allow: place.allow)
        }
        return .nothing
    }

    private func fits(_ place: Place, _ segments: [Substring.UTF8View]) -> Bool {
        for (pattern, segment) in zip(place.segments, segments) {
            if let pattern {
                guard segment.elementsEqual(pattern) else { return false }
            } else if segment.isEmpty {
                return false
            }
        }
        return true
    }
}

private let slash = UInt8(ascii: "/")
