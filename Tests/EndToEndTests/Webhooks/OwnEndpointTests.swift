import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("No job reaches Ferry's own API and database", .onOwnThread)
struct OwnEndpointTests {
    /// The first address of an interface other than the loopback; nil without a network.
    private var interfaceAddress: String? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let raw = entry.pointee.ifa_addr, Int32(raw.pointee.sa_family) == AF_INET else { continue }
            var place = UnsafeRawPointer(raw).loadUnaligned(as: sockaddr_in.self).sin_addr
            var text = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
            inet_ntop(AF_INET, &place, &text, socklen_t(text.count))
            let address = text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
            if !address.hasPrefix("127.") { return address }
        }
        return nil
    }

    /// The code of a job's failure that is sent there; nil when it did not fail.
    private func failure(_ ferry: FerryProcess, _ url: String) throws -> String? {
        let answer = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(url)"},"retry":{"max_attempts":1},"#
                + #""schedule":{"waits_for_connectivity":false}}"#,
            headers: ["Prefer": "wait=60"])
        if answer.status == 422 { return try answer.json["errors"]?.array?.first?["code"]?.string }
        return try answer.json["error"]?["code"]?.string
    }

    @Test("a service that listens everywhere is closed to its jobs under each of its addresses")
    func everywhere() throws {
        let address = try #require(interfaceAddress, "the machine has no network")
        let database = try TestDatabase()
        let ferry = try FerryProcess(
            ["FERRY_DATABASE_URL": database.url, "FERRY_EGRESS_ALLOW": "127.0.0.0/8,\(address)/32"],
            host: "0.0.0.0")
        defer { ferry.remove() }
        let port = ferry.port
        for host in [address, "127.0.0.1", "127.0.0.2"] {
            #expect(try failure(ferry, "http://\(host):\(port)/livez") == "blocked_address", "\(host)")
        }
        let redirecting = try ScriptedOrigin.answering { _, _ in
            let head = "HTTP/1.1 302 X\r\nLocation: http://\(address):\(port)/livez\r\n"
            return Array("\(head)Content-Length: 0\r\n\r\n".utf8)
        }
        defer { redirecting.stop() }
        #expect(try failure(ferry, redirecting.url) == "blocked_address")
        let free = try FreePort.find()
        #expect(try failure(ferry, "http://\(address):\(free)/") == "could_not_connect", "only that port")
    }

    @Test("the database is closed to jobs under each address of its machine")
    func database() throws {
        let port = try FreePort.find()
        let server = try TestServer(tcpPort: port)
        defer { server.remove() }
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": "postgresql://postgres@127.0.0.1:\(port)/postgres"
        ])
        defer { ferry.remove() }
        for host in ["127.0.0.1", "127.0.0.2"] {
            #expect(try failure(ferry, "http://\(host):\(port)/") == "blocked_address", "\(host)")
        }
    }
}
