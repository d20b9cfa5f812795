import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Requests to Ferry's own API and database", .onOwnThread)
struct OwnEndpointTests {
    /// First IPv4 address of an interface other than loopback, or `nil` without a network.
    private var interfaceAddress: String? {
        var first: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&first) == 0 else { return nil }
        defer { freeifaddrs(first) }
        var next = first
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let raw = entry.pointee.ifa_addr, Int32(raw.pointee.sa_family) == AF_INET else { continue }
            var ipAddress = UnsafeRawPointer(raw).loadUnaligned(as: sockaddr_in.self).sin_addr
            var text = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
            inet_ntop(AF_INET, &ipAddress, &text, socklen_t(text.count))
            let address = text.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
            if !address.hasPrefix("127.") { return address }
        }
        return nil
    }

    /// Runs a job with this URL. Returns its error code, or `nil` if it did not fail.
    private func failure(_ ferry: FerryProcess, _ url: String) throws -> String? {
        let response = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(url)"},"retry":{"max_attempts":1},"#
                + #""schedule":{"waits_for_connectivity":false}}"#,
            headers: ["Prefer": "wait=60"])
        if response.status == 422 { return try response.json["errors"]?.array?.first?["code"]?.string }
        return try response.json["error"]?["code"]?.string
    }

    @Test("jobs cannot reach the API of a service on 0.0.0.0 by any address or redirect")
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
        #expect(
            try failure(ferry, "http://\(address):\(free)/") == "could_not_connect",
            "only the API's port is blocked")
    }

    @Test("jobs cannot reach the port of the database by any address of its machine")
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
