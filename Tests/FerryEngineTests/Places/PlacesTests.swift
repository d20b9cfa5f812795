import FerryCore
import Glibc
import TestSupport
import Testing

@testable import FerryEngine

@Suite("Finished contents at their places") struct PlacesTests {
    private static let bytes = patternBytes(1_000)

    /// Opens what a job of the fixture has left.
    private func open(_ job: JobID, _ fixture: Fixture) throws -> OpenedContent {
        let found = Signal<Result<JobRecord, StoreError>>()
        fixture.jobs.job(job, tenant: "tenant") { found.fire($0) }
        let record = try #require(found.wait().first).get()
        let content = try #require(JobContent(record))
        guard case .stored(let location) = content.place else { throw StoreError.notFound }
        return try fixture.places.open(content, at: location, of: job, tenant: "tenant")
    }

    private func read(_ content: OpenedContent) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 2_000)
        let read = bytes.withUnsafeMutableBytes { content.readBytes(into: $0, at: 0) }
        guard case .bytes(let count) = read else { return [] }
        return Array(bytes[..<count])
    }

    private func result(_ location: ContentLocation, size: Int64 = 1_000) -> TransferResult {
        TransferResult(location: location, size: size, sha256: sha256(Self.bytes), verified: .length)
    }

    @Test("a managed content is known by its name, and is gone after its removal")
    func managed() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let job = fixture.addJob(result(.managedFile))
        let path = "\(fixture.directory)/results/\(ManagedFiles.path(for: job))"
        let directory = fixture.directory + "/results"
        for made in [directory, directory + "/" + path.dropFirst(directory.count + 1).prefix(2)] {
            try #require(mkdir(made, 0o755) == 0)
        }
        try writeFile(path, Self.bytes)
        let content = try open(job, fixture)
        #expect(content.isKnown && content.byteCount == 1_000 && read(content) == Self.bytes)
        fixture.places.removeContent(of: job, at: .managedFile)
        #expect(eventually { access(path, F_OK) != 0 })
        #expect(throws: TransferError.self) { try open(job, fixture) }
        // What was opened before is still there.
        #expect(read(content) == Self.bytes)
    }

    @Test("a file at the location of another one is not known, and one of another size is refused")
    func replaced() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        try writeFile(fixture.root + "/a", Self.bytes)
        var status = stat()
        try #require(stat(fixture.root + "/a", &status) == 0)
        var published = result(.namedFile(path: "a"))
        published.file = FileIdentity(status)
        #expect(try open(fixture.addJob(published), fixture).isKnown)
        published.file = FileIdentity(inode: 0, modified: 0)
        #expect(try !open(fixture.addJob(published), fixture).isKnown)
        published.file = nil
        #expect(try !open(fixture.addJob(published), fixture).isKnown)
        let other = fixture.addJob(result(.namedFile(path: "a"), size: 999))
        let error = #expect(throws: TransferError.self) { try open(other, fixture) }
        #expect(error?.code == .sourceChanged)
    }

    @Test("reading makes no directory")
    func missingRoot() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        try #require(rmdir(fixture.root) == 0)
        let job = fixture.addJob(result(.namedFile(path: "a")))
        let error = #expect(throws: TransferError.self) { try open(job, fixture) }
        #expect(error?.code == .sourceNotFound)
        #expect(access(fixture.root, F_OK) != 0)
    }
}
