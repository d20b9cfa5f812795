import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs/{id}")
struct ReadJobsTests {
    @Test("a job is shown with its tag, and 304 while it is unchanged")
    func read() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        let answer = try fixture.send("GET", "/v1/jobs/\(id)", key: fixture.viewerKey)
        #expect(answer.status == 200 && answer.header("ETag") == "\"r1\"")
        for tag in ["\"r1\"", "W/\"r1\"", "\"x\", \"r1\"", "*"] {
            #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("If-None-Match", tag)]).status == 304)
        }
        fixture.store.finish(id, .failed)
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("If-None-Match", "\"r1\"")]).status == 200)
    }

    @Test("another tenant's job, an unknown one and nonsense are all the same 404")
    func notFound() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", key: fixture.strangerKey).status == 404)
        for path in [
            "/v1/jobs/job_00000000000000000000000000", "/v1/jobs/x", "/v1/jobs/%ff", "/v1/jobs/\(id)/",
            "/v1/jobs/%2e",
        ] {
            let answer = try fixture.send("GET", path)
            #expect(answer.status == 404 && answer.code == "not_found", "\(path)")
        }
    }

    @Test("Prefer: wait answers at once when the job has ended, and leaves no waiter")
    func wait() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.store.finish(id, .cancelled)
        let answer = try fixture.send("GET", "/v1/jobs/\(id)", [("Prefer", "wait=60")])
        #expect(answer.json["state"] == .string("cancelled"))
        #expect(fixture.waiters.count == 0)
    }

    @Test("a stop of the service answers who waits")
    func stop() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.waiters.stop()
        #expect(try fixture.send("GET", "/v1/jobs/\(id)", [("Prefer", "wait=60")]).status == 200)
    }

    @Test("preferences are read as RFC 7240 writes them")
    func preferences() {
        let read: (String) -> Double? = { preferredWait(HTTPFields([("Prefer", $0)])) }
        // What schemathesis sent; the first one once ended the service.
        for text in [";", "; ", ",;,", "=", ";wait=5", "wait", "wait;=5", ""] { #expect(read(text) == nil) }
        #expect(read("wait=5") == 5)
        #expect(read("return=minimal, WAIT = \"7\"; x=y") == 7)
        #expect(read("wait=3600") == 60)
        for text in ["wait", "wait=", "wait=-1", "wait=x", "await=5", ""] { #expect(read(text) == nil) }
    }
}
