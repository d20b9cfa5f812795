import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Progress", .onOwnThread)
struct ProgressTests {
    @Test("a running upload shows bytes sent and expected, rate, fraction and remaining seconds")
    func upload() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        let size = 20_000_000
        try writeFile(ferry.files + "/progress-source", [UInt8](repeating: 1, count: size))
        // The upload takes 200 s at this rate.
        let id = try ferry.submit(
            #"{"kind":"upload","source":{"path":"progress-source"},"#
                + #""request":{"url":"\#(origin.url)/"},"network":{"max_bytes_per_second":100000}}"#)
        var shown: JSON?
        let isShown = becomes {
            shown = try ferry.json("GET", "/v1/jobs/\(id)")["progress"]
            return shown?["seconds_remaining"]?.double != nil
        }
        #expect(isShown, "\(shown ?? .null)")
        let sent = try #require(shown?["bytes_sent"]?.double)
        let rate = try #require(shown?["bytes_per_second"]?.double)
        #expect(shown?["bytes_expected_to_send"]?.integer == Int64(size))
        #expect(sent > 0 && sent < Double(size) && rate > 0)
        #expect(abs((shown?["fraction_completed"]?.double ?? 0) - sent / Double(size)) < 1e-6)
        let expected = (Double(size) - sent) / rate
        #expect(abs((shown?["seconds_remaining"]?.double ?? 0) / expected - 1) < 1e-6)
        let patch = #"{"network":{"max_bytes_per_second":null}}"#
        #expect(try ferry.call("PATCH", "/v1/jobs/\(id)", patch).status == 200)
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["progress"]?["bytes_sent"]?.integer == Int64(size))
        #expect(end["progress"]?["seconds_remaining"]?.double == 0)
    }
}
