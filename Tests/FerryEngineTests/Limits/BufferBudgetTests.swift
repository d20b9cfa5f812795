import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import Testing

@testable import FerryEngine

/// Bodies of some hundred KiB are written at once, unless they are slow.
@Suite struct BufferBudgetTests {
    private static let bytes = patternBytes(100_000)

    /// Sends half of the body, then waits for `goesOn`; what comes later is what is left.
    private static func origin(_ goesOn: Signal<Void>) throws -> ScriptedOrigin {
        let half = bytes.count / 2
        return try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let tag = "ETag: \"one\"\r\n"
                if request.header("range") == "bytes=\(half)-" {
                    connection.send(
                        "HTTP/1.1 206 Partial Content\r\n\(tag)Content-Length: \(half)\r\n"
                            + "Content-Range: bytes \(half)-\(bytes.count - 1)/\(bytes.count)\r\n\r\n")
                    connection.send(Array(bytes[half...]))
                    continue
                }
                connection.send("HTTP/1.1 200 OK\r\n\(tag)Content-Length: \(bytes.count)\r\n\r\n")
                connection.send(Array(bytes[..<half]))
                guard request.path != "/cut" else { return }
                _ = goesOn.wait(for: 1)
                connection.send(Array(bytes[half...]))
            }
        }
    }

    private static func with(_ body: (ScriptedOrigin, Fixture, Signal<Void>) throws -> Void) throws {
        let goesOn = Signal<Void>()
        let origin = try origin(goesOn)
        defer { origin.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(origin, fixture, goesOn)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } }, "\(fixture.files())")
    }

    @Test("a slow body moves from memory to its file and arrives completely")
    func slow() throws {
        try Self.with { origin, fixture, goesOn in
            fixture.engine.begin([fixture.attempt(.download, origin.url + "/slow") { $0.to("a") }])
            #expect(
                eventually {
                    fixture.files().first { $0.hasSuffix(".part") }
                        .flatMap { readFile(fixture.directory + "/" + $0) } == Array(Self.bytes[..<50_000])
                })
            goesOn.fire(())
            let result = try #require(fixture.sink.arrived.wait(for: 1).first)
            #expect(result.success?.sha256 == sha256(Self.bytes))
            #expect(readFile(fixture.root + "/a") == Self.bytes)
        }
    }

    @Test("a slow data job moves to a file; its result has the bytes, and no file remains")
    func slowData() throws {
        try Self.with { origin, fixture, goesOn in
            fixture.engine.begin([fixture.attempt(.data, origin.url + "/slow")])
            #expect(
                eventually {
                    fixture.files().first { $0.hasSuffix(".part") }
                        .flatMap { readFile(fixture.directory + "/" + $0) } == Array(Self.bytes[..<50_000])
                })
            goesOn.fire(())
            let success = try #require(fixture.sink.arrived.wait(for: 1).first?.success)
            #expect(success.body == Self.bytes && success.sha256 == sha256(Self.bytes))
            #expect(success.size == Self.bytes.count && success.location == nil)
            #expect(eventually { fixture.files().isEmpty }, "\(fixture.files())")
        }
    }

    @Test("bytes that had gathered in memory when the connection broke are not fetched again")
    func cut() throws {
        try Self.with { origin, fixture, _ in
            let result = fixture.run(.download, origin.url + "/cut") { $0.to("a") }
            #expect(result?.success?.sha256 == sha256(Self.bytes))
            #expect(origin.requests.map { $0.header("range") } == [nil, "bytes=50000-"])
            #expect(readFile(fixture.root + "/a") == Self.bytes)
        }
    }

    private static let fileThreads = FileThreadPool(threadCount: 1)

    /// Nobody else holds the claim.
    private static func writer(
        _ gathering: consuming Gathering, expected: Int64?,
        _ destination: @escaping () throws(TransferError) -> Destination
    ) throws -> LocalFileWriter {
        try LocalFileWriter(
            ContentPlan(
                memoryLimit: 100, gathering: gathering, byteCountMax: nil, length: expected,
                expectedByteCount: 100, digests: Digests(JobSpec.Integrity()), record: nil, content: .alone),
            LocalFileWriter.Setting(
                space: StorageSpace(reserve: 0, watched: [], admission: DownloadAdmission()),
                fileThreads: fileThreads, syncs: false, destination: destination))
    }

    /// Of a data job: 20 bytes need no room.
    private static func staying(_ budget: BufferBudget) throws -> Gathering {
        Gathering(
            claim: try #require(budget.claim(0)), since: 0, stayingByteCount: 20, needsNoFile: true)
    }

    private static func append(_ count: Int, to writer: LocalFileWriter) throws {
        try [UInt8](repeating: 7, count: count).withUnsafeBytes { try writer.append($0) }
    }

    private static func destination(_ fixture: Fixture) throws -> Destination {
        Destination(
            root: try StorageDirectory.root(fixture.root, .own), .namedFile(path: "a"),
            of: fixture.attempt(.download, "http://a.example/"))
    }

    @Test("a body of unknown length reserves memory as it grows, and moves to its file if none is free")
    func grows() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let budget = BufferBudget(byteCount: 50)
        let destination = try Self.destination(fixture)
        let writer = try Self.writer(try Self.staying(budget), expected: nil) { () throws(TransferError) in
            destination
        }
        try Self.append(20, to: writer)
        try writer.secondPassed(EngineLimits.gatheringMax)
        #expect(writer.inMemory?.count == 20 && budget.claim(50) != nil, "so few stay")
        try Self.append(20, to: writer)
        #expect(writer.inMemory?.count == 40 && budget.claim(11) == nil && budget.claim(10) != nil)
        try Self.append(20, to: writer)
        #expect(writer.inMemory == nil && budget.claim(50) != nil)
        #expect(fixture.files() == ["tenant/" + destination.partialName])
        #expect(readFile(fixture.root + "/" + destination.partialName) == [UInt8](repeating: 7, count: 60))
    }

    @Test("a data job's body stays in memory if no file can be made")
    func stays() throws {
        let budget = BufferBudget(byteCount: 50)
        let writer = try Self.writer(try Self.staying(budget), expected: nil) { () throws(TransferError) in
            throw storageError(ENOSPC)
        }
        try Self.append(40, to: writer)
        try writer.secondPassed(EngineLimits.gatheringMax)
        try Self.append(60, to: writer)
        #expect(writer.inMemory == [UInt8](repeating: 7, count: 100))
        #expect(throws: TransferError.self, "too much for that") { try Self.append(1, to: writer) }
    }

    @Test("a body that moved to its file frees its memory for others")
    func letsGo() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let budget = BufferBudget(byteCount: 100)
        let destination = try Self.destination(fixture)
        let writer = try Self.writer(
            Gathering(claim: try #require(budget.claim(100)), since: 0), expected: 100
        ) { () throws(TransferError) in destination }
        try Self.append(50, to: writer)
        try writer.secondPassed(EngineLimits.gatheringMax - 1)
        #expect(fixture.files().isEmpty && budget.claim(1) == nil)
        try writer.secondPassed(EngineLimits.gatheringMax)
        #expect(fixture.files() == ["tenant/" + destination.partialName] && budget.claim(100) != nil)
        withExtendedLifetime(writer) {}
    }

    @Test("the budget grants its bytes and no more, until a reservation is released")
    func budget() {
        let budget = BufferBudget(byteCount: 100)
        var first = budget.claim(60)
        #expect(first != nil && budget.claim(60) == nil)
        let second = budget.claim(40)
        #expect(second != nil && budget.claim(1) == nil)
        first = nil
        #expect(budget.claim(61) == nil && budget.claim(60) != nil)
        withExtendedLifetime(second) {}
    }
}
