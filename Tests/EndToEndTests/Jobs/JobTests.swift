import Curl
import FerryCore
import OpenSSL
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Jobs from submission to webhook", .onOwnThread)
struct JobTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("a download publishes its file, shows size and SHA-256, and sends a signed webhook")
    func download() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(300_000)
        try nginx.serve("file", bytes)
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        let submitted = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"one/b.bin"},"#
                + #""webhook":{"url":"\#(receiver.url)/hook"}}"#,
            headers: ["traceparent": trace])
        let id = try #require(submitted.json["id"]?.string)
        #expect(submitted.status == 201 && submitted.header("location") == "/v1/jobs/\(id)")
        #expect(submitted.header("x-request-id") != nil && submitted.header("etag") != nil)

        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded")
        #expect(job["result"]?["size"]?.integer == 300_000)
        #expect(job["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(readFile(ferry.files + "/one/b.bin") == bytes)
        #expect(names(in: ferry.files + "/one") == ["b.bin"])
        let delivery = try #require(receiver.deliveries.wait().first)
        #expect(try delivery.isSigned(by: webhookSecret))
        #expect(delivery.traceparent.contains("4bf92f3577b34da6a3ce929d0e0e4736"))
        #expect(delivery.json["type"]?.string == "job.succeeded")
        #expect(delivery.job?["id"]?.string == id)
        #expect(delivery.job?["result"]?["sha256"] == job["result"]?["sha256"])
    }

    @Test("an upload sends a file, text or base64; a data job stores the response body as content")
    func uploadAndData() throws {
        let origin = try ScriptedOrigin.answering { request, body in
            let text = "\(request.method) \(body.count) \(hexadecimal(Digest.of(body)))"
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: \(text.utf8.count)\r\n\r\n"
            return Array((head + text).utf8)
        }
        defer { origin.stop() }
        let bytes = patternBytes(200_000)
        try writeFile(ferry.files + "/in.bin", bytes)
        let upload = { (source: String) in
            try ferry.run(#"{"kind":"upload","request":{"url":"\#(origin.url)/up"},"source":\#(source)}"#)
        }
        let stored = try upload(#"{"path":"in.bin"}"#)
        #expect(stored["state"]?.string == "succeeded", "\(stored)")
        #expect(stored["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(origin.requests.last?.method == "PUT")
        #expect(try upload(#"{"text":"grüezi"}"#)["result"]?["size"]?.integer == 7)
        #expect(try upload(#"{"base64":"AAEC"}"#)["result"]?["size"]?.integer == 3)
        for (body, byteCount) in [
            (#"{"json":{"a":[1,2]}}"#, 11), (#"{"form":{"a":"b c"}}"#, 5), (#"{"text":"four"}"#, 4),
            (#"{"base64":"AAEC"}"#, 3),
        ] {
            let job = try ferry.run(
                #"{"kind":"data","request":{"url":"\#(origin.url)/x","method":"POST","body":\#(body)}}"#)
            #expect(job["state"]?.string == "succeeded")
            let response = try ferry.call("GET", "/v1/jobs/\(job["id"]?.string ?? "")/content")
            #expect(response.text.hasPrefix("POST \(byteCount) "), "\(body)")
            #expect(response.header("content-type") == "text/plain")
        }
    }

    @Test("content supports ETag, Range, If-Range and If-None-Match; an unsatisfiable range gets 416")
    func contentRanges() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(100_000)
        try nginx.serve("file", bytes)
        let job = try ferry.run(#"{"kind":"download","request":{"url":"\#(nginx.url)/file"}}"#)
        let path = "/v1/jobs/\(job["id"]?.string ?? "")/content"
        let whole = try ferry.call("GET", path)
        #expect(whole.status == 200 && whole.body == bytes && whole.header("accept-ranges") == "bytes")
        #expect(whole.header("repr-digest") == "sha-256=:\(Base64.encode(Digest.of(bytes))):")
        #expect(whole.header("content-disposition")?.hasPrefix("attachment") == true)
        let tag = try #require(whole.header("etag"))
        let part = try ferry.call("GET", path, headers: ["Range": "bytes=100-299"])
        #expect(part.status == 206 && part.body == Array(bytes[100..<300]))
        #expect(part.header("content-range") == "bytes 100-299/100000")
        let end = try ferry.call("GET", path, headers: ["Range": "bytes=-10", "If-Range": tag])
        #expect(end.status == 206 && end.body == Array(bytes.suffix(10)))
        let other = try ferry.call("GET", path, headers: ["Range": "bytes=0-1", "If-Range": "\"other\""])
        #expect(other.status == 200 && other.body == bytes)
        let beyond = try ferry.call("GET", path, headers: ["Range": "bytes=100000-"])
        #expect(beyond.status == 416 && beyond.header("content-range") == "bytes */100000")
        #expect(try ferry.call("GET", path, headers: ["If-None-Match": tag]).status == 304)
    }

    @Test("redirects send harmless fields only to another origin, and stop at redirects.max")
    func redirects() throws {
        let target = try ScriptedOrigin.answering { request, _ in
            let text = "\(request.header("authorization") ?? "-")|\(request.header("x-plain") ?? "-")"
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
        defer { target.stop() }
        let targetURL = target.url
        let first = try ScriptedOrigin.answering { request, _ in
            let location = request.path == "/away" ? targetURL + "/end" : "/again"
            return Array("HTTP/1.1 302 Found\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { first.stop() }
        let headers = #""headers":{"Authorization":"Bearer sesame","X-Plain":"yes"}"#
        let crossOrigin = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(first.url)/away",\#(headers)}}"#)
        #expect(crossOrigin["response"]?["url"]?.string == target.url + "/end", "\(crossOrigin)")
        let content = try ferry.call("GET", "/v1/jobs/\(crossOrigin["id"]?.string ?? "")/content").text
        #expect(content == "-|-", "only harmless fields go to another origin")
        #expect(first.requests.first?.header("authorization") == "Bearer sesame")
        let loop = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(first.url)/again"},"redirects":{"max":3}}"#)
        #expect(loop["error"]?["code"]?.string == "too_many_redirects", "\(loop)")
        #expect(first.requests.filter { $0.path == "/again" }.count == 4)
        let rejected = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(first.url)/away"},"redirects":{"policy":"reject"}}"#)
        #expect(rejected["state"]?.string == "failed" && target.requests.count == 1)
    }

    @Test("a retry waits at least Retry-After, although retry.initial_delay is 0")
    func retryAfter() throws {
        let times = Signal<Int64>()
        let requestCount = Counter()
        let origin = try ScriptedOrigin { connection in
            // One request per connection; the first gets 503 with Retry-After.
            guard connection.readRequest() != nil else { return }
            times.fire(monotonicNanoseconds())
            let isFirst = requestCount.next() == 0
            connection.send(
                isFirst
                    ? "HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        }
        defer { origin.stop() }
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"later"},"#
                + #""retry":{"initial_delay":0,"max_attempts":3}}"#)
        #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 2, "\(job)")
        let requestTimes = times.wait(for: 2)
        #expect(requestTimes.count == 2 && requestTimes[1] - requestTimes[0] >= 1_990_000_000)
    }

    @Test("Prefer: wait responds when the job ends or the time is over, whichever is first")
    func preferWait() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin.answering { _, _ in
            _ = gate.pass()
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        defer { gate.open() }
        let body = #"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#
        let early = try ferry.call("POST", "/v1/jobs", body, headers: ["Prefer": "wait=1"])
        #expect(early.status == 201 && early.header("preference-applied") == "wait=1")
        let job = try early.json
        // On a busy machine the job may still be queued after 1 s.
        #expect(["queued", "running"].contains(job["state"]?.string), "\(job)")
        let ferry = ferry
        let path = "/v1/jobs/\(job["id"]?.string ?? "")"
        #expect(becomes { try ferry.json("GET", path)["state"]?.string == "running" })
        let ended = Signal<JSON>()
        let waiter = Thread(name: "waiter") {
            ended.fire((try? ferry.json("GET", path, headers: ["Prefer": "wait=60"])) ?? .null)
        }
        gate.open()
        let last = try #require(ended.wait().first)
        #expect(last["state"]?.string == "succeeded" && last["response"]?["status"]?.integer == 200)
        waiter.join()
    }
}
