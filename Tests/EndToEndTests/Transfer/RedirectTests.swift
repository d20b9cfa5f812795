import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Redirects to another origin", .onOwnThread)
struct RedirectTests {
    /// What came there.
    private struct Arrival: Sendable, Equatable {
        let method: String
        var body = ""
        var authorization: String?
        var cookie: String?
    }
    private let ferry: FerryProcess
    private let arrivals = Signal<Arrival>()

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// `/STATUS` redirects to the other one with that status.
    private func origins() throws -> (first: ScriptedOrigin, second: ScriptedOrigin) {
        let second = try ScriptedOrigin.answering { [arrivals] request, body in
            arrivals.fire(
                Arrival(
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
        "301 and 302 make a GET of a POST, 303 of a PUT too; 307 and 308 take method and body along",
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
            let isKept = status > 303 || status < 303 && method == "PUT"
            let expected = isKept ? Arrival(method: method, body: "hi") : Arrival(method: "GET")
            #expect(arrivals.wait() == [expected])
        }
    }

    @Test("credentials stay behind, unless the job says that they come along", arguments: [false, true])
    func credentials(_ comeAlong: Bool) throws {
        let (first, second) = try origins()
        defer {
            first.stop()
            second.stop()
        }
        let job = try ferry.run(
            #"{"kind":"data","redirects":{"send_credentials_across_origins":\#(comeAlong)},"#
                + #""request":{"url":"\#(first.url)/302","headers":{"Cookie":"a=b"},"#
                + #""auth":{"type":"basic","user":"me","password":"open-sesame"}}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let basic = "Basic " + Base64.encode(Array("me:open-sesame".utf8))
        #expect(first.requests.first?.header("authorization") == basic)
        let expected =
            comeAlong
            ? Arrival(method: "GET", authorization: basic, cookie: "a=b") : Arrival(method: "GET")
        #expect(arrivals.wait() == [expected])
    }
}
