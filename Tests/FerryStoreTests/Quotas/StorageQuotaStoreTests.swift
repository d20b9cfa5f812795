import FerryCore
import FerryStore
import TestSupport
import TestThreads
import Testing

@Suite("Stored bytes of a tenant", .onOwnThread)
struct StorageQuotaStoreTests {
    private func stored(_ size: Int64, isManaged: Bool = true) -> AttemptResult.Outcome {
        .succeeded(
            TransferResult(
                location: isManaged ? .managedFile : .namedFile(path: "a"), size: size, sha256: "ab",
                verified: .length))
    }

    private func refusal(_ node: TestNode, _ job: NewJob) -> StoreError? {
        if case .failure(let error) = node.submit([job]) { error } else { nil }
    }

    @Test("jobs whose bytes Ferry stores are refused at the limit; deletion gives the bytes back")
    func limit() throws {
        let database = try TestDatabase(template: template)
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        // Before there is a limit.
        let first = try node.submit(newJob(kind: .data))
        node.end(try node.attempt(), stored(600))
        let named = try node.submit(newJob())
        node.end(try node.attempt(), stored(5_000, isManaged: false))
        try node.limit("acme", TenantLimits(storageByteCountMax: 1_000))
        eventually("the bytes are read") { node.store.quotas.storedByteCount(of: "acme") == 600 }
        #expect(refusal(node, newJob(kind: .data)) == nil)
        node.end(try node.attempt(), stored(400))
        #expect(refusal(node, newJob(kind: .data)) == .storageQuotaExceeded(max: 1_000))
        #expect(refusal(node, newJob()) == nil, "its file has a path")
        #expect(refusal(node, newJob(kind: .upload)) == nil)
        #expect(refusal(node, newJob(tenant: "other", kind: .data)) == nil)
        let delete = { (id: JobID) in
            wait { node.store.jobCommands.delete(id, tenant: "acme", revision: nil, reply: $0) }
        }
        _ = try delete(named.id).get()
        #expect(refusal(node, newJob(kind: .data)) == .storageQuotaExceeded(max: 1_000))
        _ = try delete(first.id).get()
        eventually("there is room") { refusal(node, newJob(kind: .data)) == nil }
    }
}
