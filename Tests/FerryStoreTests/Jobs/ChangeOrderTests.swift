import FerryCore
import FerryStore
import TestSupport
import TestThreads
import Testing

@Suite("Order of a change's checks", .onOwnThread)
struct ChangeOrderTests {
    private let database: TestDatabase
    private let node: TestNode
    private static let invalid = InvalidFields("#/x", "wrong_type", "no")

    init() throws {
        database = try TestDatabase(template: template)
        // No job begins on this node.
        node = try TestNode(database.url, slots: 0)
    }

    private func edit(
        _ id: JobID, revision: Int32,
        _ change: @escaping @Sendable (JobRequest) throws(InvalidFields) -> JobRequest
    ) -> Result<Result<JobRecord, InvalidFields>, StoreError> {
        wait { node.store.jobCommands.edit(id, tenant: "acme", revision: revision, change, reply: $0) }
    }

    @Test("a body that is invalid for a job, the windows or a host is refused before the revision check")
    func invalidBodies() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        let refused = try edit(id, revision: 9) { _ throws(InvalidFields) in throw Self.invalid }.get()
        guard case .failure(let fields) = refused else {
            Issue.record("\(refused)")
            return
        }
        #expect(fields.errors.map(\.code) == ["wrong_type"])
        guard case .failure(.stale(revision: 1)) = edit(id, revision: 9, { $0 }) else {
            Issue.record("an old revision was changed")
            return
        }
        let windows: Result<Result<OffPeakWindows, InvalidFields>, StoreError> = wait {
            node.store.windows.changeWindows(
                if: { _ in false }, { _ throws(InvalidFields) in throw Self.invalid }, reply: $0)
        }
        guard case .success(.failure) = windows else {
            Issue.record("\(windows)")
            return
        }
        var patch = try HostPatch(body: JSONView(parsing: Array(#"{"minimum_connections":3}"#.utf8)))
        patch.connectionsMax = 2
        let host: Result<Result<HostRecord, InvalidFields>, StoreError> = wait {
            [patch] in
            node.store.hostCommands.changeHost("https://a.example:443", patch, if: { _ in false }, reply: $0)
        }
        guard case .success(.failure) = host else {
            Issue.record("\(host)")
            return
        }
    }

    @Test("a job's state is checked before the revision is compared")
    func states() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        let resumed: Result<JobRecord, StoreError> = wait {
            node.store.jobCommands.resume(id, tenant: "acme", revision: 9, reply: $0)
        }
        #expect(resumed == .failure(.invalidState(.queued)))
        let deleted: Result<JobRecord, StoreError> = wait {
            node.store.jobCommands.delete(id, tenant: "acme", revision: 9, reply: $0)
        }
        #expect(deleted == .failure(.invalidState(.queued)))
        let suspended: Result<JobRecord, StoreError> = wait {
            node.store.jobCommands.suspend(id, tenant: "acme", revision: 9, reply: $0)
        }
        #expect(suspended == .failure(.stale(revision: 1)))
    }
}

/// Compares errors only.
private func == (result: Result<JobRecord, StoreError>, other: Result<Never, StoreError>) -> Bool {
    switch (result, other) {
    case (.failure(let error), .failure(let expected)): error == expected
    case (.success, .failure): false
    }
}
