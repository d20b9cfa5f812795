import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Staged uploads through other nodes", .onOwnThread)
struct UploadNodeTests {
    /// ASCII bytes, which requests can have as a text.
    private static let bytes = patternBytes(3 << 20).map { $0 & 0x3F | 0x40 }
    private static func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
    private static let partial = ["Content-Type": "application/partial-upload"]

    private let database: TestDatabase
    private let (owner, other): (FerryProcess, FerryProcess)

    init() throws {
        database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
        ]
        owner = try FerryProcess(settings, advertises: true)
        other = try FerryProcess(settings, advertises: true)
    }

    private func remove() {
        owner.remove()
        other.remove()
    }

    /// Begins an upload at its node.
    private func begin(_ name: String, _ count: Int) throws {
        let begun = try owner.call(
            "PUT", "/v1/uploads/\(name)", Self.text(0..<count),
            headers: ["Upload-Complete": "?0", "Upload-Length": "\(Self.bytes.count)"])
        #expect(begun.status == 201 && begun.header("Upload-Offset") == "\(count)", "\(begun.text)")
    }

    private func append(_ name: String, at offset: Int, _ end: Int, through node: FerryProcess) throws
        -> BufferedRequest.Response
    {
        let isLast = end == Self.bytes.count
        return try node.call(
            "PATCH", "/v1/uploads/\(name)", Self.text(offset..<end),
            headers: Self.partial.merging(
                ["Upload-Offset": "\(offset)", "Upload-Complete": isLast ? "?1" : "?0"]) { $1 })
    }

    @Test("an upload is continued, read and deleted through a node that does not have it")
    func continued() throws {
        defer { remove() }
        try begin("a", 1 << 20)
        #expect(try other.call("HEAD", "/v1/uploads/a").header("Upload-Offset") == "\(1 << 20)")
        // More than the buffers between the nodes hold.
        let more = try append("a", at: 1 << 20, 2 << 20, through: other)
        #expect(more.status == 204 && more.header("Upload-Offset") == "\(2 << 20)", "\(more.text)")
        let wrong = try append("a", at: 5, 2 << 20, through: other)
        #expect(wrong.status == 409 && wrong.header("Upload-Offset") == "\(2 << 20)", "\(wrong.text)")
        #expect(try wrong.json["expected-offset"]?.integer == 2 << 20)
        let end = try append("a", at: 2 << 20, 3 << 20, through: other)
        #expect(end.status == 200 && end.header("X-Ferry-Node") == nil, "\(end.text)")
        #expect(try other.call("GET", "/v1/uploads/a/content").body == Self.bytes)
        let content = try other.call("GET", "/v1/uploads/a/content", headers: ["Range": "bytes=9-99"])
        #expect(content.status == 206 && content.body == Array(Self.bytes[9...99]))
        // A name that is taken, with the same bytes and with others.
        #expect(try other.call("PUT", "/v1/uploads/a", Self.text(0..<3 << 20)).status == 200)
        #expect(try other.call("PUT", "/v1/uploads/a", Self.text(1..<3 << 20)).status == 409)
        #expect(try other.call("DELETE", "/v1/uploads/a").status == 204)
        #expect(try owner.call("GET", "/v1/uploads/a").status == 404)
    }

    @Test("a node that has gone is named, and the upload can be deleted all the same")
    func gone() throws {
        defer { remove() }
        try begin("b", 1_000)
        owner.kill9()
        let refused = try append("b", at: 1_000, 2_000, through: other)
        #expect(refused.status == 503, "\(refused.text)")
        #expect(try refused.json["code"] == "node_unavailable")
        #expect(try other.call("GET", "/v1/uploads/b").status == 200)
        #expect(try other.call("DELETE", "/v1/uploads/b").status == 204)
        #expect(try other.call("GET", "/v1/uploads/b").status == 404)
    }
}
