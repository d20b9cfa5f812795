import FerryCore
import Glibc
import HTTPServer
import Synchronization
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs/{id}/content")
struct ContentTests {
    private static let sha256 = String(repeating: "0a", count: 32)

    private func finished(_ fixture: Fixture, body: [UInt8]?, name: String = "a \"é\".txt") throws -> JobID {
        let id = try fixture.submit()
        let result = TransferResult(
            location: body == nil ? .managedFile : nil, size: Int64(body?.count ?? 10),
            sha256: Self.sha256, body: body, verified: .length)
        let response = TransferResponse(
            status: 200, url: "http://a/", headers: [], mimeType: "text/html", suggestedFilename: name,
            expectedContentLength: nil)
        fixture.store.finish(id, .succeeded) {
            $0.storedResult = Stored(result)
            $0.storedResponse = Stored(response, .inverted)
            $0.body = body
        }
        return id
    }

    @Test("the whole content has its digests and is sent as an attachment")
    func whole() throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: Array("0123456789".utf8))
        let response = try fixture.send("GET", "/v1/jobs/\(id)/content", key: fixture.viewerKey)
        #expect(response.status == 200 && response.body == Array("0123456789".utf8))
        #expect(response.header("ETag") == "\"\(Self.sha256)\"")
        #expect(
            response.header("Content-Disposition")
                == "attachment; filename=\"a ___.txt\"; filename*=UTF-8''a%20%22%C3%A9%22.txt")
        #expect(response.header("X-Content-Type-Options") == "nosniff")
        #expect(response.header("Content-Security-Policy")?.contains("sandbox") == true)
        #expect(response.header("Repr-Digest")?.hasPrefix("sha-256=:CgoK") == true)
        #expect(response.header("Digest")?.hasPrefix("SHA-256=CgoK") == true)
    }

    @Test(
        "a range is 206 with its bytes",
        arguments: [
            ("bytes=2-4", "234", "bytes 2-4/10"), ("bytes=8-", "89", "bytes 8-9/10"),
            ("bytes=-3", "789", "bytes 7-9/10"),
            ("bytes=-99", "0123456789", "bytes 0-9/10"), ("bytes=5-99", "56789", "bytes 5-9/10"),
            ("BYTES=0-0", "0", "bytes 0-0/10"),
        ])
    func range(_ range: String, _ part: String, _ contentRange: String) throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: Array("0123456789".utf8))
        let response = try fixture.send("GET", "/v1/jobs/\(id)/content", [("Range", range)])
        #expect(response.status == 206 && response.body == Array(part.utf8))
        #expect(response.header("Content-Range") == contentRange)
        #expect(response.header("Digest") == nil)
    }

    @Test(
        "an unsupported range is 200 with the whole content",
        arguments: [
            "bytes=4-2", "bytes=a-b", "bytes=", "bytes=-", "lines=1-2", "bytes=0-1,3-4", "bytes=--1",
            "bytes=99999999999999999999-",
        ])
    func ignored(_ range: String) throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: Array("0123456789".utf8))
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content", [("Range", range)]).status == 200)
    }

    @Test("a range beyond the content is 416 with the length", arguments: ["bytes=10-", "bytes=-0"])
    func unsatisfiable(_ range: String) throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: Array("0123456789".utf8))
        let response = try fixture.send("GET", "/v1/jobs/\(id)/content", [("Range", range)])
        #expect(response.status == 416 && response.header("Content-Range") == "bytes */10")
    }

    @Test("If-Range sends the range only of unchanged content; If-None-Match and If-Match are obeyed")
    func conditions() throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: Array("0123456789".utf8))
        let tag = "\"\(Self.sha256)\""
        let status: ([(name: String, value: String)]) throws -> Int = {
            try fixture.send("GET", "/v1/jobs/\(id)/content", $0).status
        }
        #expect(try status([("Range", "bytes=1-2"), ("If-Range", tag)]) == 206)
        #expect(try status([("Range", "bytes=1-2"), ("If-Range", "W/" + tag)]) == 200)
        #expect(try status([("Range", "bytes=1-2"), ("If-Range", "\"x\"")]) == 200)
        #expect(try status([("If-None-Match", tag)]) == 304)
        #expect(try status([("If-Match", "\"x\"")]) == 412)
        #expect(try status([("If-Match", tag)]) == 200)
    }

    @Test("a file is sent from its descriptor, which is closed even if nothing is sent")
    func file() throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: nil)
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content").code == "no_content")
        var template = Array("/tmp/ferry-content-XXXXXX".utf8CString)
        let descriptor = mkstemp(&template)
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        defer {
            close(descriptor)
            unlink(path)
        }
        #expect(write(descriptor, "0123456789", 10) == 10)
        let content = try #require(ContentInFile(path))
        fixture.store.state.withLock { $0.contents[id] = content }
        let response = try fixture.send("GET", "/v1/jobs/\(id)/content", [("Range", "bytes=2-4")])
        guard case .file(let file) = response.message.body else {
            Issue.record("not a file")
            return
        }
        #expect(file.offset == 2 && file.length == 3)
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content", [("Range", "bytes=10-")]).status == 416)
    }

    @Test("too many comparisons with digests are 429 with Retry-After and the quota")
    func overloaded() throws {
        let fixture = Fixture()
        let id = try finished(fixture, body: nil)
        fixture.store.state.withLock { $0.fileFailure = .overloaded }
        let response = try fixture.send("GET", "/v1/jobs/\(id)/content")
        #expect(response.status == 429 && response.code == "overloaded")
        #expect(response.json["detail"]?.string?.contains("digests") == true)
        #expect(response.header("Retry-After") == "1")
        #expect(response.header("RateLimit-Policy") == #""contents";q=\#(contentWaiterCountMax)"#)
        #expect(response.header("RateLimit") == #""contents";r=0;t=1"#)
    }

    @Test("an unfinished job is 409, a job without content 404")
    func none() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content").code == "invalid_state")
        fixture.store.finish(id, .succeeded)
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content").code == "no_content")
    }
}
