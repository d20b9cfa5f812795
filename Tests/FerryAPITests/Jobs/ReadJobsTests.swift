import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs/{id}")
struct ReadJobsTests {
    @Test("a job has an entity tag and is 304 while it is unchanged")
    func read() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        let response = try fixture.send("GET", "/v1/jobs/\(id)", key: fixture.viewerKey)
        #expect(response.status == 200 && response.header("ETag") == "\"r1\"")
        for tag in ["\"r1\"", "W/\"r1\"", "\"x\", \"r1\"", "*"] {
            #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("If-None-Match", tag)]).status == 304)
        }
        fixture.store.finish(id, .failed)
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("If-None-Match", "\"r1\"")]).status == 200)
    }

    @Test("another tenant's job, an unknown one and a malformed identifier get the same 404")
    func notFound() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", key: fixture.strangerKey).status == 404)
        for path in [
            "/v1/jobs/job_00000000000000000000000000", "/v1/jobs/x", "/v1/jobs/%ff", "/v1/jobs/\(id)/",
            "/v1/jobs/%2e",
        ] {
            let response = try fixture.send("GET", path)
            #expect(response.status == 404 && response.code == "not_found", "\(path)")
        }
    }

    @Test("Prefer: wait responds immediately if the job has ended, and leaves no waiter")
    func wait() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.store.finish(id, .cancelled)
        let response = try fixture.send("GET", "/v1/jobs/\(id)", [("Prefer", "wait=60")])
        #expect(response.json["state"] == .string("cancelled"))
        #expect(fixture.waiters.count == 0)
    }

    @Test("stopping the service responds to waiting requests")
    func stop() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.waiters.stop()
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("Prefer", "wait=60")]).status == 200)
    }

    @Test("Prefer is parsed as RFC 7240 defines it")
    func preferences() {
        let read: (String) -> Double? = { preferredWait(HTTPFields([("Prefer", $0)])) }
        // Found by Schemathesis; the first value once crashed the service.
        for text in [";", "; ", ",;,", "=", ";wait=5", "wait", "wait;=5", ""] { #expect(read(text) == nil) }
        #expect(read("wait=5") == 5)
        #expect(read("return=minimal, WAIT = \"7\"; x=y") == 7)
        #expect(read("wait=3600") == 60)
        for text in ["wait", "wait=", "wait=-1", "wait=x", "await=5", ""] { #expect(read(text) == nil) }
    }
}
