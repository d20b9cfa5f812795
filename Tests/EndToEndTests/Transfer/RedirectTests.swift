import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Redirects to another origin", .onOwnThread)
struct RedirectTests {
    /// A request at the second origin.
    private struct ReceivedRequest: Sendable, Equatable {
        let method: String
        var body = ""
        var authorization: String?
        var cookie: String?
    }
    private let ferry: FerryProcess
    private let received = Signal<ReceivedRequest>()

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Returns two origins: `/STATUS` of the first redirects to the second with that status.
    private func origins() throws -> (first: ScriptedOrigin, second: ScriptedOrigin) {
        let second = try ScriptedOrigin.answering { [received] request, body in
            received.fire(
                ReceivedRequest(
                    method: request.method, body: String(decoding: body, as: UTF8.self),
                    authorization: request.header("authorization"), cookie: request.header("cookie")))
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        let first = try ScriptedOrigin.answering { [url = second.url] request, _ in
            let status = request.path.dropFirst()
            return Array("HTTP/1.1 \(status) X\r\nLocation: \(url)/\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        return (first, second)
    }

    @Test(
        "301 and 302 change POST to GET, 303 also PUT; 307 and 308 preserve method and body",
        arguments: [301, 302, 303, 307, 308])
    func methods(_ status: Int) throws {
        let (first, second) = try origins()
        defer {
            first.stop()
            second.stop()
        }
        for method in ["POST", "PUT"] {
            let job = try ferry.run(
                #"{"kind":"data","retry":{"max_attempts":1},"request":{"url":"\#(first.url)/\#(status)","#
                    + #""method":"\#(method)","body":{"text":"hi"}}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            let isPreserved = status > 303 || status < 303 && method == "PUT"
            let expected =
                isPreserved ? ReceivedRequest(method: method, body: "hi") : ReceivedRequest(method: "GET")
            #expect(received.wait() == [expected])
        }
    }

    @Test("a job waits for a redirect's long Retry-After, and goes on with its target")
    func delayed() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let head =
                request.path == "/job"
                ? "302 X\r\nLocation: /result\r\nSet-Cookie: a=b\r\nRetry-After: 6\r\nContent-Length: 0"
                : "200 OK\r\nContent-Length: 2"
            return Array("HTTP/1.1 \(head)\r\n\r\n\(request.path == "/job" ? "" : "ok")".utf8)
        }
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"data","retry":{"max_attempts":1},"request":{"url":"\#(origin.url)/job"}}"#)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(id)")["waiting_for"]?.string == "retry" })
        let waiting = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(waiting["state"]?.string == "waiting", "\(waiting)")
        #expect(waiting["error"]?["message"]?.string?.contains("asked to wait 6 s") == true, "\(waiting)")
        let reason = waiting["waiting_reason"]
        #expect(reason?["code"]?.string == "redirect_delay", "\(waiting)")
        #expect(reason?["detail"]?.string?.contains("failed") == false)
        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["attempt"]?.integer == 2, "\(job)")
        #expect(origin.requests.map(\.path) == ["/job", "/result"])
        #expect(origin.requests.last?.header("cookie") == "a=b")
    }

    @Test(
        "credentials go to another origin only with send_credentials_across_origins",
        arguments: [false, true])
    func credentials(_ areSent: Bool) throws {
        let (first, second) = try origins()
        defer {
            first.stop()
            second.stop()
        }
        let job = try ferry.run(
            #"{"kind":"data","redirects":{"send_credentials_across_origins":\#(areSent)},"#
                + #""request":{"url":"\#(first.url)/302","headers":{"Cookie":"a=b"},"#
                + #""auth":{"type":"basic","user":"me","password":"open-sesame"}}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let basic = "Basic " + Base64.encode(Array("me:open-sesame".utf8))
        #expect(first.requests.first?.header("authorization") == basic)
        let expected =
            areSent
            ? ReceivedRequest(method: "GET", authorization: basic, cookie: "a=b")
            : ReceivedRequest(method: "GET")
        #expect(received.wait() == [expected])
    }
}
