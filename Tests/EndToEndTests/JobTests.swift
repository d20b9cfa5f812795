import FerryCore
import OpenSSL
import TestSupport
import Testing

@Suite("A job travels end to end")
struct JobTests {
    @Test("a download is fetched from nginx, kept in PostgreSQL and told by a signed webhook")
    func download() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(300_000)
        try nginx.serve("file", bytes)
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }

        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"a/b.bin"},"#
                + #""webhook":{"url":"\#(receiver.url)/hook"}}"#)
        let job = try ferry.finished(id)

        #expect(job["state"]?.string == "succeeded")
        #expect(job["result"]?["size"]?.integer == 300_000)
        #expect(job["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(readFile(ferry.files + "/a/b.bin") == bytes)
        let delivery = try #require(receiver.deliveries.wait().first)
        #expect(delivery.isSigned(by: webhookSecret))
        #expect(delivery.json["type"]?.string == "job.succeeded")
        #expect(delivery.json["data"]?["job"]?["id"]?.string == id)
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").body == bytes)
    }

    @Test("an upload sends a stored file, a text or base64, and a data job keeps the answer")
    func uploadAndData() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let origin = try ScriptedOrigin.answering { request, body in
            let text = "\(request.method) \(body.count) \(hexadecimal(Digest.of(body)))"
            return Array("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
        defer { origin.stop() }
        let bytes = patternBytes(200_000)
        try writeFile(ferry.files + "/in.bin", bytes)

        let stored = try ferry.finished(
            ferry.submit(#"{"kind":"upload","request":{"url":"\#(origin.url)/up"},"source":{"path":"in.bin"}}"#))
        #expect(stored["state"]?.string == "succeeded")
        #expect(stored["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(origin.requests.last?.method == "PUT")
        let text = try ferry.finished(
            ferry.submit(#"{"kind":"upload","request":{"url":"\#(origin.url)/up"},"source":{"text":"grüezi"}}"#))
        #expect(text["result"]?["size"]?.integer == 7)
        let data = try ferry.finished(
            ferry.submit(
                #"{"kind":"data","request":{"url":"\#(origin.url)/x","method":"POST","body":{"json":{"a":[1,2]}}}}"#))
        #expect(data["state"]?.string == "succeeded")
        let answer = try ferry.call("GET", "/v1/jobs/\(data["id"]?.string ?? "")/content")
        #expect(String(decoding: answer.body, as: UTF8.self).hasPrefix("POST 11 "))
    }
}
