import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("A node whose libcrypto has no MD5", .onOwnThread)
struct MissingDigestTests {
    @Test("passes over servers that announce it, refuses jobs that name it, survives those of other nodes")
    func md5() throws {
        let directory = try TemporaryDirectory.make("md5")
        defer { TemporaryDirectory.remove(directory) }
        let library = directory + "/no-md5.so"
        let tests = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        // The compiler that comes with Swift: a machine that builds this has no other for certain.
        let made = try Program.run(
            ["clang", "-shared", "-fPIC", "-o", library, "/\(tests)/faults/no_md5.c", "-ldl"],
            environment: ["PATH": getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"])
        guard made.status == 0 else { throw TestSupportError(made.messages) }
        let database = try TestDatabase()
        // The MD5 of something else: where there is one, the download fails.
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
        let demand = #","integrity":{"md5":"444bcb3a3fcf8389296c49467f27e1d6"}"#
        let demanding = try other.submit(job("demanding", demand))
        let ferry = try FerryProcess(settings.merging(["LD_PRELOAD": library]) { $1 })
        defer { ferry.remove() }
        let failed = try other.finished(demanding)
        #expect(failed["error"]?["code"]?.string == "digest_mismatch", "\(failed)")
        #expect(failed["error"]?["message"]?.string?.contains("cannot be computed") == true, "\(failed)")
        let announced = try ferry.run(job("announced", ""))
        #expect(announced["state"]?.string == "succeeded", "\(announced)")
        #expect(readFile(ferry.files + "/announced") == Array("ok".utf8))
        let refused = try ferry.call("POST", "/v1/jobs", job("refused", demand))
        #expect(refused.status == 422 && refused.text.contains("not_supported"), "\(refused.text)")
        #expect(ferry.terminate() == 0)
    }
}
