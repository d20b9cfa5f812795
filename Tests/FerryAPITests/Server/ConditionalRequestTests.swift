import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Conditional requests")
struct ConditionalRequestTests {
    private let fixture = Fixture()

    /// Returns a path for each operation that shows one object.
    private func objects() throws -> [Operation: String] {
        let id = { (path: String, body: String) in
            try #require(try fixture.send("POST", path, body).json["id"]?.string)
        }
        let job = try fixture.submit()
        let endpoint = try id("/v1/webhooks", #"{"url":"https://hooks.example/"}"#)
        let delivery = try id("/v1/webhooks/\(endpoint)/test", "{}")
        let key = try id("/v1/admin/keys", #"{"name":"k","role":"viewer"}"#)
        let schedule = try id("/v1/schedules", #"{"interval":60,"job":\#(small())}"#)
        let operation = try id("/v1/jobs/suspend", #"{"filter":{"session":"s"}}"#)
        #expect(try fixture.send("PUT", "/v1/sessions/s", "{}").status == 201)
        let login = #"{"protection_space":{"host":"a.example"},"user":"u","password":"p"}"#
        #expect(try fixture.send("PUT", "/v1/sessions/s/credentials/a", login).status == 201)
        #expect(try fixture.send("POST", "/v1/job_groups", #"{"name":"night"}"#).status == 201)
        let upload = StagedUpload(
            id: UploadID(high: 1, low: 2), tenant: "default", node: NodeID(high: 0, low: 0), name: "u",
            fields: UploadFields(), size: 3, createdAt: Timestamp(microseconds: 0),
            expiresAt: Timestamp(microseconds: 1))
        fixture.store.state.withLock { $0.uploads.append(upload) }
        return [
            .readJob: "/v1/jobs/\(job)", .readWebhook: "/v1/webhooks/\(endpoint)",
            .readDelivery: "/v1/deliveries/\(delivery)", .readKey: "/v1/admin/keys/\(key)",
            .readSchedule: "/v1/schedules/\(schedule)", .readSession: "/v1/sessions/s",
            .readLimits: "/v1/admin/limits", .readWindows: "/v1/admin/windows",
            .readHost: "/v1/admin/hosts/a.example", .openapi: "/openapi.json", .docs: "/docs",
            .readBulkOperation: "/v1/operations/\(operation)",
            .readTenantLimits: "/v1/admin/tenants/acme/limits", .readJobGroup: "/v1/job_groups/night",
            .readUpload: "/v1/uploads/u", .readCredential: "/v1/sessions/s/credentials/a",
        ]
    }

    @Test("every object has an entity tag and is 304 for If-None-Match; every change accepts If-Match")
    func everyOne() throws {
        let objects = try objects()
        // Not lists, commands and metrics, and not content: `ContentTests` has its tests.
        for route in routes where route.method == "GET" {
            let description = route.operation.description
            guard description.answers.contains(where: { $0.headers.contains("ETag") }),
                ![.readContent, .readUploadContent].contains(route.operation)
            else { continue }
            let path = try #require(objects[route.operation], "\(route.pattern) is not in this test")
            let first = try fixture.send("GET", path)
            let tag = try #require(first.header("ETag"), "\(path)")
            #expect(first.status == 200 && tag.hasPrefix("\""), "\(path)")
            // HEAD asks for the offset of an upload.
            for method in route.operation == .readUpload ? ["GET"] : ["GET", "HEAD"] {
                let again = try fixture.send(method, path, [("If-None-Match", "\"x\", W/\(tag)")])
                #expect(again.status == 304 && again.header("ETag") == tag && again.body.isEmpty, "\(path)")
            }
            #expect(try fixture.send("GET", path, [("If-None-Match", "\"x\"")]).status == 200, "\(path)")
            #expect(description.parameters.contains("IfNoneMatch"), "\(path)")
            #expect(description.answers.contains { $0.status == 304 }, "\(path)")
        }
        // The offset of an upload is the condition for its bytes, and lists have no entity tags.
        let others: Set<Operation> = [
            .putUpload, .continueUpload, .deleteUpload, .replaceCookies, .deleteCookies,
        ]
        for route in routes
        where ["PATCH", "PUT", "DELETE"].contains(route.method) && !others.contains(route.operation) {
            #expect(route.operation.description.parameters.contains("IfMatch"), "\(route.pattern)")
            #expect(route.operation.description.problems.contains(412), "\(route.pattern)")
        }
    }

    @Test(
        "a change with another entity tag in If-Match is 412 and changes nothing",
        arguments: [
            ("/v1/admin/limits", #"{"max_bytes_sent_per_second":7}"#, #"{"max_bytes_sent_per_second":8}"#),
            ("/v1/admin/hosts/a.example", #"{"paused":true}"#, #"{"paused":false}"#),
            (
                "/v1/admin/windows", #"{"windows":[{"name":"n","cron":"* * * * *","duration":60}]}"#,
                #"{"windows":[]}"#
            ),
        ])
    func stale(_ path: String, _ first: String, _ second: String) throws {
        let before = try #require(try fixture.send("GET", path).header("ETag"))
        let changed = try fixture.send("PATCH", path, first, [("If-Match", before)])
        let after = try #require(changed.header("ETag"))
        #expect(changed.status == 200 && after != before)
        let refused = try fixture.send("PATCH", path, second, [("If-Match", before)])
        #expect(refused.status == 412 && refused.code == "stale" && refused.json["revision"] == nil)
        let shown = try fixture.send("GET", path)
        #expect(shown.json == changed.json && shown.header("ETag") == after)
        #expect(try fixture.send("PATCH", path, second, [("If-Match", "W/\(after)")]).status == 412)
        #expect(try fixture.send("PATCH", path, first, [("If-Match", "*")]).status == 200)
        #expect(try fixture.send("PATCH", path, second, [("If-Match", "\"x\", \(after)")]).status == 200)
    }

    @Test("an invalid body is 422 whatever If-Match says, on every route that accepts the field")
    func invalidBodies() throws {
        let objects = try objects()
        let path = { (route: Route) throws -> String in
            let own = try #require(
                routes.filter {
                    route.pattern.hasPrefix($0.pattern) && $0.method == "GET"
                        && objects[$0.operation] != nil && $0.operation != .openapi
                }.max { $0.pattern.utf8.count < $1.pattern.utf8.count })
            return (objects[own.operation] ?? "") + route.pattern.dropFirst(own.pattern.count)
        }
        var count = 0
        for route in routes where route.operation.description.parameters.contains("IfMatch") {
            guard route.body != .none, route.method != "GET" else { continue }
            let target = try path(route)
            for body in ["[]", #"{"no_such_field":1}"#] {
                let response = try fixture.send(route.method, target, body, [("If-Match", "\"r99\"")])
                #expect(response.status == 422, "\(route.method) \(target) \(body): \(response.status)")
            }
            count += 1
        }
        #expect(count >= 15)
        let job = try #require(objects[.readJob])
        let wrong = try fixture.send("PATCH", job, #"{"description":5}"#, [("If-Match", "\"r99\"")])
        #expect(wrong.status == 422 && wrong.json["errors"]?.array?.first?["code"]?.string == "wrong_type")
        let right = try fixture.send("PATCH", job, #"{"description":"a"}"#, [("If-Match", "\"r99\"")])
        #expect(right.status == 412)
        // An unknown object is 404, not 412.
        let other = "/v1/jobs/\(JobID(high: 9, low: 9))"
        let missing = try fixture.send("PATCH", other, #"{"description":"a"}"#, [("If-Match", "\"r99\"")])
        #expect(missing.status == 404)
    }

    @Test("If-Match of a host ignores members that change by themselves")
    func changing() throws {
        let path = "/v1/admin/hosts/a.example"
        let tag = try #require(try fixture.send("GET", path).header("ETag"))
        fixture.store.state.withLock { state in
            var host = HostRecord(origin: "https://a.example:443", state: .limited)
            host.inFlight = 7
            state.hosts[host.origin] = host
        }
        #expect(try fixture.send("GET", path, [("If-None-Match", tag)]).status == 200)
        #expect(try fixture.send("PATCH", path, #"{"paused":true}"#, [("If-Match", tag)]).status == 200)
    }

    @Test("a key is revoked only if If-Match has its entity tag")
    func key() throws {
        let made = try fixture.send("POST", "/v1/admin/keys", #"{"name":"k","role":"viewer"}"#)
        let path = try #require(made.header("Location"))
        let read = try fixture.send("GET", path)
        #expect(read.header("ETag") == made.header("ETag") && read.json["key"] == nil)
        #expect(read.json["id"] == made.json["id"] && path.hasSuffix(made.json["id"]?.string ?? "?"))
        #expect(try fixture.send("DELETE", path, [("If-Match", "\"x-y\"")]).status == 412)
        let tag = try #require(read.header("ETag"))
        #expect(try fixture.send("DELETE", path, [("If-Match", tag)]).status == 204)
        let revoked = try fixture.send("GET", path)
        #expect(revoked.json["revoked_at"] != .null && revoked.header("ETag") != tag)
        #expect(try fixture.send("DELETE", path, [("If-Match", tag)]).status == 412)
        #expect(try fixture.send("GET", "/v1/admin/keys/\(KeyID(high: 9, low: 9))").status == 404)
    }
}
