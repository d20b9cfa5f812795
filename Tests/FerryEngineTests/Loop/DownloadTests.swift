import FerryCore
import FerryEngine
import Glibc
import OpenSSL
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

func sha256(_ bytes: [UInt8]) -> String {
    Digest.of(bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

@Suite(.serialized, .onOwnThread) struct DownloadTests {
    private static func with(_ body: (Nginx, Fixture) throws -> Void) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(nginx, fixture)
        // File threads remove what is thrown away.
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }

    @Test(
        "a file of any size arrives complete under its name, with its digest",
        arguments: [0, 1, 16_384, 16_385, 300_000, 20_000_000])
    func sizes(size: Int) throws {
        try Self.with { nginx, fixture in
            let bytes = patternBytes(size)
            try nginx.serve("file", bytes)
            let result = try #require(fixture.run(.download, nginx.url + "/file") { $0.to("a/b/c.bin") })
            let success = try #require(result.success)
            #expect(success.location?.path == "a/b/c.bin")
            #expect(success.size == Int64(size))
            #expect(success.sha256 == sha256(bytes))
            #expect(success.verified == .length)
            #expect(readFile(fixture.root + "/a/b/c.bin") == bytes)
            #expect(result.bytesReceived == Int64(size))
            #expect(result.response?.status == 200)
            #expect(result.response?.suggestedFilename == "file")
            #expect(fixture.engine.snapshot.live == 0)
        }
    }

    @Test("without a destination the file becomes a managed file")
    func kept() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", [1, 2, 3])
            let attempt = fixture.attempt(.download, nginx.url + "/file")
            fixture.engine.begin([attempt])
            let success = try #require(fixture.sink.arrived.wait().first?.success)
            #expect(success.location == .managedFile)
            #expect(
                readFile(fixture.directory + "/results/" + ManagedFiles.path(for: attempt.job)) == [1, 2, 3])
        }
    }

    @Test("an existing file is replaced, kept, or the new one renamed, as if_exists says")
    func ifExists() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", [7])
            try writeFile(fixture.root + "/a.txt", [1])
            let replaced = fixture.run(.download, nginx.url + "/file") { $0.to("a.txt", .replace) }
            #expect(replaced?.success?.location?.path == "a.txt")
            #expect(readFile(fixture.root + "/a.txt") == [7])
            try writeFile(fixture.root + "/a.txt", [1])
            let failed = fixture.run(.download, nginx.url + "/file") { $0.to("a.txt", .fail) }
            #expect(failed?.failure?.code == .destinationExists)
            #expect(failed?.failure?.isRetryable == false)
            #expect(readFile(fixture.root + "/a.txt") == [1])
            let attempts = (0..<2).map { _ in
                fixture.attempt(.download, nginx.url + "/file") { $0.to("a.txt", .rename) }
            }
            fixture.engine.begin(attempts)
            let paths = fixture.sink.arrived.wait(for: 2).compactMap { $0.success?.location?.path }
            #expect(Set(paths) == ["a-1.txt", "a-2.txt"])
            fixture.engine.removePartialFiles(of: attempts.map(\.job))
            #expect(eventually { fixture.files() == ["tenant/a.txt", "tenant/a-1.txt", "tenant/a-2.txt"] })
        }
    }

    @Test("a file published before the node died is recognised by the next attempt and fetched again")
    func takenBack() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", [7])
            let first = fixture.attempt(.download, nginx.url + "/file") { $0.to("a.txt", .fail) }
            fixture.engine.begin([first])
            #expect(fixture.sink.arrived.wait().first?.success != nil)
            // No `settled`: the commit never came.
            try nginx.serve("file", [8])
            let second = fixture.run(.download, nginx.url + "/file", job: first.job, number: 2) {
                $0.to("a.txt", .fail)
            }
            #expect(second?.success?.location?.path == "a.txt")
            #expect(readFile(fixture.root + "/a.txt") == [8])
            fixture.engine.removePartialFiles(of: [first.job])
            #expect(eventually { fixture.files() == ["tenant/a.txt"] })
        }
    }

    @Test("a file that cannot be stored is reported before a request is sent")
    func doomed() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            // The body of `/x` does not come.
            let length = request.path == "/x" ? 1_000_000 : 1
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nx".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        mkdir(fixture.root + "/dir", 0o755)
        try writeFile(fixture.root + "/file", [1])
        let cases: [(String, JobSpec.Destination.IfExists, TransferError.Code)] = [
            ("file", .fail, .destinationExists), ("dir", .fail, .destinationExists),
            ("dir", .replace, .destinationInvalid), ("file/a", .replace, .destinationInvalid),
            ("file/a/b", .rename, .destinationInvalid), ("file/a/", .rename, .destinationInvalid),
            (String(repeating: "n", count: 256) + "/a", .replace, .destinationInvalid),
        ]
        for (path, ifExists, code) in cases {
            for number: Int32 in [1, 2] {
                let attempt = fixture.attempt(.download, origin.url + "/x", number: number) {
                    $0.to(path, ifExists)
                }
                fixture.engine.begin([attempt])
                let failure = fixture.sink.arrived.wait().first?.failure
                #expect(failure?.code == code && failure?.isRetryable == false, "\(path) \(number)")
            }
        }
        #expect(origin.requests.isEmpty)
        #expect(fixture.files().sorted() == ["tenant/file"])
        // Only the response suggests this name.
        mkdir(fixture.root + "/taken", 0o755)
        try writeFile(fixture.root + "/taken/x", [1])
        for segments in [1, 2] {
            let suggested = fixture.run(.download, origin.url + "/x") {
                $0.to("taken/", .fail)
                $0.spec.segmentCountMax = segments
            }
            #expect(suggested?.failure?.code == .destinationExists, "\(segments)")
        }
        for (path, ifExists) in [
            ("file", JobSpec.Destination.IfExists.rename), ("new/sub/a", .fail), ("file", .replace),
        ] {
            #expect(fixture.run(.download, origin.url) { $0.to(path, ifExists) }?.success != nil, "\(path)")
        }
    }

    @Test("partial files of earlier attempts are removed; those of other jobs stay")
    func keptPartialFiles() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try nginx.serve("file", [7])
        let attempt = fixture.attempt(.download, nginx.url + "/file", number: 3) { $0.to("a.txt") }
        try writeFile(fixture.root + "/.ferry-\(attempt.job)-1.part", [1])
        try writeFile(fixture.root + "/.ferry-job_other-1.part", [1])
        fixture.engine.begin([attempt])
        #expect(fixture.sink.arrived.wait().first?.success != nil)
        #expect(eventually { fixture.files() == ["tenant/a.txt", "tenant/.ferry-job_other-1.part"] })
    }

    @Test("a wrong size or digest leaves no file and is retried; the right one verifies the file")
    func integrity() throws {
        try Self.with { nginx, fixture in
            let bytes = patternBytes(2_000_000)
            try nginx.serve("file", bytes)
            for size in [10, 2_000_000] {
                try nginx.serve("file", Array(bytes.prefix(size)))
                let digest = fixture.run(.download, nginx.url + "/file") {
                    $0.to("x")
                    $0.spec.integrity.md5 = String(repeating: "0", count: 32)
                }
                #expect(digest?.failure?.code == .digestMismatch)
                #expect(digest?.failure?.isRetryable == true)
                let length = fixture.run(.download, nginx.url + "/file") {
                    $0.to("x")
                    $0.spec.integrity.size = Int64(size + 1)
                }
                #expect(length?.failure?.code == .sizeMismatch && length?.failure?.phase == .waiting)
                #expect(length?.failure?.isRetryable == true && length?.trace?.transactions.count == 1)
                #expect(eventually { fixture.files().isEmpty })
            }
            let good = fixture.run(.download, nginx.url + "/file") {
                $0.to("x")
                $0.spec.integrity.sha256 = sha256(bytes)
                $0.spec.integrity.size = 2_000_000
            }
            #expect(good?.success?.verified == .digest)
        }
    }

    @Test(
        "no path leads out of the root, and no file replaces a directory",
        arguments: ["out/ferry-escaped", "dir", "file/ferry-escaped"])
    func escapes(path: String) throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", [7])
            symlink("/tmp", fixture.root + "/out")
            mkdir(fixture.root + "/dir", 0o755)
            try writeFile(fixture.root + "/file", [1])
            let result = fixture.run(.download, nginx.url + "/file") { $0.to(path) }
            #expect(result?.failure?.code == .destinationInvalid)
            #expect(result?.failure?.isRetryable == false)
            #expect(access("/tmp/ferry-escaped", F_OK) != 0)
        }
    }

    @Test("a symbolic link at the final name is replaced, not followed")
    func finalLink() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", [7])
            try writeFile(fixture.directory + "/outside", [1])
            symlink("../outside", fixture.root + "/link")
            #expect(fixture.run(.download, nginx.url + "/file") { $0.to("link") }?.success != nil)
            #expect(readFile(fixture.directory + "/outside") == [1])
            #expect(readFile(fixture.root + "/link") == [7])
        }
    }

    @Test("a node without the lease publishes no file")
    func lostLease() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", patternBytes(300_000))
            fixture.lease.isHeld.store(false, ordering: .relaxed)
            let result = try #require(fixture.run(.download, nginx.url + "/file") { $0.to("a.txt") })
            #expect(result.failure?.code == .nodeLost)
            #expect(!fixture.files().isEmpty && fixture.files().allSatisfy { $0.contains(".part") })
            // Whoever holds the lease has finished the job.
            fixture.engine.removePartialFiles(of: [result.attempt.job])
        }
    }

    @Test("a full disk is storage_full and leaves no file")
    func full() throws {
        let place = try TemporaryDirectory.make("full")
        defer { TemporaryDirectory.remove(place) }
        guard mount("tmpfs", place, "tmpfs", 0, "size=1m") == 0 else { return }
        defer { umount2(place, Int32(MNT_DETACH)) }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(3_000_000))
        let fixture = try Fixture(at: place)
        defer { fixture.engine.stop() }
        let result = fixture.run(.download, nginx.url + "/file") { $0.to("a.txt") }
        #expect(result?.failure?.code == .storageFull)
        #expect(result?.failure?.isRetryable == false, "it would never fit")
        #expect(eventually { fixture.files().isEmpty })
    }

    @Test("a response that the job does not accept is refused at its head, or when it becomes too long")
    func acceptance() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("a.png", patternBytes(100_000))
            let type = fixture.run(.download, nginx.url + "/a.png") {
                $0.spec.accept.contentTypes = ["text/*"]
            }
            #expect(type?.failure?.code == .unacceptableContentType)
            let size = fixture.run(.download, nginx.url + "/a.png") { $0.spec.accept.byteCountMax = 99_999 }
            #expect(size?.failure?.code == .responseTooLarge)
            let good = fixture.run(.download, nginx.url + "/a.png") {
                $0.spec.accept.contentTypes = ["image/*"]
                $0.spec.accept.byteCountMax = 100_000
            }
            #expect(good?.success != nil)
            let status = fixture.run(.download, nginx.url + "/status/404") { $0.spec.accept.status = ["404"] }
            #expect(status?.success?.size == 2)
        }
    }

    @Test("an address that the egress policy forbids is not connected, and the error does not name it")
    func blocked() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture(allowsLoopback: false)
        defer { fixture.stop() }
        let error = try #require(fixture.run(.download, nginx.url + "/file")?.failure)
        #expect(error.code == .blockedAddress)
        #expect(!error.isRetryable && !error.message.contains("127"))
    }

    @Test("cancelling ends the transfer at once and leaves no file")
    func cancel() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", patternBytes(1_000_000))
            let attempt = fixture.attempt(.download, nginx.url + "/slow/file") { $0.to("a.txt") }
            fixture.engine.begin([attempt])
            #expect(eventually { (fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0) > 0 })
            fixture.engine.cancel(attempt.job)
            // By itself it would run for minutes.
            #expect(try #require(fixture.sink.arrived.wait().first).isCancelled)
            #expect(fixture.engine.progress(of: attempt.job) == nil)
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    @Test("a drain lets attempts finish within its time and releases the others")
    func drain() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", patternBytes(1_000_000))
            fixture.engine.begin([fixture.attempt(.download, nginx.url + "/slow/file")])
            fixture.engine.drain(seconds: 0.1)
            let result = try #require(fixture.sink.arrived.wait().first)
            #expect(result.isReleased)
            fixture.engine.removePartialFiles(of: [result.attempt.job])
            #expect(try #require(fixture.run(.download, nginx.url + "/file")).isReleased)
        }
    }

    @Test("a job's own limit in bytes per second is kept")
    func speed() throws {
        try Self.with { nginx, fixture in
            try nginx.serve("file", patternBytes(600_000))
            let began = monotonicNanoseconds()
            let result = fixture.run(.download, nginx.url + "/file") { $0.spec.bytesPerSecondMax = 500_000 }
            #expect(result?.success?.size == 600_000)
            #expect(monotonicNanoseconds() - began > 500_000_000)
        }
    }
}
