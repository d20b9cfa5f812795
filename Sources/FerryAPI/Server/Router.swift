/// Finds the route of a request. It compares the segments of the path before percent-decoding, so that an
/// encoded slash does not separate segments.
struct Router: Sendable {
    /// A pattern with its routes.
    private struct Endpoint: Sendable {
        /// `nil` for a parameter.
        var segments: [[UInt8]?]
        var routes: [(method: String, index: Int)]
        /// Value of the field `Allow`.
        var allow: String
    }
    enum Match {
        /// Index into `routes`.
        case route(Int)
        /// The path is known, but not with this method. `allow`: value of the field `Allow`.
        case otherMethod(allow: String)
        /// The path is unknown.
        case nothing
    }
    /// Endpoints by the number of their segments.
    private var endpoints: [[Endpoint]] = []

    init(_ routes: [Route]) {
        var patterns: [String] = []
        for route in routes where !patterns.contains(route.pattern) { patterns.append(route.pattern) }
        for pattern in patterns {
            let segments = pattern.utf8.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
            let own = routes.enumerated().filter { $0.element.pattern == pattern }
            var methods = own.map(\.element.method)
            if methods.contains("GET") { methods.append("HEAD") }
            methods.append("OPTIONS")
            let endpoint = Endpoint(
                segments: segments.map { $0.first == UInt8(ascii: "{") ? nil : Array($0) },
                routes: own.map { ($0.element.method, $0.offset) },
                allow: methods.sorted().joined(separator: ", "))
            while endpoints.count <= segments.count { endpoints.append([]) }
            endpoints[segments.count].append(endpoint)
        }
        // Names come before parameters: in `/v1/jobs/batch`, `batch` is not a job's identifier.
        for index in endpoints.indices {
            endpoints[index].sort { a, b in
                a.segments.filter { $0 == nil }.count < b.segments.filter { $0 == nil }.count
            }
        }
    }

    func match(method: String, path: String) -> Match {
        guard path.utf8.first == slash else { return .nothing }
        let segments = path.utf8.dropFirst().split(separator: slash, omittingEmptySubsequences: false)
        guard segments.count < endpoints.count else { return .nothing }
        for endpoint in endpoints[segments.count] where matches(endpoint, segments) {
            let wanted = method == "HEAD" ? "GET" : method
            let found = endpoint.routes.first { $0.method == wanted }
            return found.map { .route($0.index) } ?? .otherMethod(allow: endpoint.allow)
        }
        return .nothing
    }

    private func matches(_ endpoint: Endpoint, _ segments: [Substring.UTF8View]) -> Bool {
        for (pattern, segment) in zip(endpoint.segments, segments) {
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
