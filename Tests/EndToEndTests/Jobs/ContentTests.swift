import Curl
import FerryCore
import Glibc
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Content of finished jobs", .onOwnThread)
struct ContentTests {
    let ferry: FerryProcess
    let database: TestDatabase

    init() throws { (ferry, database) = try FerryProcess.shared.get() }

    /// Downloads a file to `path`. Returns the job's id and the path of its content in the API.
    private func download(_ nginx: Nginx, _ name: String, to path: String) throws -> (
        id: String, path: String
    ) {
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/\#(name)"},"#
                + #""destination":{"path":"\#(path)"}}"#)
        try #require(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["result"]?["file"] == nil, "the file's fingerprint is not shown: \(job)")
        let id = try #require(job["id"]?.string)
        return (id, "/v1/jobs/\(id)/content")
    }

    private func expectNoContent(_ path: String, _ headers: [String: String] = [:]) throws {
        let response = try ferry.call("GET", path, headers: headers)
        #expect(response.status == 404, "\(response.header("etag") ?? "")")
        guard response.status == 404 else { return }
        #expect(try response.json["code"]?.string == "no_content")
        #expect(response.header("etag") == nil && response.header("repr-digest") == nil)
    }

    @Test("after another job has replaced the file, the first job's content is 404")
    func replaced() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let (old, new) = (patternBytes(50_000, seed: 1), patternBytes(50_000, seed: 2))
        try nginx.serve("old", old)
        try nginx.serve("new", new)
        let first = try download(nginx, "old", to: "content/replaced").path
        let whole = try ferry.call("GET", first)
        #expect(whole.status == 200 && whole.body == old)
        let tag = try #require(whole.header("etag"))
        let second = try download(nginx, "new", to: "content/replaced").path
        try expectNoContent(first)
        try expectNoContent(first, ["Range": "bytes=100-199", "If-Range": tag])
        let response = try ferry.call("GET", second)
        #expect(response.status == 200 && response.body == new && response.header("etag") != tag)
    }

    @Test("after a write into the file of unchanged size, the content is 404")
    func edited() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(1_000))
        let path = try download(nginx, "file", to: "content/edited").path
        #expect(try ferry.call("GET", path).status == 200)
        let descriptor = open(ferry.files + "/content/edited", O_WRONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let before = modified(descriptor)
        // The kernel sets a file's time from its last clock tick, so the write repeats until the time
        // differs.
        #expect(becomes { pwrite(descriptor, "x", 1, 500) == 1 && modified(descriptor) != before })
        try expectNoContent(path)
    }

    @Test("a restored file with the same bytes is sent as before; one with other bytes is 404")
    func restored() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(300_000, seed: 5)
        try nginx.serve("file", bytes)
        let (id, path) = try download(nginx, "file", to: "content/restored")
        let before = try ferry.call("GET", path)
        // Like a restored backup: same bytes, other inode and time.
        let name = ferry.files + "/content/restored"
        try writeFile(name + ".new", bytes)
        try #require(rename(name + ".new", name) == 0)
        for _ in 1...2 {
            let head = try ferry.call("HEAD", path)
            #expect(head.status == 200 && head.header("content-length") == "300000")
            let response = try ferry.call("GET", path)
            #expect(response.status == 200 && response.body == bytes)
            #expect(response.header("etag") == before.header("etag"))
            let tag = try #require(response.header("etag"))
            let part = try ferry.call("GET", path, headers: ["Range": "bytes=1000-1999", "If-Range": tag])
            #expect(part.status == 206 && part.body == Array(bytes[1_000..<2_000]))
        }
        let upload = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(nginx.url)/put/restored","method":"PUT"},"#
                + #""source":{"job":"\#(id)"}}"#)
        #expect(upload["state"]?.string == "succeeded", "\(upload)")
        // Same size, other bytes.
        try writeFile(name + ".new", Array(bytes.reversed()))
        try #require(rename(name + ".new", name) == 0)
        for _ in 1...2 {
            try expectNoContent(path)
            try expectNoContent(path, ["Range": "bytes=0-9"])
            #expect(try ferry.call("HEAD", path).status == 404)
        }
    }

    @Test("without a stored file fingerprint, the content is verified by its bytes")
    func withoutFingerprint() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(1_000)
        try nginx.serve("file", bytes)
        let (id, path) = try download(nginx, "file", to: "content/old")
        let job = try ferry.json("GET", "/v1/jobs/\(id)")
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: #"""
                UPDATE finished_jobs SET result = regexp_replace(result, '"file":"[^"]*",', '')
                WHERE result LIKE '%/\#(id)/content%'
                """#)
        #expect(try ferry.json("GET", "/v1/jobs/\(id)") == job)
        #expect(try ferry.call("GET", path).body == bytes)
        try writeFile(ferry.files + "/content/old", Array(bytes.reversed()))
        try expectNoContent(path)
        #expect(truncate(ferry.files + "/content/old", 999) == 0)
        try expectNoContent(path)
    }

    private func modified(_ descriptor: Int32) -> Int64 {
        var status = stat()
        fstat(descriptor, &status)
        return Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    }
}
