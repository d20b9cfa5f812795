import FerryCore
import Glibc
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("Memory for request bodies")
struct BodyBudgetTests {
    /// Returns a request head with the key; the test sends the body.
    private func head(_ key: String, _ fields: String, to path: String = "/v1/jobs") -> String {
        "POST \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer \(key)\r\n"
            + "Content-Type: application/json\r\n\(fields)\r\n\r\n"
    }

    /// Returns a job with this many bytes.
    private func job(_ byteCount: Int) -> String {
        let job = small()
        return job + String(repeating: " ", count: byteCount - job.utf8.count)
    }

    private func becomes(_ condition: () -> Bool) -> Bool {
        let end = monotonicNanoseconds() + 120_000_000_000
        while !condition() {
            if monotonicNanoseconds() > end { return false }
            _ = poll(nil, 0, 1)
        }
        return true
    }

    private func serving(_ byteCount: Int, _ body: (UInt16, Fixture) throws -> Void) throws {
        let fixture = Fixture(bodyBytesMax: byteCount)
        let server = try Server(address: "127.0.0.1", port: 0, handler: fixture.api)
        try server.start()
        defer { server.stop() }
        try body(server.port, fixture)
    }

    @Test(
        "a large body that does not fit is refused unread; small bodies and other tenants are accepted"
    )
    func refused() throws {
        try serving(2_000_000) { port, fixture in
            let key = fixture.clientKey
            let slow = try RawConnection(port)
            try slow.send(head(key, "Content-Length: 600000") + job(600_000).prefix(599_000))
            #expect(becomes { fixture.api.bodies.taken == 600_000 })
            for fields in ["Content-Length: 500000", "Content-Length: 500000\r\nExpect: 100-continue"] {
                let refused = try RawConnection(port)
                try refused.send(head(key, fields))
                let response = refused.rest()
                #expect(
                    response.hasPrefix("HTTP/1.1 429 ") && response.contains("\"overloaded\""), "\(response)")
                #expect(response.contains("Retry-After: 1\r\n"))
            }
            let chunked = try RawConnection(port)
            try chunked.send(
                head(key, "Transfer-Encoding: chunked") + "7a120\r\n\(job(500_000))\r\n0\r\n\r\n")
            #expect(chunked.rest().hasPrefix("HTTP/1.1 429 "))
            for (sender, byteCount) in [(key, 16_384), (fixture.strangerKey, 500_000)] {
                let other = try RawConnection(port)
                try other.send(head(sender, "Content-Length: \(byteCount)") + job(byteCount))
                #expect(other.rest().hasPrefix("HTTP/1.1 201 "), "\(byteCount)")
            }
            try slow.send(String(repeating: " ", count: 1_000))
            #expect(slow.rest().hasPrefix("HTTP/1.1 201 "))
            // The store in memory keeps the submissions, whose replies keep the requests.
            fixture.store.state.withLock { $0.submissions = [] }
            #expect(becomes { fixture.api.bodies.taken == 0 })
            let again = try RawConnection(port)
            try again.send(head(key, "Content-Length: 1000000") + job(1_000_000))
            #expect(again.rest().hasPrefix("HTTP/1.1 201 "))
            fixture.store.state.withLock { $0.submissions = [] }
            #expect(becomes { fixture.api.bodies.taken == 0 })
        }
    }

    @Test("a body above half of the memory is 413, with and without Content-Length")
    func tooLarge() throws {
        try serving(2_000_000) { port, fixture in
            for (fields, body) in [
                ("Content-Length: 1000001", ""),
                ("Transfer-Encoding: chunked", "f4241\r\n\(job(1_000_001))\r\n0\r\n\r\n"),
            ] {
                let connection = try RawConnection(port)
                try connection.send(head(fixture.clientKey, fields, to: "/v1/jobs/batch") + body)
                let response = connection.rest()
                #expect(response.hasPrefix("HTTP/1.1 413 ") && response.contains("1000000"), "\(response)")
            }
        }
    }

    @Test("a client that disconnects during its body releases the memory, with and without Content-Length")
    func left() throws {
        try serving(1_000_000) { port, fixture in
            for (fields, start) in [
                ("Content-Length: 150000", ""), ("Transfer-Encoding: chunked", "186a0\r\n"),
            ] {
                var connection: RawConnection? = try RawConnection(port)
                try connection?.send(head(fixture.clientKey, fields) + start + job(90_000))
                #expect(becomes { fixture.api.bodies.taken >= 90_000 })
                connection = nil
                #expect(becomes { fixture.api.bodies.taken == 0 })
            }
        }
    }

    @Test("a tenant's bodies take at most as much memory as they leave free")
    func shares() {
        let budget = BodyBudget(capacity: 100)
        let reservations = ["a", "a", "b", "c"].map { budget.reservation(for: $0, requestID: "r") }
        #expect(reservations[0].take(30) == nil && reservations[0].take(50) == nil, "it grows")
        #expect(reservations[1].take(1) != nil)
        #expect(reservations[2].take(26) != nil && reservations[2].take(25) == nil)
        #expect(reservations[3].take(13) != nil && reservations[3].take(12) == nil)
        withExtendedLifetime(reservations) { #expect(budget.taken == 87) }
    }
}
