import FerryCore
import Glibc
import Logging
import OpenSSL
import Synchronization
import Sys
import TestSupport
import Testing

@testable import FerryEngine

/// The file of a staged upload while its bytes arrive.
@Suite struct UploadWriterTests {
    private final class Setting: Sendable {
        let fileThreads = FileThreadPool(threadCount: 2)
        let uploads: StagedUploads
        let path: String
        let ready = Mailbox<Void>()
        let advanced = Mailbox<Int64>()

        init(_ path: String) {
            self.path = path
            var configuration = EngineConfiguration(
                storageRoot: { _ in path }, managedFilesDirectory: path, egress: EgressPolicy(),
                userAgent: "test")
            configuration.storageReserve = 0
            uploads = StagedUploads(
                path, fileThreads,
                LocalFiles(configuration, fileThreads, objects: nil, Logger(label: "test")), objects: nil)
        }

        func open(
            _ upload: UploadID, at offset: Int64 = 0, size: Int64? = nil, contentDigest: String? = nil,
            reprDigest: String? = nil
        ) throws -> any UploadFileWriter {
            let reply = Mailbox<Result<any UploadFileWriter, TransferError>>()
            uploads.open(
                upload, at: offset, size: size, contentDigest: contentDigest, reprDigest: reprDigest,
                events: UploadWriterEvents(
                    ready: { [ready] in ready.send(()) }, advanced: { [advanced] in advanced.send($0) })
            ) { reply.send($0) }
            return try #require(reply.wait(milliseconds: 60_000).first).get()
        }

        /// Writes all bytes, as a connection does that is suspended while none are taken. Returns the largest
        /// number of bytes that were taken without a pause.
        @discardableResult
        func write(_ bytes: [UInt8], to writer: any UploadFileWriter) -> Int {
            var (done, run, most) = (0, 0, 0)
            while done < bytes.count {
                let piece = bytes[done..<min(done + 32_768, bytes.count)]
                let count = piece.withUnsafeBytes { writer.take($0) }
                done += count
                run += count
                most = max(most, run)
                guard count < piece.count else { continue }
                run = 0
                _ = ready.wait(milliseconds: 60_000)
            }
            return most
        }

        func end(_ writer: any UploadFileWriter, _ end: UploadEnd) throws -> WrittenUpload {
            let reply = Mailbox<Result<WrittenUpload, TransferError>>()
            writer.end(end) { reply.send($0) }
            return try #require(reply.wait(milliseconds: 60_000).first).get()
        }

        func contents(_ upload: UploadID) throws -> [UInt8] {
            try readFile("\(path)/\(StagedUploads.path(for: upload))", byteCountMax: 1 << 30)
        }
    }

    private static let id = UploadID(high: 1, low: 2)

    private static func with(_ body: (Setting) throws -> Void) throws {
        let place = try TemporaryDirectory.make("uploads")
        defer { TemporaryDirectory.remove(place) }
        let setting = Setting(place)
        defer { setting.fileThreads.stop() }
        try body(setting)
    }

    @Test("bytes pass through two small buffers, and their SHA-256 is known at the end")
    func whole() throws {
        try Self.with { setting in
            let bytes = patternBytes(3_000_000)
            let writer = try setting.open(Self.id, size: 3_000_000)
            let writtenAtOnce = setting.write(bytes, to: writer)
            #expect(writtenAtOnce <= bytes.count)
            let written = try setting.end(writer, .complete)
            #expect(written.byteCount == 3_000_000 && written.sha256 == Digest.of(bytes))
            #expect(try setting.contents(Self.id) == bytes)
        }
    }

    @Test("at most two buffers are taken while no file thread writes")
    func bounded() throws {
        try Self.with { setting in
            let writer = try setting.open(Self.id)
            // Both file threads are busy until the test lets them go.
            let gates = [Mailbox<Never>(), Mailbox<Never>()]
            let started = Mailbox<Void>()
            for gate in gates {
                setting.fileThreads.send(
                    .run {
                        started.send(())
                        _ = gate.wait(milliseconds: -1)
                    })
            }
            var count = 0
            while count < 2 { count += started.wait(milliseconds: 60_000).count }
            let piece = patternBytes(65_536)
            var taken = 0
            for _ in 0..<64 { taken += piece.withUnsafeBytes { writer.take($0) } }
            #expect(taken <= Limits.uploadBufferByteCount)
            for gate in gates { gate.close() }
            _ = setting.ready.wait(milliseconds: 60_000)
            #expect(try setting.end(writer, .keep).byteCount == Int64(taken))
        }
    }

    @Test("a later request continues, cuts what is beyond its offset, and the digest covers all bytes")
    func continued() throws {
        try Self.with { setting in
            let bytes = patternBytes(1_000_000)
            let first = try setting.open(Self.id)
            setting.write(Array(bytes[..<700_000]), to: first)
            #expect(try setting.end(first, .keep).byteCount == 700_000)
            // The process has ended before the last bytes were acknowledged, and its digests are gone.
            setting.uploads.digests.forget(Self.id)
            let second = try setting.open(Self.id, at: 600_000, size: 1_000_000)
            setting.write(Array(bytes[600_000...]), to: second)
            #expect(try setting.end(second, .complete).sha256 == Digest.of(bytes))
            #expect(try setting.contents(Self.id) == bytes)
        }
    }

    @Test("an offset beyond the file is not continued")
    func missing() throws {
        try Self.with { setting in
            #expect(throws: TransferError.self) { try setting.open(Self.id, at: 1) }
            let writer = try setting.open(Self.id)
            setting.write([1, 2, 3], to: writer)
            _ = try setting.end(writer, .keep)
            #expect(throws: TransferError.self) { try setting.open(Self.id, at: 4) }
        }
    }

    @Test("bytes with another digest than announced are dropped, and the earlier ones stay")
    func wrongContent() throws {
        try Self.with { setting in
            let first = try setting.open(Self.id)
            setting.write([1, 2, 3], to: first)
            _ = try setting.end(first, .keep)
            let wrong = "sha=:\(Base64.encode(Digest.of([9], .sha1))):"
            let second = try setting.open(Self.id, at: 3, contentDigest: wrong)
            setting.write([4, 5], to: second)
            #expect(throws: TransferError.self) { try setting.end(second, .keep) }
            #expect(second.durableByteCount == 3)
            let right = "sha=:\(Base64.encode(Digest.of([4, 5], .sha1))):"
            let third = try setting.open(Self.id, at: 3, contentDigest: right)
            setting.write([4, 5], to: third)
            let written = try setting.end(third, .complete)
            #expect(written.sha256 == Digest.of([1, 2, 3, 4, 5]))
        }
    }

    @Test(
        "an upload with another digest than its Repr-Digest is not complete",
        arguments: [
            ("sha-256", Digest.Algorithm.sha256), ("sha-512", .sha512), ("sha", .sha1), ("md5", .md5),
        ])
    func wrongUpload(_ name: String, _ algorithm: Digest.Algorithm) throws {
        try Self.with { setting in
            let wrong = "\(name)=:\(Base64.encode(Digest.of([9], algorithm))):"
            let writer = try setting.open(Self.id, reprDigest: wrong)
            setting.write([1, 2, 3], to: writer)
            let error = #expect(throws: TransferError.self) { try setting.end(writer, .complete) }
            #expect(error?.code == .digestMismatch && error?.message.contains("The request names") == true)
        }
    }

    @Test("a Repr-Digest covers the bytes of all requests, also those of an earlier process")
    func digestOfAll() throws {
        try Self.with { setting in
            let bytes = patternBytes(500_000)
            let digest = "sha-512=:\(Base64.encode(Digest.of(bytes, .sha512))):"
            for isForgotten in [false, true] {
                let first = try setting.open(Self.id, reprDigest: digest)
                setting.write(Array(bytes[..<300_000]), to: first)
                _ = try setting.end(first, .keep)
                if isForgotten { setting.uploads.digests.forget(Self.id) }
                let second = try setting.open(Self.id, at: 300_000, reprDigest: digest)
                setting.write(Array(bytes[300_000...]), to: second)
                #expect(try setting.end(second, .complete).sha256 == Digest.of(bytes))
            }
            // The upload begins again with another digest.
            let first = try setting.open(Self.id, reprDigest: digest)
            _ = try setting.end(first, .keep)
            let other = "sha-512=:\(Base64.encode(Digest.of([1], .sha512))):"
            let second = try setting.open(Self.id, reprDigest: other)
            setting.write([1], to: second)
            #expect(try setting.end(second, .complete).byteCount == 1)
        }
    }

    @Test("a full disk ends an upload with storage_full, before it begins if the size is known")
    func full() throws {
        let above = try TemporaryDirectory.make("uploads")
        defer { TemporaryDirectory.remove(above) }
        let disk = try SmallFileSystem(above + "/disk", byteCount: 4 << 20)
        defer { disk.remove() }
        let setting = Setting(disk.path)
        defer { setting.fileThreads.stop() }
        #expect(throws: TransferError.self) { try setting.open(Self.id, size: 8 << 20) }
        let writer = try setting.open(Self.id)
        setting.write(patternBytes(8 << 20), to: writer)
        #expect(writer.failure?.code == .storageFull)
        #expect(throws: TransferError.self) { try setting.end(writer, .keep) }
        #expect(writer.durableByteCount <= 4 << 20)
    }

    /// A writer that has room again while it takes bytes, before it has told how many it takes.
    private final class EarlyWriter: UploadFileWriter {
        let taken = Mutex<[UInt8]>([])
        let turns = Mailbox<Void>()
        private let copy: UploadConcatenation

        init(of copy: UploadConcatenation) { self.copy = copy }

        var failure: TransferError? { nil }
        var durableByteCount: Int64 { Int64(taken.withLock { $0.count }) }
        func take(_ bytes: UnsafeRawBufferPointer) -> Int {
            turns.send(())
            let isFirst = taken.withLock { $0.isEmpty }
            let count = isFirst ? bytes.count / 2 : bytes.count
            taken.withLock { $0 += Array(bytes[..<count]) }
            if isFirst {
                _ = turns.wait(milliseconds: 0)
                copy.noteReady()
                // A turn that began now would take the same bytes again.
                _ = turns.wait(milliseconds: 100)
            }
            return count
        }
        func end(_ end: UploadEnd, reply: @escaping @Sendable (Result<WrittenUpload, TransferError>) -> Void)
        {
            reply(.success(WrittenUpload(byteCount: durableByteCount, sha256: nil)))
        }
    }

    @Test("a concatenation takes each byte once, also if its writer has room again while it takes some")
    func earlyRoom() throws {
        try Self.with { setting in
            let bytes = patternBytes(100_000)
            let part = try setting.open(Self.id)
            setting.write(bytes, to: part)
            _ = try setting.end(part, .complete)
            let reply = Mailbox<Result<WrittenUpload, TransferError>>()
            let copy = UploadConcatenation(
                [UploadPart(id: Self.id, byteCount: Int64(bytes.count))], below: setting.path,
                setting.fileThreads
            ) { reply.send($0) }
            let writer = EarlyWriter(of: copy)
            copy.begin(writer)
            _ = try #require(reply.wait(milliseconds: 60_000).first).get()
            #expect(writer.taken.withLock { $0 } == bytes)
        }
    }

    @Test("the files of complete uploads become another one")
    func concatenated() throws {
        try Self.with { setting in
            let bytes = patternBytes(3_000_000)
            var parts: [UploadPart] = []
            for (number, range) in [0..<1, 1..<2_000_000, 2_000_000..<3_000_000].enumerated() {
                let id = UploadID(high: 3, low: UInt64(number))
                let writer = try setting.open(id)
                setting.write(Array(bytes[range]), to: writer)
                _ = try setting.end(writer, .complete)
                parts.append(UploadPart(id: id, byteCount: Int64(range.count)))
            }
            let reply = Mailbox<Result<WrittenUpload, TransferError>>()
            setting.uploads.concatenate(parts, into: Self.id) { reply.send($0) }
            let written = try #require(reply.wait(milliseconds: 60_000).first).get()
            #expect(written.sha256 == Digest.of(bytes))
            #expect(try setting.contents(Self.id) == bytes)
        }
    }

    @Test("a sweep removes old files without an upload only")
    func sweep() throws {
        try Self.with { setting in
            let young = UploadID(high: .max, low: 1)
            let (known, unknown) = (UploadID(high: 5, low: 1), UploadID(high: 6, low: 1))
            for id in [young, known, unknown] {
                _ = try setting.end(try setting.open(id), .keep)
            }
            let sweep = UploadSweep(ask: { Set($0.filter { $0 == known }) }, isStopped: { false })
            let now = Timestamp(microseconds: Sys.wallMicroseconds())
            #expect(sweep.run(in: setting.path, madeBefore: now) == 1)
            #expect(throws: SystemError.self) { try setting.contents(unknown) }
            #expect(try setting.contents(known).isEmpty && setting.contents(young).isEmpty)
        }
    }
}
