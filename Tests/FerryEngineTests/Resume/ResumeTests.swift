import FerryCore
import Glibc
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite(.serialized, .onOwnThread) struct ResumeTests {
    private static let size = 3_000_000
    private static let bytes = patternBytes(size)

    /// Serves `bytes` with an entity tag. Answers stop after `cut` bytes of body as often as the list is
    /// long.
    private static func origin(cuts: [Int], tag: String = #""one""#) throws -> ScriptedOrigin {
        let left = Cuts(cuts)
        return try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let start = request.header("range").flatMap { Int($0.dropFirst(6).dropLast()) }
                let isSame = request.header("if-range").map { $0 == tag } ?? true
                let first = isSame ? start ?? 0 : 0
                let status = isSame && start != nil ? "206 Partial Content" : "200 OK"
                let range =
                    isSame && start != nil ? "Content-Range: bytes \(first)-\(size - 1)/\(size)\r\n" : ""
                let length = "Content-Length: \(size - first)\r\n"
                guard connection.send("HTTP/1.1 \(status)\r\nETag: \(tag)\r\n\(range)\(length)\r\n") else {
                    return
                }
                if let cut = left.next() {
                    connection.send(Array(bytes[first..<min(first + cut, size)]))
                    return
                }
                guard connection.send(Array(bytes[first...])) else { return }
            }
        }
    }

    private static func with(
        cuts: [Int], tag: String = #""one""#, _ change: (inout EngineConfiguration) -> Void = { _ in },
        _ body: (ScriptedOrigin, Fixture) throws -> Void
    ) throws {
        let origin = try origin(cuts: cuts, tag: tag)
        defer { origin.stop() }
        let fixture = try Fixture(change)
        defer { fixture.stop() }
        try body(origin, fixture)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } }, "\(fixture.files())")
    }

    private static func ranges(_ origin: ScriptedOrigin) -> [String?] {
        origin.requests.map { $0.header("range") }
    }

    @Test("an attempt continues as long as new bytes come, and the next one after it; the digest is of all")
    func goesOn() throws {
        try Self.with(cuts: [1_200_000, 700_000, 0]) { origin, fixture in
            let first = fixture.run(.download, origin.url + "/f") { $0.to("d/f") }
            #expect(first?.failure?.code == .incompleteBody && first?.failure?.cost == .reset)
            #expect(first?.partialDownload == PartialDownload(byteCount: 1_900_000, total: Int64(Self.size)))
            #expect(fixture.files().count == 2, "the partial and its record: \(fixture.files())")
            let last = fixture.run(.download, origin.url + "/f", job: first?.attempt.job, number: 2) {
                $0.to("d/f")
            }
            #expect(last?.success?.size == Int64(Self.size))
            #expect(last?.success?.sha256 == sha256(Self.bytes))
            #expect(last?.bytesReceived == Int64(Self.size))
            #expect(readFile(fixture.root + "/d/f") == Self.bytes)
            #expect(
                Self.ranges(origin) == [nil, "bytes=1200000-", "bytes=1900000-", "bytes=1900000-"])
            #expect(origin.requests.dropFirst().allSatisfy { $0.header("if-range") == #""one""# })
        }
    }

    @Test(
        "If-Range has the octets of the entity tag, within an attempt and in the next one",
        arguments: [[0xC3, 0xA9], [0xE9], [0x80, 0xFF]] as [[UInt8]])
    func tagOctets(word: [UInt8]) throws {
        let tag = [0x22] + word + [0x22]
        let left = Cuts([1_200_000, 700_000, 0])
        let size = Self.size
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let start = request.header("range").flatMap { Int($0.dropFirst(6).dropLast()) }
                let isSame = request.octets("if-range") == tag
                let first = isSame ? start ?? 0 : 0
                let status = isSame ? "206 Partial Content" : "200 OK"
                let range = isSame ? "Content-Range: bytes \(first)-\(size - 1)/\(size)\r\n" : ""
                let head = "HTTP/1.1 \(status)\r\n\(range)Content-Length: \(size - first)\r\nETag: "
                guard connection.send(Array(head.utf8) + tag + Array("\r\n\r\n".utf8)) else { return }
                guard let cut = left.next() else {
                    guard connection.send(Array(Self.bytes[first...])) else { return }
                    continue
                }
                connection.send(Array(Self.bytes[first..<min(first + cut, size)]))
                return
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let first = fixture.run(.download, origin.url + "/f") { $0.to("d/f") }
        #expect(first?.partialDownload == PartialDownload(byteCount: 1_900_000, total: Int64(size)))
        let last = fixture.run(.download, origin.url + "/f", job: first?.attempt.job, number: 2) {
            $0.to("d/f")
        }
        #expect(last?.success?.sha256 == sha256(Self.bytes))
        #expect(Self.ranges(origin) == [nil, "bytes=1200000-", "bytes=1900000-", "bytes=1900000-"])
        #expect(origin.requests.dropFirst().allSatisfy { $0.octets("if-range") == tag })
    }

    @Test("nginx continues the same file; one that was replaced meanwhile is fetched again")
    func nginx() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("f", Self.bytes)
        for isReplaced in [false, true] {
            let fixture = try Fixture()
            defer { TemporaryDirectory.remove(fixture.directory) }
            let attempt = fixture.attempt(.download, nginx.url + "/f") {
                $0.to("f")
                // A minute for the whole.
                $0.spec.bytesPerSecondMax = 50_000
            }
            fixture.engine.begin([attempt])
            #expect(eventually { (fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0) > 25_000 })
            // The service ends during the transfer; the next process resumes.
            fixture.engine.stop()
            #expect(fixture.sink.arrived.wait().first?.isReleased == true)
            let held = try #require(partial(fixture).flatMap { readFile($0) })
            #expect(held.count > 25_000 && held == Array(Self.bytes.prefix(held.count)))
            let served = isReplaced ? patternBytes(Self.size, seed: 9) : Self.bytes
            if isReplaced {
                try nginx.serve("f", served)
                var times = [timespec](repeating: timespec(tv_sec: 1_000_000_000, tv_nsec: 0), count: 2)
                utimensat(AT_FDCWD, nginx.root + "/f", &times, 0)
            }
            let again = try Fixture(at: fixture.directory)
            defer { again.engine.stop() }
            let result = again.run(.download, nginx.url + "/f", job: attempt.job, number: 2) { $0.to("f") }
            #expect(result?.response?.status == (isReplaced ? 200 : 206))
            #expect(result?.success?.sha256 == sha256(served))
            #expect(readFile(fixture.root + "/f") == served)
            #expect(eventually { fixture.files() == ["tenant/f"] })
        }
    }

    private func partial(_ fixture: Fixture) -> String? {
        fixture.files().first { $0.hasSuffix(".part") }.map { fixture.directory + "/" + $0 }
    }

    @Test("an attempt that only seemed dead keeps its file: the next one starts over, and both are right")
    func zombie() throws {
        try Self.with(cuts: [1_500_000, 0]) { origin, fixture in
            let job = fixture.attempt(.download, origin.url).job
            #expect(
                fixture.run(.download, origin.url + "/f", job: job) { $0.to("f") }?.failure?.code
                    == .incompleteBody)
            let held = try #require(partial(fixture))
            // As the frozen node's attempt would hold it.
            let descriptor = open(held, O_RDWR | O_CLOEXEC)
            #expect(descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            defer { close(descriptor) }
            let second = fixture.run(.download, origin.url + "/f", job: job, number: 2) { $0.to("f") }
            #expect(second?.success?.sha256 == sha256(Self.bytes))
            #expect(Self.ranges(origin) == [nil, "bytes=1500000-", nil])
            // It wakes up and writes: into an inode that has no name any more.
            #expect(pwrite(descriptor, "garbage", 7, 0) == 7)
            #expect(readFile(fixture.root + "/f") == Self.bytes)
        }
    }

    @Test("without a validator the whole file is requested, unless the job allows resuming")
    func withoutValidator() throws {
        for takesRisk in [false, true] {
            try Self.with(cuts: [1_500_000], tag: #"W/"weak""#) { origin, fixture in
                let job = fixture.attempt(.download, origin.url).job
                func run(_ number: Int32) -> AttemptResult? {
                    fixture.run(.download, origin.url + "/f", job: job, number: number) {
                        $0.to("f")
                        $0.spec.retry.resumesWithoutValidator = takesRisk
                    }
                }
                let first = run(1)
                #expect(first?.failure?.code == (takesRisk ? nil : .incompleteBody))
                #expect(first?.failure?.cost ?? .attempt == .attempt, "no bytes are left")
                #expect((takesRisk ? first : run(2))?.success?.sha256 == sha256(Self.bytes))
                #expect(Self.ranges(origin) == (takesRisk ? [nil, "bytes=1500000-"] : [nil, nil]))
                #expect(origin.requests.allSatisfy { $0.header("if-range") == nil })
            }
        }
    }

    @Test("after a reboot only bytes on stable storage count", arguments: [true, false])
    func otherBoot(isSynced: Bool) throws {
        let sync: EngineConfiguration.FileSync = isSynced ? .full : .none
        try Self.with(cuts: [1_500_000, 0], { $0.fileSync = sync }) { origin, fixture in
            let job = fixture.attempt(.download, origin.url).job
            #expect(
                fixture.run(.download, origin.url + "/f", job: job) { $0.to("f") }?.failure?.code
                    == .incompleteBody)
            let file = try #require(partial(fixture))
            var record = try #require(readFile(file + ".json").flatMap { PartialRecord(json: $0) })
            #expect(record.boot == Boot.identifier && record.ranges.byteCount == 1_500_000)
            #expect(record.synced.byteCount == (isSynced ? 1_500_000 : 0))
            record.boot = "another"
            if isSynced { record.synced = ByteRanges([0..<1_000_000]) }
            try writeFile(file + ".json", record.encode())
            // What the power cut has left of the rest.
            let descriptor = open(file, O_WRONLY | O_CLOEXEC)
            #expect(pwrite(descriptor, [UInt8](repeating: 0, count: 400_000), 400_000, 1_050_000) == 400_000)
            close(descriptor)
            let second = fixture.run(.download, origin.url + "/f", job: job, number: 2) { $0.to("f") }
            #expect(second?.success?.sha256 == sha256(Self.bytes))
            #expect(Self.ranges(origin) == [nil, "bytes=1500000-", isSynced ? "bytes=1000000-" : nil])
        }
    }

    @Test("wrong bytes, and those of a cancelled job, are not kept")
    func notKept() throws {
        try Self.with(cuts: [1_500_000, 0]) { origin, fixture in
            let job = fixture.attempt(.download, origin.url).job
            let wrong = String(repeating: "0", count: 64)
            func run(_ number: Int32) -> AttemptResult? {
                fixture.run(.download, origin.url + "/f", job: job, number: number) {
                    $0.to("f")
                    $0.spec.integrity.sha256 = wrong
                }
            }
            #expect(run(1)?.failure?.code == .incompleteBody)
            #expect(run(2)?.failure?.code == .digestMismatch)
            #expect(eventually { fixture.files().isEmpty })
            #expect(run(3)?.failure?.code == .digestMismatch)
            // Joined bytes with a wrong digest are fetched again once.
            let rest = "bytes=1500000-"
            #expect(Self.ranges(origin) == [nil, rest, rest, nil, nil])
        }
    }

    @Test("a finished job leaves no partial file, also if its last attempt failed before writing")
    func settled() throws {
        try Self.with(cuts: [1_500_000, 0]) { origin, fixture in
            let job = fixture.attempt(.download, origin.url).job
            _ = fixture.run(.download, origin.url + "/f", job: job) { $0.to("f") }
            origin.stop()
            let second = fixture.run(.download, origin.url + "/f", job: job, number: 2) { $0.to("f") }
            #expect(second?.failure?.code == .couldNotConnect)
            #expect(fixture.files().count == 2)
            fixture.engine.removePartialFiles(of: [job])
        }
    }

    @Test("a partial file that was published already is removed, not continued")
    func published() throws {
        try Self.with(cuts: [1_500_000, 0]) { origin, fixture in
            let job = fixture.attempt(.download, origin.url).job
            _ = fixture.run(.download, origin.url + "/f", job: job) { $0.to("f", .fail) }
            let file = try #require(partial(fixture))
            #expect(link(file, fixture.root + "/f") == 0)
            let second = fixture.run(.download, origin.url + "/f", job: job, number: 2) { $0.to("f", .fail) }
            #expect(second?.success?.sha256 == sha256(Self.bytes))
            #expect(Self.ranges(origin) == [nil, "bytes=1500000-", nil])
            fixture.engine.removePartialFiles(of: [job])
        }
    }
}

/// Takes the numbers of a list, one for each caller.
private final class Cuts: Sendable {
    private let left: Mutex<[Int]>
    init(_ cuts: [Int]) { left = Mutex(cuts) }

    func next() -> Int? { left.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
}
