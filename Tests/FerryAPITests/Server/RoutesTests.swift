import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Routes and OpenAPI document")
struct RoutesTests {
    private var document: JSON { get throws { try JSON.parse(openAPIDocument) } }

    @Test("every operation has exactly one route")
    func operations() {
        #expect(routes.map(\.operation.rawValue).sorted() == Operation.allCases.map(\.rawValue).sorted())
    }

    @Test("the document has exactly the routes of the route table")
    func paths() throws {
        var documented: Set<String> = []
        for path in try #require(try document["paths"]?.members) {
            for method in path.value.members ?? [] where method.name != "parameters" && method.name != "head"
            {
                documented.insert("\(method.name.uppercased()) \(path.name)")
            }
        }
        #expect(documented == Set(routes.map { "\($0.method) \($0.pattern)" }))
    }

    @Test("every reference in the document resolves")
    func references() throws {
        let document = try document
        var references: [String] = []
        func collect(_ json: JSON) {
            for member in json.members ?? [] {
                if member.name == "$ref", let text = member.value.string { references.append(text) }
                collect(member.value)
            }
            for value in json.array ?? [] { collect(value) }
        }
        collect(document)
        #expect(references.count > 100)
        for reference in Set(references) {
            var place: JSON? = document
            for step in reference.split(separator: "/").dropFirst() { place = place?[String(step)] }
            #expect(place != nil, "\(reference) leads nowhere")
        }
    }

    @Test("every query and path parameter in the document has bounds")
    func bounds() throws {
        let document = try document
        let parameters = try #require(document["components"]?["parameters"]?.members)
        for (name, parameter) in parameters.map({ ($0.name, $0.value) }) {
            guard ["query", "path"].contains(parameter["in"]?.string) else { continue }
            var schema = try #require(parameter["schema"], "\(name)")
            if let reference = schema["$ref"]?.string {
                let last = String(try #require(reference.split(separator: "/").last))
                schema = try #require(document["components"]?["schemas"]?[last], "\(name)")
            }
            #expect(isBounded(schema), "\(name): \(schema)")
        }
    }

    /// Whether a schema limits the size of a value.
    private func isBounded(_ schema: JSON) -> Bool {
        if schema["enum"] != nil || schema["const"] != nil { return true }
        if let choices = schema["anyOf"]?.array { return !choices.isEmpty }
        switch schema["type"]?.string {
        case "boolean": return true
        case "integer": return schema["minimum"] != nil && schema["maximum"] != nil
        case "array": return schema["maxItems"] != nil
        case "string":
            return schema["format"]?.string == "date-time" || schema["maxLength"] != nil
                || schema["pattern"]?.string?.contains(/\{[0-9]+(,[0-9]+)?\}\$$/) == true
        default: return false
        }
    }

    @Test("every operation documents the statuses of its problems")
    func statuses() throws {
        let document = try document
        for route in routes where route.role != nil {
            let operation = document["paths"]?[route.pattern]?[route.method.lowercased()]
            for status in [400, 401, 403, 429, 500, 503] {
                #expect(operation?["responses"]?["\(status)"] != nil, "\(route.pattern) \(status)")
            }
        }
    }

    @Test("the schema of a job has the members of its representation")
    func jobSchema() throws {
        let fixture = Fixture()
        let shown = try fixture.send("POST", "/v1/jobs", small()).json.members?.map(\.name) ?? []
        let schema = try document["components"]?["schemas"]?["Job"]
        #expect(Set(schema?["properties"]?.members?.map(\.name) ?? []) == Set(shown))
        #expect(Set(schema?["required"]?.array?.compactMap(\.string) ?? []) == Set(shown))
    }

    @Test("the schemas of a job's objects have the members of its representation")
    func bodySchema() throws {
        let schemas = try #require(try document["components"]?["schemas"])
        for (name, pointer) in [
            ("Integrity", "integrity"), ("Redirects", "redirects"), ("Acceptance", "accept"),
            ("JobSchedule", "schedule"),
            ("Network", "network"), ("Retry", "retry"),
        ] {
            let shown = try JSON.parse(
                JobRequest(JSONView(parsing: Array(small().utf8))) { _ in nil }.spec.encode())
            #expect(
                Set(schemas[name]?["properties"]?.members?.map(\.name) ?? [])
                    == Set(shown[pointer]?.members?.map(\.name) ?? []), "\(name)")
        }
    }

    @Test("a known path with another method is 405 with Allow")
    func otherMethods() throws {
        let fixture = Fixture()
        let response = try fixture.send("PUT", "/v1/jobs", key: nil)
        #expect(response.status == 405 && response.header("Allow") == "GET, HEAD, OPTIONS, POST")
        #expect(
            try fixture.send("OPTIONS", "/v1/jobs/x", key: nil).header("Allow")
                == "DELETE, GET, HEAD, OPTIONS, PATCH")
        #expect(try fixture.send("GET", "/v1/jobs/batch").status == 405)
        #expect(try fixture.send("HEAD", "/livez").status == 200)
    }

    @Test(
        "an unknown path is 404",
        arguments: [
            "/", "/v1", "/v1/", "/v1/jobs/", "/v1//jobs", "/V1/jobs", "/v1/jobs/a/b/c/d", "*", "",
            "/v1/jobs%2Fx",
        ])
    func unknown(_ path: String) throws {
        #expect(try Fixture().send("GET", path).status == 404)
    }

    @Test("a query parameter that is not in the document is 400 on every route")
    func unknownParameters() throws {
        let fixture = Fixture()
        for route in routes {
            let path = route.pattern.replacing("{id}", with: "x").replacing("{host}", with: "x")
                .replacing("{tenant}", with: "x")
            for query in ["nonsense=1", "metadata.=1", "limit2"] {
                let response = try fixture.send(route.method, "\(path)?\(query)")
                #expect(response.status == 400, "\(route.method) \(path)?\(query)")
                #expect(response.json["detail"]?.string?.contains(query.prefix { $0 != "=" }) == true)
            }
        }
        #expect(fixture.store.state.withLock { $0.audit.isEmpty })
        #expect(try fixture.send("GET", "/v1/jobs?metadata.a=1&metadata.b=2").status == 200)
        #expect(try fixture.send("GET", "/v1/jobs?limit=1&limit=1").status == 400)
    }

    @Test("metrics count requests by route and status")
    func metrics() throws {
        let fixture = Fixture()
        _ = try fixture.send("GET", "/v1/jobs")
        _ = try fixture.send("GET", "/v1/jobs", key: nil)
        _ = try fixture.send("GET", "/nothing")
        let snapshot = fixture.api.requestMetrics.snapshot()
        let list = try #require(snapshot.first { $0.route == "/v1/jobs" && $0.method == "GET" })
        #expect(list.byStatus == [200: 1, 401: 1])
        #expect(list.buckets.reduce(0, +) == 2)
        #expect(snapshot.last?.byStatus == [404: 1])
    }
}
