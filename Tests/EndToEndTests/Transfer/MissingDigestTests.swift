import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("A node whose libcrypto has no MD5", .onOwnThread)
struct MissingDigestTests {
    @Test("a node without MD5 ignores Content-MD5, rejects jobs with md5, and fails those of other nodes")
    func md5() throws {
        let directory = try TemporaryDirectory.make("md5")
        defer { TemporaryDirectory.remove(directory) }
        let library = directory + "/no-md5.so"
        let tests = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        // clang comes with the Swift toolchain; another compiler may be missing.
        let compilation = try Program.run(
            ["clang", "-shared", "-fPIC", "-o", library, "/\(tests)/faults/no_md5.c", "-ldl"],
            environment: ["PATH": getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"])
        guard compilation.status == 0 else { throw TestSupportError(compilation.messages) }
        let database = try TestDatabase()
        // A wrong MD5: a node that computes MD5 would fail the download.
        let origin = try ScriptedOrigin.answering { _, _ in
            let head = "HTTP/1.1 200 OK\r\nContent-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 2\r\n\r\n"
            return Array((head + "ok").utf8)
        }
        defer { origin.stop() }
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all nodes, long enough",
        ]
        let other = try FerryProcess(settings.merging(["FERRY_ROLES": "api"]) { $1 })
        defer { other.remove() }
        let job = { (path: String, more: String) in
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"\#(path)"}"#
                + #","retry":{"max_attempts":1}\#(more)}"#
        }
        let integrity = #","integrity":{"md5":"444bcb3a3fcf8389296c49467f27e1d6"}"#
        let withMD5 = try other.submit(job("demanding", integrity))
        let ferry = try FerryProcess(settings.merging(["LD_PRELOAD": library]) { $1 })
        defer { ferry.remove() }
        let failed = try other.finished(withMD5)
        #expect(failed["error"]?["code"]?.string == "digest_mismatch", "\(failed)")
        #expect(failed["error"]?["message"]?.string?.contains("cannot be computed") == true, "\(failed)")
        let announced = try ferry.run(job("announced", ""))
        #expect(announced["state"]?.string == "succeeded", "\(announced)")
        #expect(readFile(ferry.files + "/announced") == Array("ok".utf8))
        let refused = try ferry.call("POST", "/v1/jobs", job("refused", integrity))
        #expect(refused.status == 422 && refused.text.contains("not_supported"), "\(refused.text)")
        #expect(ferry.terminate() == 0)
    }
}
