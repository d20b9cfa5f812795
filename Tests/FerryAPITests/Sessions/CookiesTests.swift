import FerryCore
import Testing

@testable import FerryAPI

@Suite("Cookies of sessions")
struct CookiesTests {
    private static let place = "/v1/sessions/s/cookies"

    /// The API with the configured session `s`.
    private func fixture() throws -> Fixture {
        let fixture = Fixture()
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").status == 201)
        return fixture
    }

    private func names(_ fixture: Fixture, _ query: String = "") throws -> [String] {
        let page = try fixture.send("GET", Self.place + query).json
        return (page["data"]?.array ?? []).compactMap { $0["name"]?.string }
    }

    @Test("PUT replaces all cookies, POST adds some, DELETE removes those that match")
    func changes() throws {
        let fixture = try fixture()
        #expect(try names(fixture).isEmpty)
        let two =
            #"{"data":[{"name":"a","value":"1","domain":"a.example"},"#
            + #"{"name":"b","value":"2","domain":"b.example","path":"/p"}]}"#
        let put = try fixture.send("PUT", Self.place, two)
        #expect(put.status == 200 && put.json["data"]?.array?.count == 2)
        let more = #"{"data":[{"name":"c","value":"3","domain":"a.example"}]}"#
        #expect(try fixture.send("POST", Self.place, more).status == 200)
        #expect(try names(fixture) == ["a", "c", "b"])
        #expect(try names(fixture, "?domain=a.example") == ["a", "c"])
        #expect(try names(fixture, "?name=b") == ["b"])
        #expect(try fixture.send("DELETE", Self.place + "?path=/p").status == 204)
        #expect(try names(fixture) == ["a", "c"])
        #expect(try fixture.send("PUT", Self.place, #"{"data":[]}"#).status == 200)
        #expect(try names(fixture).isEmpty)
    }

    @Test("pages go on after the last cookie, also if that is gone")
    func pages() throws {
        let fixture = try fixture()
        let cookies = (0..<5).map { #"{"name":"n\#($0)","value":"","domain":"a.example"}"# }
        _ = try fixture.send("PUT", Self.place, #"{"data":[\#(cookies.joined(separator: ","))]}"#)
        let first = try fixture.send("GET", Self.place + "?limit=2")
        let cursor = try #require(first.json["next_cursor"]?.string)
        #expect(first.header("Link")?.contains(cursor) == true)
        _ = try fixture.send("DELETE", Self.place + "?name=n1")
        #expect(try names(fixture, "?limit=500&cursor=\(cursor)") == ["n2", "n3", "n4"])
        #expect(try fixture.send("GET", Self.place + "?cursor=cookie.00").code == "invalid_cursor")
        #expect(try fixture.send("GET", Self.place + "?cursor=session.a").code == "invalid_cursor")
    }

    @Test("viewers see no values, change nothing, and get no text format")
    func viewers() throws {
        let fixture = try fixture()
        let body = #"{"data":[{"name":"a","value":"treasure","domain":"a.example"}]}"#
        _ = try fixture.send("PUT", Self.place, body)
        let seen = try fixture.send("GET", Self.place, key: fixture.viewerKey)
        #expect(seen.status == 200 && seen.json["data"]?.array?.first?["value"] == .null)
        for method in ["PUT", "POST", "DELETE"] {
            #expect(
                try fixture.send(method, Self.place, body, key: fixture.viewerKey).code == "forbidden")
        }
        let text = try fixture.send(
            "GET", Self.place, nil, key: fixture.viewerKey, [("Accept", "text/plain")])
        #expect(text.code == "forbidden")
    }

    @Test("sessions without cookies of their own, and unknown ones, are refused")
    func sessions() throws {
        let fixture = try fixture()
        for path in ["/v1/sessions/default/cookies", "/v1/sessions/nobody/cookies"] {
            let code = path.contains("default") ? "session_not_configured" : "not_found"
            #expect(try fixture.send("GET", path).code == code)
            #expect(try fixture.send("PUT", path, #"{"data":[]}"#).code == code)
            #expect(try fixture.send("DELETE", path).code == code)
        }
        for verb in ["reset", "flush"] {
            #expect(try fixture.send("POST", "/v1/sessions/default/\(verb)").code == "session_not_configured")
            #expect(try fixture.send("POST", "/v1/sessions/s/\(verb)").status == 200)
            #expect(try fixture.send("POST", "/v1/sessions/s/\(verb)", #"{"x":1}"#).status == 422)
        }
    }
}
