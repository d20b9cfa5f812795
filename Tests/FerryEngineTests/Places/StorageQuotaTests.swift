import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

@Suite("Stored bytes of a tenant on a node", .onOwnThread)
struct StorageQuotaTests {
    /// Sends a body of so many bytes; `isAnnounced`: with its length.
    private static func origin(_ byteCount: Int, isAnnounced: Bool) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                connection.send(
                    "HTTP/1.1 200 OK\r\n" + (isAnnounced ? "Content-Length: \(byteCount)\r\n\r\n" : "\r\n"))
                connection.send([UInt8](repeating: 1, count: byteCount))
                if !isAnnounced { return }
            }
        }
    }

    @Test(
        "a transfer that does not fit into what its tenant may store fails for good and leaves no bytes",
        arguments: [true, false], [1, 2])
    func limit(isAnnounced: Bool, segmentCount: Int) throws {
        let quotas = TenantQuotas()
        let fixture = try Fixture { $0.quotas = quotas }
        defer { fixture.engine.stop() }
        let origin = try Self.origin(100_000, isAnnounced: isAnnounced)
        defer { origin.stop() }
        let run = { (path: String?) in
            fixture.run(.download, origin.url) {
                if let path { $0.to(path) }
                $0.spec.segmentCountMax = segmentCount
            }
        }
        let first = try #require(run(nil))
        #expect(first.success?.location == .managedFile)
        let limits = TenantLimits(storageByteCountMax: 250_000)
        let readings = [first.attempt.tenant: TenantQuotas.Reading(limits: limits)]
        _ = quotas.apply(readings, reading: quotas.beginReading(), at: .distantPast)
        quotas.apply(stored: [first.attempt.tenant: 100_000], finished: [])
        // The result is not committed here: what was reserved stays.
        #expect(run(nil)?.success?.size == 100_000)
        let refused = try #require(run(nil))
        #expect(refused.failure?.code == .storageQuotaExceeded && refused.failure?.isRetryable == false)
        #expect(!refused.leavesBytes)
        #expect(run("a")?.success?.size == 100_000, "a file at a path does not count")
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }
}
