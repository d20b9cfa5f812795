import FerryAPI
import FerryCore
import FerryEngine
import Glibc
import Logging
import OpenSSL
import Sys
import TestSupport
import Testing

@testable import FerryServer

private func sha256(_ bytes: [UInt8]) -> String { hexEncoded(Digest.of(bytes)) }

@Suite("Verification of changed files") struct ContentProofsTests {
    private static let byteCount = FileFingerprint.sliceByteCount + 1_000

    /// Writes a file whose last change is old enough that its stamp identifies its content.
    private static func settledFile(_ bytes: [UInt8], at path: String) throws {
        try writeFile(path, bytes)
        var status = stat()
        try #require(stat(path, &status) == 0)
        let changed = FileStamp(status).changed
        try #require(eventually { wallMicroseconds() * 1_000 > changed + 1_100_000_000 })
    }

    /// Opens a file as the result of a job that has published another file at its path.
    private static func opened(_ path: String) throws -> OpenedContent {
        let slash = try #require(path.lastIndex(of: "/"))
        let (directory, name) = (String(path[..<slash]), String(path[path.index(after: slash)...]))
        var status = stat()
        try #require(stat(path, &status) == 0)
        let configuration = EngineConfiguration(
            storageRoot: { _ in directory }, managedFilesDirectory: directory, egress: EgressPolicy(),
            userAgent: "test")
        let places = Places(configuration, logger: Logger(label: "test"))
        defer { _ = places.stop() }
        var result = TransferResult(
            location: .namedFile(path: name), size: Int64(status.st_size), sha256: "", verified: .length)
        result.file = FileIdentity(inode: 0, modified: 0)
        let now = Timestamp(microseconds: wallMicroseconds())
        var record = JobRecord(
            id: JobID(high: 1, low: 2), tenant: "a", state: .succeeded, waitingFor: nil, revision: 2,
            attempt: 1, failedAttemptCount: 0, node: nil, createdAt: now, startedAt: now, finishedAt: now,
            retryOf: nil, storedSpec: StoredSpec([]))
        record.storedResult = Stored(result)
        let opened = try places.open(
            try #require(JobContent(record)), at: .namedFile(path: name), of: record.id, tenant: "a")
        #expect(!opened.isKnown)
        return opened
    }

    private static func verify(
        _ verifier: ContentVerifier, _ path: String, _ digest: String, tenant: String = "a"
    ) throws -> Signal<Result<any OpenContent, StoreError>> {
        let answer = Signal<Result<any OpenContent, StoreError>>()
        let content = try opened(path)
        let request = ContentVerifier.Request(tenant: tenant, sha256: digest, content: content) {
            answer.fire($0)
        }
        verifier.verify(try #require(request))
        return answer
    }

    @Test("a stamp accepts all file times")
    func times() {
        var status = stat()
        let stamps = [Int.min, -11_644_473_600, 13_569_465_600, Int.max].map { second in
            status.st_mtim.tv_sec = second
            return FileStamp(status)
        }
        #expect(Set(stamps).count == 4)
    }

    /// Waits for the result and returns the content's bytes, or `nil` if the content is refused.
    private static func bytes(_ answer: Signal<Result<any OpenContent, StoreError>>) throws -> [UInt8]? {
        guard case .success(let content) = try #require(answer.wait().first) else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(content.byteCount) + 1)
        var done = 0
        while true {
            let read = bytes[done...].withUnsafeMutableBytes { content.read(into: $0, at: Int64(done)) }
            guard case .bytes(let count) = read, count > 0 else { break }
            done += count
        }
        return Array(bytes[..<done])
    }

    @Test("an unchanged file is read once for any number of requests")
    func once() throws {
        let place = try TemporaryDirectory.make("verifier")
        defer { TemporaryDirectory.remove(place) }
        let bytes = patternBytes(Self.byteCount)
        try Self.settledFile(bytes, at: place + "/file")
        let verifier = ContentVerifier()
        defer { verifier.stop() }
        let others = String(repeating: "0", count: 64)
        for round in 1...3 {
            let answers = try (1...5).map { number in
                try Self.verify(verifier, place + "/file", number % 2 == 1 ? sha256(bytes) : others)
            }
            for (number, answer) in zip(1..., answers) {
                let found = try Self.bytes(answer)
                let isRight = found == (number % 2 == 1 ? bytes : nil)
                #expect(isRight, "round \(round), request \(number)")
            }
            #expect(verifier.readByteCount == Int64(bytes.count), "round \(round)")
        }
        // A change of the file changes its stamp.
        try Self.settledFile(Array(bytes.reversed()), at: place + "/file")
        #expect(try Self.bytes(Self.verify(verifier, place + "/file", sha256(bytes))) == nil)
        #expect(verifier.readByteCount == 2 * Int64(bytes.count))
    }

    @Test("a file that replaces a verified one is not sent")
    func replacedAfterwards() throws {
        let place = try TemporaryDirectory.make("verifier")
        defer { TemporaryDirectory.remove(place) }
        let bytes = patternBytes(1_000, seed: 1)
        try Self.settledFile(bytes, at: place + "/file")
        let verifier = ContentVerifier()
        defer { verifier.stop() }
        let answer = try Self.verify(verifier, place + "/file", sha256(bytes))
        #expect(eventually { verifier.readByteCount == 1_000 })
        try writeFile(place + "/other", patternBytes(1_000, seed: 2))
        try #require(rename(place + "/other", place + "/file") == 0)
        #expect(try Self.bytes(answer) == bytes)
        #expect(try Self.bytes(Self.verify(verifier, place + "/file", sha256(bytes))) == nil)
    }

    @Test("a file that changes while it is read is not verified")
    func changing() throws {
        let place = try TemporaryDirectory.make("verifier")
        defer { TemporaryDirectory.remove(place) }
        try Self.settledFile(patternBytes(Self.byteCount), at: place + "/file")
        for changes in [false, true] {
            let descriptor = open(place + "/file", O_RDWR | O_CLOEXEC)
            defer { close(descriptor) }
            let fingerprint = FileFingerprint(try #require(FileStamp(descriptor)), descriptor)
            #expect(fingerprint.step() == .more)
            // Changes a byte that was already read.
            if changes { #expect(pwrite(descriptor, "x", 1, 0) == 1) }
            let step = fingerprint.step()
            if changes {
                #expect(step == .failed)
            } else {
                #expect(step == .digest(sha256(patternBytes(Self.byteCount)), isStable: true))
            }
        }
    }

    @Test("the digest of a file changed within the last second is not remembered")
    func fresh() throws {
        let place = try TemporaryDirectory.make("verifier")
        defer { TemporaryDirectory.remove(place) }
        let bytes = patternBytes(10)
        try Self.settledFile(bytes, at: place + "/file")
        let descriptor = open(place + "/file", O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        let stamp = try #require(FileStamp(descriptor))
        let digest = sha256(bytes)
        for (clock, isStable) in [
            (stamp.changed + 999_999_999, false), (stamp.changed + 1_000_000_001, true),
        ] {
            #expect(
                FileFingerprint(stamp, descriptor, now: clock).step() == .digest(digest, isStable: isStable))
        }
    }

    @Test("tenants do not wait for files of others, and too many requests of one are refused")
    func tenants() throws {
        let place = try TemporaryDirectory.make("verifier")
        defer { TemporaryDirectory.remove(place) }
        // Sparse files: they use no disk space and take long to read.
        for number in 1...3 {
            try writeFile(place + "/large\(number)", [])
            try #require(truncate(place + "/large\(number)", 64 << 30) == 0)
        }
        let bytes = patternBytes(100)
        try writeFile(place + "/small", bytes)
        let verifier = ContentVerifier()
        let large = try (0..<ContentVerifier.tenantCountMax).map {
            try Self.verify(verifier, place + "/large\($0 % 3 + 1)", sha256(bytes))
        }
        let refused = try Self.verify(verifier, place + "/small", sha256(bytes)).wait().first
        guard case .failure(.overloaded)? = refused else {
            Issue.record("\(String(describing: refused))")
            return
        }
        #expect(try Self.bytes(Self.verify(verifier, place + "/small", sha256(bytes), tenant: "b")) == bytes)
        #expect(large.allSatisfy { $0.wait(for: 1, seconds: 0).isEmpty })
        // `stop()` does not wait for files that are being read.
        verifier.stop()
        for answer in large {
            guard case .failure(.unavailable)? = answer.wait().first else {
                Issue.record("not refused")
                continue
            }
        }
    }
}
