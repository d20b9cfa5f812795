import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Credentials of sessions")
struct CredentialsTests {
    private let fixture = Fixture()
    private let place = "/v1/sessions/s/credentials"
    private let body =
        #"{"protection_space":{"host":"a.example","realm":"files"},"user":"anna","password":"hush"}"#

    private func put(
        _ name: String, _ body: String? = nil, _ headers: [(String, String)] = []
    ) throws -> ReceivedResponse {
        try fixture.send("PUT", "\(place)/\(name)", body ?? self.body, headers)
    }

    @Test("PUT creates and replaces a credential, and no response has its secret")
    func putting() throws {
        #expect(try put("a").status == 404)
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").status == 201)
        let created = try put("a")
        #expect(created.status == 201 && created.header("ETag") == "\"r1\"")
        #expect(created.header("Location") == "/v1/sessions/s/credentials/a")
        #expect(created.json["protection_space"]?["port"] == .integer(443))
        #expect(created.json["password"]?["set"] == .bool(true) && created.json["token"]?.isNull == true)
        let replaced = try put(
            "a", #"{"protection_space":{"host":"a.example"},"token":"hush","persistence":"permanent"}"#)
        #expect(replaced.status == 200 && replaced.header("ETag") == "\"r2\"")
        #expect(replaced.json["user"]?.isNull == true && replaced.json["persistence"] == "permanent")
        #expect(try put("a", nil, [("If-Match", "\"r1\"")]).status == 412)
        #expect(try put("a", nil, [("If-Match", "\"r2\"")]).status == 200)
        let read = try fixture.send("GET", "\(place)/a")
        #expect(read.status == 200 && read.json["name"] == "a" && read.header("ETag") == "\"r3\"")
        #expect(
            try fixture.send("GET", "\(place)/a", nil, [("If-None-Match", "\"r3\"")]).status == 304)
        for response in [created, replaced, read, try fixture.send("GET", place)] {
            #expect(!String(decoding: response.body, as: UTF8.self).contains("hush"))
        }
    }

    @Test("a viewer lists and reads credentials, but does not change them")
    func roles() throws {
        _ = try fixture.send("PUT", "/v1/sessions/s", "{}")
        #expect(try put("a").status == 201)
        let list = try fixture.send("GET", place, key: fixture.viewerKey)
        #expect(list.json["data"]?.array?.first?["user"] == "anna")
        #expect(try fixture.send("GET", "\(place)/a", key: fixture.viewerKey).status == 200)
        #expect(try fixture.send("PUT", "\(place)/a", body, key: fixture.viewerKey).status == 403)
        #expect(try fixture.send("DELETE", "\(place)/a", key: fixture.viewerKey).status == 403)
    }

    @Test("credentials are listed by name in pages")
    func pages() throws {
        _ = try fixture.send("PUT", "/v1/sessions/s", "{}")
        for name in ["c", "a", "b"] { #expect(try put(name).status == 201) }
        let first = try fixture.send("GET", "\(place)?limit=2")
        #expect(first.json["data"]?.array?.map { $0["name"] } == ["a", "b"])
        #expect(first.json["next_cursor"] == "credential.b" && first.header("Link")?.contains("next") == true)
        let second = try fixture.send("GET", "\(place)?limit=2&cursor=credential.b")
        #expect(second.json["data"]?.array?.map { $0["name"] } == ["c"])
        #expect(second.json["next_cursor"]?.isNull == true)
        #expect(try fixture.send("GET", "\(place)?cursor=session.b").code == "invalid_cursor")
    }

    @Test("a credential is deleted once, and only with its revision")
    func deleting() throws {
        _ = try fixture.send("PUT", "/v1/sessions/s", "{}")
        #expect(try put("a").status == 201)
        #expect(
            try fixture.send("DELETE", "\(place)/a", nil, [("If-Match", "\"r7\"")]).status == 412)
        #expect(try fixture.send("DELETE", "\(place)/a").status == 204)
        #expect(try fixture.send("DELETE", "\(place)/a").status == 404)
    }

    @Test("the default session keeps credentials only when it is configured, an invalidated one none")
    func unconfigured() throws {
        let path = "/v1/sessions/default/credentials/a"
        let early = try fixture.send("PUT", path, body)
        #expect(early.status == 409 && early.code == "session_not_configured")
        _ = try fixture.send("PUT", "/v1/sessions/default", "{}")
        #expect(try fixture.send("PUT", path, body).status == 201)
        _ = try fixture.send("PUT", "/v1/sessions/s", "{}")
        _ = try fixture.send("POST", "/v1/sessions/s/invalidate", #"{"mode":"finish"}"#)
        #expect(try put("a").code == "session_invalidated")
    }

    @Test("a wrong name is 400 for PUT and 404 for others, a wrong body 422")
    func wrong() throws {
        _ = try fixture.send("PUT", "/v1/sessions/s", "{}")
        #expect(try put("a%20b").status == 400)
        #expect(try fixture.send("GET", "\(place)/a%20b").status == 404)
        let response = try put("a", #"{"protection_space":{"host":"a.example"},"oauth2":{}}"#)
        #expect(response.status == 422)
        #expect(
            response.json["errors"]?.array?.contains { $0["code"] == "not_supported" } == true,
            "\(response.json)")
    }
}
