internal import FerryCore
internal import HTTPServer

/// Query parameters that an operation accepts: those of its description in the OpenAPI document.
struct QueryRule: Sendable {
    private var names: Set<String> = []
    /// Prefixes of names whose rest the client chooses, such as `metadata.`.
    private var prefixes: [String] = []

    init(_ operation: Operation) {
        for component in operation.description.parameters {
            guard let name = parameterNames[component] else { continue }
            if name.hasSuffix(Self.freePart) {
                prefixes.append(String(name.dropLast(Self.freePart.count)))
            } else {
                names.insert(name)
            }
        }
    }

    /// Placeholder in the document for the part of a name that the client chooses.
    private static let freePart = "KEY"

    /// Returns the parameters of a query. An unknown name, or a name that occurs twice, is a 400.
    func items(_ head: RequestHead) throws(Problem) -> [(name: String, value: String)] {
        guard head.query != nil else { return [] }
        let items: [(name: String, value: String)]
        do throws(PercentDecodingError) {
            items = try head.queryItems()
        } catch {
            throw Problem(.invalidParameter, "The query is not percent-encoded UTF-8.")
        }
        var seen: Set<String> = []
        for item in items {
            guard isKnown(item.name) else {
                throw Problem(.invalidParameter, "Unknown query parameter \"\(item.name)\".")
            }
            guard seen.insert(item.name).inserted else {
                throw Problem(.invalidParameter, "The query parameter \"\(item.name)\" occurs twice.")
            }
        }
        return items
    }

    private func isKnown(_ name: String) -> Bool {
        names.contains(name) || prefixes.contains { name.hasPrefix($0) && name != $0 }
    }
}

/// The rule of each route, by its index in `routes`.
let queryRules = routes.map { QueryRule($0.operation) }

/// Names of query parameters by the names of their components in the document.
private let parameterNames = Dictionary(
    uniqueKeysWithValues: parameters.filter { $0.place == .query }.map { ($0.component, $0.name) })
