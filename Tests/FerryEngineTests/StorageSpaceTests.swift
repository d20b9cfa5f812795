import FerryCore
import FerryEngine
import Glibc
import TestSupport
import Testing

/// On a file system of 16 MiB, which a test may fill; a twentieth of it, 838,860 bytes, is the reserve.
@Suite(.serialized) struct StorageSpaceTests {
    private static func with(_ body: (Fixture, DownloadGate) throws -> Void) throws {
        let place = try TemporaryDirectory.make("room")
        defer { TemporaryDirectory.remove(place) }
        try #require(mount("tmpfs", place, "tmpfs", 0, "size=16m") == 0, "this needs root, as in CI")
        defer { umount2(place, Int32(MNT_DETACH)) }
        let gate = DownloadGate()
        let fixture = try Fixture(at: place) {
            $0.watchedDirectories = [place, place + "/not/yet/there"]
            $0.downloads = gate
        }
        defer { fixture.engine.stop() }
        try body(fixture, gate)
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
                _ = connection.waitUntilClosed(milliseconds: 20_000)
            }
        }
    }

    @Test("a body that does not fit is refused at its head, before a byte has come")
    func announced() throws {
        try Self.with { fixture, _ in
            for size in [17 << 20, (16 << 20) - 400_000] {
                let origin = try Self.origin(announcing: size, sending: 0)
                defer { origin.stop() }
                let result = try #require(fixture.run(.download, origin.url) { $0.to("x") })
                #expect(result.failure?.code == .storageFull, "\(result.outcome)")
                #expect(result.failure?.isRetryable == true && result.bytesReceived == 0)
            }
        }
    }

    @Test("what the job expects counts where the server does not say")
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

    @Test("what was promised to one transfer is not there for another, until it ends")
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

    @Test("a body of unknown length ends at the reserve")
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

    @Test("the gate closes while there is less than the reserve, and opens again by itself")
    func gate() throws {
        try Self.with { fixture, gate in
            #expect(gate.isOpen)
            #expect(fixture.engine.rooms.count == 2)
            #expect(fixture.engine.rooms.allSatisfy { $0.reserve == 838_860 && $0.free > 15 << 20 })
            try writeFile(fixture.directory + "/ballast", [UInt8](repeating: 0, count: 15_800 << 10))
            #expect(eventually { !gate.isOpen })
            unlink(fixture.directory + "/ballast")
            #expect(eventually { gate.isOpen })
        }
    }
}
