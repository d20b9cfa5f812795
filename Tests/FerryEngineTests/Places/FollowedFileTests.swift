import FerryCore
import Glibc
import OpenSSL
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Followed files", .onOwnThread)
struct FollowedFileTests {
    private func withFile(_ body: (PartialFile, StorageDirectory) throws -> Void) throws {
        let path = try TemporaryDirectory.make("followed")
        defer { TemporaryDirectory.remove(path) }
        let root = try StorageDirectory.root(path, .own)
        let destination = Destination(root: root, .namedFile(path: "f"), job: JobID(high: 1, low: 1))
        try body(try PartialFile(destination, in: try root.directory("", making: true)), root)
    }

    private func read(_ file: FollowedFile, _ count: Int, at offset: Int64 = 0) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = bytes.withUnsafeMutableBytes { file.readBytes(into: $0, at: offset) } ?? -1
        return Array(bytes.prefix(max(0, done)))
    }

    @Test("readers are called once for many bytes, and only if they wait")
    func wakes() throws {
        try withFile { file, _ in
            let calls = Atomic<Int>(0)
            let followed = try #require(file.follow { calls.add(1, ordering: .relaxed) })
            #expect(file.follow {} === followed && followed.byteCount == 0)
            try file.append([1, 2, 3])
            file.advance(to: 3)
            #expect(calls.load(ordering: .relaxed) == 0 && read(followed, 10) == [1, 2, 3])
            #expect(!followed.awaitBytes(after: 2) && followed.awaitBytes(after: 3))
            for count in 4...6 {
                try file.append([UInt8(count)])
                file.advance(to: Int64(count))
            }
            #expect(calls.load(ordering: .relaxed) == 1 && followed.byteCount == 6)
            #expect(read(followed, 2, at: 4) == [5, 6] && read(followed, 2, at: 6) == [])
        }
    }

    @Test("a reader keeps the bytes of a removed file, and no lock")
    func removed() throws {
        try withFile { file, place in
            file.becomeResumable(PartialRecord(identity: "i", source: "s", total: nil))
            try file.append([7, 8])
            file.advance(to: 2)
            let followed = try #require(file.follow {})
            let other = openat(place.descriptor, file.name, O_RDONLY | O_CLOEXEC)
            defer { close(other) }
            #expect(flock(other, LOCK_EX | LOCK_NB) != 0)
            file.letGo()
            #expect(flock(other, LOCK_EX | LOCK_NB) == 0)
            file.discard()
            #expect(read(followed, 2) == [7, 8])
        }
    }

    @Test(
        "a small body goes to a file if its job is followed, and only then",
        arguments: [JobKind.data, .download])
    func smallBodies(kind: JobKind) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let (bytes, gate) = (patternBytes(40_000), Gate())
        let origin = try RangeOrigin(bytes) { answer, _, _ in
            answer.halfway = (after: 32_768, body: { _ = gate.pass() })
        }
        defer { origin.stop() }
        let changed = Signal<Void>()
        let (first, other) = (fixture.attempt(kind, origin.url), fixture.attempt(kind, origin.url))
        fixture.engine.follow(first.job) { changed.fire(()) }
        fixture.engine.begin([first, other])
        #expect(changed.wait().count == 1)
        #expect(eventually { fixture.engine.followedFile(of: first.job)?.byteCount == 32_768 })
        let file = try #require(fixture.engine.followedFile(of: first.job))
        #expect(read(file, 40_000) == Array(bytes[..<32_768]))
        #expect(eventually { fixture.engine.progress(of: other.job)?.bytesReceived == 32_768 })
        #expect(fixture.engine.followedFile(of: other.job) == nil)
        gate.open()
        let results = fixture.sink.arrived.wait(for: 2)
        #expect(results.count == 2)
        for result in results {
            #expect(result.success?.size == 40_000 && result.success?.sha256 == hexEncoded(Digest.of(bytes)))
            if kind == .data { #expect(result.success?.body == bytes) }
        }
        #expect(file.byteCount == 40_000 && read(file, 40_000) == bytes)
        fixture.engine.unfollow(first.job)
    }

    @Test("of a download in segments, only the bytes before the first gap can be read")
    func segments() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let (bytes, gate) = (patternBytes(8 << 20), Gate())
        let origin = try RangeOrigin(bytes) { answer, asked, _ in
            guard asked.range?.lowerBound ?? 0 == 0 else { return }
            answer.halfway = (after: 327_680, body: { _ = gate.pass() })
        }
        defer { origin.stop() }
        let attempt = fixture.attempt(.download, origin.url) { $0.spec.segmentCountMax = 4 }
        fixture.engine.begin([attempt])
        #expect(eventually { fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0 > 4 << 20 })
        let file = try #require(fixture.engine.followedFile(of: attempt.job))
        let count = Int(file.byteCount)
        #expect(count < 4 << 20 && read(file, count) == Array(bytes[..<count]))
        gate.open()
        #expect(fixture.sink.arrived.wait().first?.success?.size == 8 << 20)
        #expect(file.byteCount == 8 << 20)
    }
}
