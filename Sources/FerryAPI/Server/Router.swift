/// Finds the route of a request. It compares the segments of the path before percent-decoding, so that an
/// encoded slash does not separate segments.
struct Router: Sendable {
    /// A pattern with its routes.
    private struct Endpoint: Sendable {
        /// The pattern, with one `parameter` in place of each parameter.
        var pattern: [UInt8]
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
                pattern: segments.flatMap {
                    [slash] + ($0.first == UInt8(ascii: "{") ? [parameter] : Array($0))
                },
                routes: own.map { ($0.element.method, $0.offset) },
                allow: methods.sorted().joined(separator: ", "))
            while endpoints.count <= segments.count { endpoints.append([]) }
            endpoints[segments.count].append(endpoint)
        }
        // Names come before parameters: in `/v1/jobs/batch`, `batch` is not a job's identifier.
        for index in endpoints.indices {
            endpoints[index].sort { a, b in
                a.pattern.count { $0 == parameter } < b.pattern.count { $0 == parameter }
            }
        }
    }

    func match(method: String, path: String) -> Match {
        let utf8 = path.utf8.span
        guard !utf8.isEmpty, utf8[0] == slash else { return .nothing }
        var segmentCount = 0
        for index in utf8.indices where utf8[index] == slash { segmentCount += 1 }
        guard segmentCount < endpoints.count else { return .nothing }
        for endpoint in endpoints[segmentCount] where Self.matches(endpoint.pattern, utf8) {
            let wanted = method == "HEAD" ? "GET" : method
            let found = endpoint.routes.first { $0.method == wanted }
            return found.map { .route($0.index) } ?? .otherMethod(allow: endpoint.allow)
        }
        return .nothing
    }

    private static func matches(_ pattern: [UInt8], _ path: Span<UInt8>) -> Bool {
        var place = 0
        for byte in pattern {
            guard place < path.count else { return false }
            if byte == parameter {
                guard path[place] != slash else { return false }
                repeat { place += 1 } while place < path.count && path[place] != slash
            } else {
                guard path[place] == byte else { return false }
                place += 1
            }
        }
        return place == path.count
    }
}

private let slash = UInt8(ascii: "/")
/// Stands for a parameter in a pattern; no path has this byte (`RequestCheck`).
private let parameter: UInt8 = 0
