import Curl
import FerryCore
import Glibc
import Logging
import Sys
import TestSupport
import Testing

@testable import FerryEngine

/// A large body on its way to its file: on a disk that runs full meanwhile, or of an attempt that ends early.
@Suite struct LocalFileWriterTests {
    /// Files of a test: a destination, and the digest of its bytes once they have been written.
    private final class Setting {
        let place: StorageDirectory
        let destination: Destination
        let digests = Digests(JobSpec.Integrity())
        let fileThreads = FileThreadPool(threadCount: 1)
        let files: LocalFiles

        init(_ path: String) throws {
            place = try StorageDirectory.root(path, .own)
            let configuration = EngineConfiguration(
                storageRoot: { _ in path }, managedFilesDirectory: path, egress: EgressPolicy(),
                userAgent: "test")
            files = LocalFiles(configuration, fileThreads, objects: nil, Logger(label: "test"))
            destination = Destination(root: place, .namedFile(path: "file"), job: JobID(high: 1, low: 2))
        }

        private var record: PartialRecord {
            PartialRecord(identity: "i", source: "s", validator: .entityTag("\"a\""), total: 4 << 20)
        }

        private var plan: ContentPlan {
            ContentPlan(
                memoryLimit: 0, byteCountMax: nil, length: 2 << 20, expectedByteCount: 2 << 20,
                digests: digests, record: record, content: .alone)
        }

        private var setting: LocalFileWriter.Setting {
            LocalFileWriter.Setting(
                space: files.space, fileThreads: fileThreads, syncs: false,
                destination: { [destination] () throws(TransferError) in destination })
        }

        /// A MiB is in the file, and 100,000 bytes behind it wait in the stage.
        func begin() throws -> LocalFileWriter {
            let writer = try LocalFileWriter(plan, setting)
            writer.stage = WriteStage()
            try append(1 << 20, to: writer)
            try append(100_000, to: writer)
            return writer
        }

        /// Goes on from 2 MiB.
        func resume() throws -> LocalFileWriter {
            let file = try PartialFile(destination, in: place)
            try file.append(patternBytes(2 << 20))
            file.becomeResumable(record)
            return try LocalFileWriter(plan, setting, resuming: file, total: 4 << 20)
        }

        func append(_ count: Int, to writer: LocalFileWriter) throws {
            try patternBytes(count).withUnsafeBytes { try writer.append($0) }
        }
    }

    private static func with(_ body: (Setting) throws -> Void) throws {
        let place = try TemporaryDirectory.make("writer")
        defer { TemporaryDirectory.remove(place) }
        let setting = try Setting(place)
        defer { setting.fileThreads.stop() }
        try body(setting)
    }

    /// `body` gets the path of a file that takes all the room that there is, once it is filled.
    private static func onSmallDisk(_ body: (Setting, String) throws -> Void) throws {
        let above = try TemporaryDirectory.make("writer")
        defer { TemporaryDirectory.remove(above) }
        let disk = try SmallFileSystem(above + "/disk", byteCount: 4 << 20)
        defer { disk.remove() }
        let setting = try Setting(disk.path)
        defer { setting.fileThreads.stop() }
        try body(setting, disk.path + "/ballast")
    }

    private static func fill(_ path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let page = [UInt8](repeating: 0, count: 4_096)
        while write(descriptor, page, page.count) > 0 {}
    }

    @Test("staged bytes that cannot be written when the record is due end the attempt")
    func lost() throws {
        try Self.onSmallDisk { setting, ballast in
            let writer = try setting.begin()
            try Self.fill(ballast)
            #expect(throws: TransferError.self) { try writer.fileToRecord(EngineLimits.recordInterval) }
            // There is space again, and the caller continues all the same.
            unlink(ballast)
            try setting.append(100_000, to: writer)
            #expect(throws: TransferError.self) { try writer.checkEnd() }
        }
    }

    @Test("a record that is due covers all received bytes")
    func recorded() throws {
        try Self.with { setting in
            let writer = try setting.begin()
            #expect(try writer.fileToRecord(EngineLimits.recordInterval - 1) == nil)
            let file = try #require(try writer.fileToRecord(EngineLimits.recordInterval))
            #expect(file.byteCount == 1 << 20 + 100_000)
            #expect(try writer.fileToRecord(2 * EngineLimits.recordInterval) == nil, "nothing has come since")
        }
    }

    @Test("bytes that could not be written are not kept for a later attempt")
    func kept() throws {
        try Self.onSmallDisk { setting, ballast in
            let writer = try setting.begin()
            try Self.fill(ballast)
            let file = try #require(writer.keep())
            #expect(file.byteCount == 1 << 20)
            unlink(ballast)
            #expect(file.keep(syncs: false)?.partialDownload?.byteCount == 1 << 20)
        }
    }

    @Test("hashing stops when an attempt keeps or discards its bytes", arguments: [true, false])
    func stopped(isKept: Bool) throws {
        try Self.with { setting in
            let writer = try setting.resume()
            #expect(writer.digestFailure == nil)
            if isKept {
                #expect(writer.keep()?.byteCount == 2 << 20)
            } else {
                writer.discard()
            }
            #expect(writer.digestFailure != nil)
        }
    }

    @Test("hashing stops when a publication is revoked, and the stop is not waited for")
    func revoked() throws {
        try Self.with { setting in
            let (gate, kept) = (Gate(), Signal<Int64?>())
            let loop = try CurlLoop(name: "test-writer", keptConnections: 1)
            defer {
                gate.open()
                loop.stop()
            }
            setting.fileThreads.send(.run { _ = gate.pass() })
            let writer = try setting.resume()
            let publication = writer.publish { bytes in
                Publication(
                    Publication.Plan(
                        content: LocalFileContent(setting.destination, bytes, setting.files),
                        digests: setting.digests, verified: .length, isInline: false, syncs: false,
                        holdsLease: { true }, loop: loop, report: { _ in },
                        deliver: { _, outcome in
                            if case .revoked(let bytes) = outcome { kept.fire(bytes?.byteCount) }
                        }))
            }
            #expect(publication.revoke() && writer.digestFailure != nil)
            gate.open()
            #expect(kept.wait() == [2 << 20])
        }
    }
}
