import FerryCore
import Testing

@testable import FerryAPI

@Suite("OpenAPI document")
struct OpenAPIDocumentTests {
    private let document: JSON

    init() throws { document = try JSON.parse(openAPIDocument) }

    /// Returns the value of each member with this name, at every depth.
    private static func values(named name: String, in json: JSON) -> [JSON] {
        switch json {
        case .object(let members):
            members.flatMap { member in
                (member.name == name ? [member.value] : []) + values(named: name, in: member.value)
            }
        case .array(let elements): elements.flatMap { values(named: name, in: $0) }
        default: []
        }
    }

    @Test("schema names are unique and consist of letters and digits")
    func names() throws {
        let names = try #require(document["components"]?["schemas"]?.members).map(\.name)
        #expect(names.count > 100 && Set(names).count == names.count)
        for name in names { #expect(name.wholeMatch(of: /[A-Z][A-Za-z0-9]*/) != nil, "\(name)") }
        #expect(Set(names).isSuperset(of: ["Event", "EventList", "LoggedEvent", "DeletedJob"]))
    }

    @Test("every reference has its target in the document")
    func references() throws {
        let references = Self.values(named: "$ref", in: document)
        #expect(references.count > 100)
        for reference in Set(references.compactMap(\.string)) {
            let steps = reference.split(separator: "/", omittingEmptySubsequences: false)
            #expect(steps.first == "#", "\(reference)")
            let target = steps.dropFirst().reduce(Optional(document)) { json, step in json?[String(step)] }
            #expect(target != nil, "\(reference)")
        }
    }

    @Test("patterns have no look-around, which generators of clients refuse")
    func patterns() {
        let patterns = Self.values(named: "pattern", in: document).compactMap(\.string)
        #expect(patterns.count > 20)
        for pattern in Set(patterns) { #expect(!pattern.contains("(?"), "\(pattern)") }
    }

    @Test("schemas without look-ahead refuse the texts that the rules of the fields refuse")
    func exclusions() throws {
        let schemas = document["components"]?["schemas"]
        for (object, field, refused) in [
            ("DataRequest", "session", [".", "..", "a/b"]),
            ("DownloadDestinationInput", "path", [".", "a/..", "../a", "a/.ferry-1", "/a", "a//b"]),
            ("DownloadRequestInput", "method", ["HEAD", "CONNECT", "get"]),
        ] {
            let schema = schemas?[object]?["properties"]?[field]
            let pattern = try Regex(try #require(schema?["pattern"]?.string))
            let exclusion = try (schema?["not"]?["pattern"]?.string).map { try Regex($0) }
            let matches = { (text: String) in
                text.firstMatch(of: pattern) != nil
                    && exclusion.flatMap { text.firstMatch(of: $0) } == nil
            }
            for text in refused { #expect(!matches(text), "\(field): \(text)") }
            let allowed = field == "method" ? ["GET", "HEADER"] : ["a", "...", "..a", ".a", "a.b", "...b."]
            for text in allowed { #expect(matches(text), "\(field): \(text)") }
        }
    }
}
