internal import FerryCore
internal import HTTPServer

/// The query parameters of an operation: those that its description names, and no others.
struct QueryRule: Sendable {
    private var names: Set<String> = []
    /// Of names that go on as the client wants.
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

    /// What stands in the document for the part of a name that a client chooses.
    private static let freePart = "KEY"

    /// The items of a query, each name once, all of them known.
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
                throw Problem(.invalidParameter, "There is no parameter \"\(item.name)\" here.")
            }
            guard seen.insert(item.name).inserted else {
                throw Problem(.invalidParameter, "The parameter \"\(item.name)\" is given twice.")
            }
        }
        return items
    }

    private func isKnown(_ name: String) -> Bool {
        names.contains(name) || prefixes.contains { name.hasPrefix($0) && name != $0 }
    }
}

/// The rule of each route, in their order.
let queryRules = routes.map { QueryRule($0.operation) }

/// The names of query parameters by their names in the document.
private let parameterNames: [String: String] = {
    guard let components = try? JSON.parse(Array("{\(parameterComponents)}".utf8)).members else {
        preconditionFailure("The parameters of the document are JSON.")
    }
    let named = components.compactMap { member -> (String, String)? in
        guard member.value["in"]?.string == "query", let name = member.value["name"]?.string else {
            return nil
        }
        return (member.name, name)
    }
    return Dictionary(uniqueKeysWithValues: named)
}()
