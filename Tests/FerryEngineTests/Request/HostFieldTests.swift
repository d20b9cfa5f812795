import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Host of a job", .onOwnThread) struct HostFieldTests {
    @Test("Host is sent to the origin of the job's URL, also after a redirect, and to no other origin")
    func redirects() throws {
        let other = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        let origin = try ScriptedOrigin.answering { request, _ in
            let target = request.path == "/a" ? "/b" : other.url
            return Array("HTTP/1.1 302 Found\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            for one in [origin, other] { one.stop() }
        }
        let result = fixture.run(.data, origin.url + "/a") {
            $0.spec.request.headers = [.init("Host", "shop.example")]
            $0.spec.redirects.sendsCredentialsAcrossOrigins = true
        }
        #expect(result?.success != nil, "\(String(describing: result?.outcome))")
        #expect(origin.requests.map { $0.header("host") } == ["shop.example", "shop.example"])
        #expect(other.requests.map { $0.header("host") } == ["127.0.0.1:\(other.port)"])
    }
}
