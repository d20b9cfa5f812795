import FerryCore
import Synchronization
import Testing

/// Keeps the errors that it gets.
private final class Errors: DamageLog {
    let all = Mutex<[(JobID, StoredJSONError)]>([])

    func report(_ job: JobID, _ error: StoredJSONError) { all.withLock { $0.append((job, error)) } }
}

@Suite("Stored specs")
struct StoredSpecTests {
    private let id = JobID(high: 1, low: 2)

    @Test("a damaged spec is reported once, with the id of its job")
    func damaged() {
        let errors = Errors()
        let stored = StoredSpec(Array(#"{"kind":"#.utf8), of: id, log: errors)
        #expect(stored.spec == nil)
        #expect(stored.spec == nil && stored.whole(opening: .inverted) == nil)
        let found = errors.all.withLock { $0 }
        #expect(found.map(\.0) == [id])
        #expect(found.map(\.1.member) == ["syntax"])
    }

    @Test("with another key a spec is read without its secret values, and the failure is reported")
    func otherKey() throws {
        let spec = try decode(#"{"kind":"data","request":{"url":"https://a.example/?token=hush"}}"#).spec
        let errors = Errors()
        let stored = StoredSpec(spec.encodeStored(.inverted), of: id, log: errors)
        #expect(stored.whole(opening: SecretSeal(seal: { $0 }, open: { _ in nil })) == nil)
        #expect(errors.all.withLock { $0.map(\.1.member) } == ["sealed"])
        let shown = try #require(stored.spec)
        #expect(shown.session == spec.session && shown.request.url != spec.request.url)
        #expect(stored.whole(opening: .inverted) == spec)
    }

    @Test("a stored request has its URL parsed; a text that is no URL is damaged")
    func urls() throws {
        let spec = try decode(#"{"kind":"data","request":{"url":"HTTPS://A.example:8443/x?y"}}"#).spec
        let json = spec.encodeStored()
        let request = try #require(StoredSpec(json).spec).request
        #expect(request == spec.request && request.webURL == spec.request.webURL)
        #expect(request.webURL.origin == "https://a.example:8443")
        let errors = Errors()
        let text = String(decoding: json, as: UTF8.self).replacing("https://a.example:8443/x?y", with: "x")
        #expect(StoredSpec(Array(text.utf8), of: id, log: errors).spec == nil)
        #expect(errors.all.withLock { $0.map(\.1.member) } == ["url"])
    }

    @Test("a stored URL that redaction makes longer than a request may have is read")
    func longURLs() throws {
        let query = (0..<1_300).map { _ in "sig=x" }.joined(separator: "&")
        let spec = try decode(#"{"kind":"data","request":{"url":"https://a.example/?\#(query)"}}"#).spec
        let shown = try #require(StoredSpec(spec.encodeStored(.inverted)).spec)
        #expect(shown.request.url.utf8.count > Limits.urlByteCountMax)
        #expect(shown.request.webURL.origin == spec.request.webURL.origin)
    }
}
