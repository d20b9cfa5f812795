import FerryCore
import FerryEngine
import Glibc
import TestSupport
import TestThreads
import Testing

/// On a file system of 16 MiB, which a test may fill; a twentieth of it, 838,860 bytes, is the reserve.
@Suite(.serialized, .onOwnThread) struct StorageSpaceTests {
    private static func with(_ body: (Fixture, DownloadAdmission) throws -> Void) throws {
        let place = try TemporaryDirectory.make("room")
        defer { TemporaryDirectory.remove(place) }
        try #require(mount("tmpfs", place, "tmpfs", 0, "size=16m") == 0, "this needs root, as in CI")
        defer { umount2(place, Int32(MNT_DETACH)) }
        let admission = DownloadAdmission()
        let fixture = try Fixture(at: place) {
            $0.watchedDirectories = [place, place + "/not/yet/there"]
            $0.downloads = admission
        }
        defer { fixture.engine.stop() }
        try body(fixture, admission)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }

    /// Announces so many bytes (none: their length stays open) and sends some of them.
    private static func origin(announcing count: Int?, sending sent: Int) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                connection.send(
                    "HTTP/1.1 200 OK\r\n" + (count.map { "Content-Length: \($0)\r\n\r\n" } ?? "\r\n"))
                connection.send([UInt8](repeating: 1, count: sent))
                if count == nil { return }
                _ = connection.waitUntilClosed()
            }
        }
    }

    @Test("a body larger than the free space is refused at its head")
    func announced() throws {
        try Self.with { fixture, _ in
            try writeFile(fixture.directory + "/ballast", [UInt8](repeating: 0, count: 1 << 20))
            #expect(eventually { fixture.engine.storageSpaces.allSatisfy { $0.free <= 15 << 20 } })
            // What is larger than the whole file system need not wait for room.
            for (size, mayPass) in [(17 << 20, false), ((16 << 20) - 400_000, false), (15 << 20, true)] {
                let origin = try Self.origin(announcing: size, sending: 0)
                defer { origin.stop() }
                let result = try #require(fixture.run(.download, origin.url) { $0.to("x") })
                #expect(result.failure?.code == .storageFull, "\(result.outcome)")
                #expect(result.failure?.isRetryable == mayPass && result.bytesReceived == 0)
            }
            unlink(fixture.directory + "/ballast")
        }
    }

    @Test("without a Content-Length the job's expected length is checked against the free space")
    func expected() throws {
        try Self.with { fixture, _ in
            let origin = try Self.origin(announcing: nil, sending: 100_000)
            defer { origin.stop() }
            let refused = fixture.run(.download, origin.url) {
                $0.spec.schedule.expectedBytesToReceive = 1 << 40
            }
            #expect(refused?.failure?.code == .storageFull)
            let size = fixture.run(.download, origin.url) { $0.spec.integrity.size = 1 << 40 }
            #expect(size?.failure?.code == .storageFull)
            #expect(fixture.run(.download, origin.url)?.success?.size == 100_000)
        }
    }

    @Test("expected bytes without space fail before a request is sent", arguments: [1, 2])
    func expectedBeforeRequest(_ segmentCount: Int) throws {
        try Self.with { fixture, _ in
            try writeFile(fixture.directory + "/ballast", [UInt8](repeating: 0, count: 8 << 20))
            let origin = try Self.origin(announcing: nil, sending: 100_000)
            defer { origin.stop() }
            #expect(eventually { fixture.engine.storageSpaces.allSatisfy { $0.free <= 8 << 20 } })
            for path in ["x", nil] {
                let result = fixture.run(.download, origin.url) {
                    if let path { $0.to(path) }
                    $0.spec.segmentCountMax = segmentCount
                    $0.spec.schedule.expectedBytesToReceive = 10 << 20
                }
                #expect(result?.failure?.code == .storageFull && result?.failure?.isRetryable == true)
            }
            #expect(origin.requests.isEmpty)
            unlink(fixture.directory + "/ballast")
        }
    }

    @Test("expected bytes are promised before the response, and given back when it names its length")
    func expectedUntilKnown() throws {
        try Self.with { fixture, _ in
            let (asked, gate) = (Signal<Void>(), Gate())
            let origin = try ScriptedOrigin { connection in
                _ = connection.readRequest()
                asked.fire(())
                _ = gate.pass()
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                _ = connection.waitUntilClosed()
            }
            defer { origin.stop() }
            let promised = { fixture.engine.storageSpaces.map(\.promised).max() ?? 0 }
            let job = fixture.attempt(.download, origin.url) {
                $0.to("x")
                $0.spec.schedule.expectedBytesToReceive = 2 << 20
            }
            fixture.engine.begin([job])
            #expect(asked.wait().count == 1)
            #expect(eventually { promised() == 2 << 20 })
            gate.open()
            #expect(eventually { promised() == 1_000_000 })
            fixture.engine.cancel(job.job)
            _ = fixture.sink.arrived.wait()
            #expect(eventually { promised() == 0 })
        }
    }

    @Test("space that is promised to a transfer is not given to another until the first ends")
    func promised() throws {
        try Self.with { fixture, _ in
            let origin = try Self.origin(announcing: 9 << 20, sending: 1 << 20)
            defer { origin.stop() }
            let first = fixture.attempt(.download, origin.url) { $0.to("first") }
            fixture.engine.begin([first])
            #expect(
                eventually { (fixture.engine.progress(of: first.job)?.bytesReceived ?? 0) == 1 << 20 })
            let second = fixture.run(.download, origin.url) { $0.to("second") }
            #expect(second?.failure?.code == .storageFull)
            fixture.engine.cancel(first.job)
            #expect(fixture.sink.arrived.wait().first?.isCancelled == true)
            let third = fixture.attempt(.download, origin.url) { $0.to("third") }
            fixture.engine.begin([third])
            #expect(
                eventually { (fixture.engine.progress(of: third.job)?.bytesReceived ?? 0) == 1 << 20 })
            fixture.engine.cancel(third.job)
            _ = fixture.sink.arrived.wait()
        }
    }

    @Test("a body of unknown length fails when it reaches the reserve")
    func unknown() throws {
        try Self.with { fixture, _ in
            let origin = try Self.origin(announcing: nil, sending: 20 << 20)
            defer { origin.stop() }
            let result = try #require(fixture.run(.download, origin.url) { $0.to("x") })
            #expect(result.failure?.code == .storageFull)
            // What gathers before it is written was received too.
            #expect((14 << 20...(16 << 20) - 838_860 + (256 << 10)).contains(result.bytesReceived))
        }
    }

    @Test(
        "if another process fills the disk during a transfer, the next attempt continues the bytes",
        arguments: [1, 2])
    func filled(_ segmentCount: Int) throws {
        try Self.with { fixture, _ in
            let bytes = patternBytes(6 << 20, seed: 3)
            let (reached, filled) = (Signal<Void>(), Gate())
            let origin = try RangeOrigin(bytes) { answer, _, number in
                guard number == 0 else { return }
                answer.halfway = (
                    2 << 20,
                    {
                        reached.fire(())
                        _ = filled.pass()
                    }
                )
            }
            defer { origin.stop() }
            let job: JobID = fixture.ids.make()
            func begin(_ number: Int32) {
                fixture.engine.begin([
                    fixture.attempt(.download, origin.url, job: job, number: number) {
                        $0.to("x")
                        $0.spec.segmentCountMax = segmentCount
                    }
                ])
            }
            begin(1)
            #expect(reached.wait().count == 1)
            #expect(eventually { (fixture.engine.progress(of: job)?.bytesReceived ?? 0) >= 2 << 20 })
            let ballast = fixture.directory + "/ballast"
            #expect(throws: (any Error).self, "nothing is left") {
                try writeFile(ballast, [UInt8](repeating: 0, count: 16 << 20))
            }
            filled.open()
            let result = try #require(fixture.sink.arrived.wait().first)
            #expect(result.failure?.code == .storageFull, "\(result.outcome)")
            #expect(result.failure?.isRetryable == true)
            let kept = try #require(result.partialDownload?.byteCount)
            #expect(kept > 1 << 20)

            // While the disk is full no request is sent, and the bytes stay.
            let count = origin.requests.count
            begin(2)
            let refused = fixture.sink.arrived.wait().first
            #expect(refused?.failure?.code == .storageFull && refused?.partialDownload != nil)
            unlink(ballast)
            #expect(origin.requests.count == count)
            // Room is looked for once a second.
            var number: Int32 = 2
            var ended: TransferResult?
            let hasEnded = eventually {
                number += 1
                begin(number)
                ended = fixture.sink.arrived.wait().first?.success
                return ended != nil
            }
            let success = try #require(hasEnded ? ended : nil)
            #expect(success.resumedAtOffset ?? 0 > 1 << 20)
            let isExact = readFile(fixture.root + "/x") == bytes
            #expect(isExact)
        }
    }

    /// Whether the engine has seen that there is room.
    private static func becomesFree(_ fixture: Fixture) -> Bool {
        eventually { fixture.engine.storageSpaces.allSatisfy { $0.free > 1 << 20 } }
    }

    @Test("a job that found no space sends no request until there is some, and then at once")
    func held() throws {
        try Self.with { fixture, _ in
            let origin = try RangeOrigin(patternBytes(3 << 20))
            defer { origin.stop() }
            let ballast = fixture.directory + "/ballast"
            try writeFile(ballast, [UInt8](repeating: 0, count: 15_600 << 10))
            #expect(eventually { fixture.engine.storageSpaces.allSatisfy { $0.free < 1 << 20 } })
            let job = try #require(fixture.run(.download, origin.url) { $0.to("x") }?.attempt.job)
            #expect(origin.requests.count == 1)
            for number in 2...5 as ClosedRange<Int32> {
                let held = fixture.run(.download, origin.url, job: job, number: number) { $0.to("x") }
                #expect(held?.failure?.code == .storageFull && held?.failure?.isRetryable == true)
            }
            #expect(origin.requests.count == 1)
            unlink(ballast)
            #expect(Self.becomesFree(fixture))
            #expect(fixture.run(.download, origin.url, job: job, number: 6) { $0.to("x") }?.success != nil)
        }
    }

    @Test("downloads stop while less than the reserve is free, and start again by themselves")
    func gate() throws {
        try Self.with { fixture, admission in
            #expect(admission.isOpen)
            #expect(fixture.engine.storageSpaces.count == 2)
            #expect(fixture.engine.storageSpaces.allSatisfy { $0.reserve == 838_860 && $0.free > 15 << 20 })
            try writeFile(fixture.directory + "/ballast", [UInt8](repeating: 0, count: 15_800 << 10))
            #expect(eventually { !admission.isOpen })
            unlink(fixture.directory + "/ballast")
            #expect(eventually { admission.isOpen })
        }
    }
}
