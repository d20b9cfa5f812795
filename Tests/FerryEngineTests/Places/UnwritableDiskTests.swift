import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Disks that cannot be written to", .onOwnThread) struct UnwritableDiskTests {
    private static let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsome".utf8)

    /// `isReadOnly`: when the engine starts.
    private static func with(
        isReadOnly: Bool = false,
        _ body: (Fixture, DownloadAdmission, SmallFileSystem, ScriptedOrigin, Signal<Void>) throws -> Void
    ) throws {
        let above = try TemporaryDirectory.make("trouble")
        defer { TemporaryDirectory.remove(above) }
        let disk = try SmallFileSystem(above + "/disk", byteCount: 16 << 20)
        defer { disk.remove() }
        mkdir(disk.path + "/tenant", 0o755)
        try disk.remount(isReadOnly: isReadOnly)
        let asked = Signal<Void>()
        let origin = try ScriptedOrigin.answering { _, _ in
            asked.fire(())
            return answer
        }
        defer { origin.stop() }
        let admission = DownloadAdmission()
        let fixture = try Fixture(at: disk.path) {
            $0.watchedDirectories = [disk.path]
            $0.downloads = admission
        }
        defer { fixture.engine.stop() }
        try body(fixture, admission, disk, origin, asked)
    }

    private static func names(_ path: String) -> [String] { directoryNames(path).sorted() }

    @Test(
        "a disk that becomes read-only stops downloads, fails no job, and is used again once writable"
    )
    func readOnly() throws {
        try Self.with { fixture, admission, disk, origin, asked in
            #expect(fixture.run(.download, origin.url) { $0.to("before") }?.success != nil)
            #expect(admission.hold == nil)
            try disk.remount(isReadOnly: true)
            let failed = try #require(fixture.run(.download, origin.url) { $0.to("x") })
            #expect(failed.failure?.code == .storageUnavailable && failed.failure?.isRetryable == true)
            #expect(failed.trace?.diagnostics == .init(curlCode: 0, curlMessage: "", osError: EROFS))
            // At once: jobs that were claimed meanwhile send no request.
            #expect(admission.hold == .unwritable)
            // By the first download, and by this one unless the disk was looked at before.
            let count = failed.trace?.transactions.count ?? 0
            #expect(count <= 1 && asked.wait(seconds: 0).count == 1 + count)
            let second = fixture.run(.download, origin.url) { $0.to("y") }
            #expect(second?.failure?.code == .storageUnavailable)
            #expect(asked.wait(seconds: 0).isEmpty, "no request is sent in vain")
            #expect(fixture.run(.data, origin.url)?.success != nil, "jobs that need no disk continue")
            try disk.remount(isReadOnly: false)
            #expect(eventually { admission.hold == nil })
            #expect(fixture.run(.download, origin.url) { $0.to("x") }?.success != nil)
            #expect(Self.names(fixture.root) == ["before", "x"], "trials leave nothing")
        }
    }

    @Test(
        "a disk that becomes read-only stops downloads within a second; one that was so at the start does not"
    )
    func seen() throws {
        try Self.with { _, admission, disk, _, _ in
            try disk.remount(isReadOnly: true)
            #expect(eventually { admission.hold == .unwritable })
            try disk.remount(isReadOnly: false)
            #expect(eventually { admission.hold == nil })
        }
        try Self.with(isReadOnly: true) { fixture, admission, disk, origin, _ in
            #expect(admission.hold == nil, "a root to send from")
            let failed = fixture.run(.download, origin.url) { $0.to("x") }
            #expect(failed?.failure?.code == .storageUnavailable)
            let space = StorageSpace(reserve: 0, watched: [disk.path], admission: admission)
            #expect(try space.isUnavailable(at: StorageDirectory.root(disk.path, .own)) && space.hasShortages)
            space.measure()
            #expect(admission.hold == nil, "other downloads continue")
            try disk.remount(isReadOnly: false)
            #expect(eventually { fixture.run(.download, origin.url) { $0.to("x") }?.success != nil })
        }
    }

    @Test("a read-only mount below the root fails its job and does not stop downloads")
    func mountBelow() throws {
        try Self.with { fixture, admission, disk, origin, _ in
            let below = fixture.root + "/below"
            mkdir(below, 0o755)
            let bind = UInt(MS_BIND)
            try #require(mount(below, below, nil, bind, nil) == 0)
            defer { umount2(below, Int32(MNT_DETACH)) }
            try #require(mount(below, below, nil, bind | UInt(MS_REMOUNT) | UInt(MS_RDONLY), nil) == 0)
            let failed = fixture.run(.download, origin.url) { $0.to("below/x") }
            #expect(failed?.failure?.code == .storageFailed, "\(String(describing: failed?.outcome))")
            #expect(admission.hold == nil)
            #expect(fixture.run(.download, origin.url) { $0.to("x") }?.success != nil)
            // The same as a root that was so at the start, beside one that can be written to.
            let space = StorageSpace(reserve: 0, watched: [below, disk.path], admission: admission)
            #expect(try !space.isUnavailable(at: StorageDirectory.root(below, .own)) && !space.hasShortages)
            space.measure()
            #expect(admission.hold == nil)
        }
    }

    @Test("a disk that works needs no trial, and one file that cannot be written fails only its job")
    func ownFile() throws {
        let place = try TemporaryDirectory.make("works")
        defer { TemporaryDirectory.remove(place) }
        let admission = DownloadAdmission()
        let space = StorageSpace(reserve: 0, watched: [place], admission: admission)
        let root = try StorageDirectory.root(place, .own)
        #expect(!space.isUnavailable(at: root) && !space.hasShortages && admission.isOpen)
        #expect(Self.names(place).isEmpty)
        #expect(root.writingTrial() == 0)
        // Who may not write there has found a disk that works.
        for osError in [EACCES, EPERM, ENOSPC, ENOENT] { #expect(!saysUnavailable(osError)) }
        for osError in [EROFS, EIO, ESTALE, ENOTCONN, EMFILE] { #expect(saysUnavailable(osError)) }
    }

    @Test("a failing file system that no transfer asks about is forgotten after a while")
    func forgotten() throws {
        let above = try TemporaryDirectory.make("forgotten")
        defer { TemporaryDirectory.remove(above) }
        let disk = try SmallFileSystem(above + "/disk", byteCount: 1 << 20)
        defer { disk.remove() }
        try disk.remount(isReadOnly: true)
        let root = try StorageDirectory.root(disk.path, .own)
        for (shortageMax, isKept) in [(Int64(1) << 60, true), (0, false)] {
            let space = StorageSpace(
                reserve: 0, watched: [], admission: DownloadAdmission(), shortageMax: shortageMax)
            #expect(space.isUnavailable(at: root) && space.hasShortages)
            #expect(throws: TransferError.self) { try space.needSpace(at: root, expecting: 0) }
            space.measure()
            #expect(space.hasShortages == isKept)
        }
    }

    @Test("if another directory replaces the root, files go there after 0.1 s")
    func moved() throws {
        let fixture = try Fixture()
        defer { fixture.engine.stop() }
        let origin = try ScriptedOrigin.answering { _, _ in Self.answer }
        defer { origin.stop() }
        #expect(fixture.run(.download, origin.url) { $0.to("first") }?.success != nil)
        #expect(rename(fixture.root, fixture.directory + "/old") == 0)
        mkdir(fixture.root, 0o755)
        poll(nil, 0, 110)
        #expect(fixture.run(.download, origin.url) { $0.to("second") }?.success != nil)
        #expect(Self.names(fixture.root) == ["second"] && Self.names(fixture.directory + "/old") == ["first"])
        // A link that is turned round, as with releases.
        #expect(rename(fixture.root, fixture.directory + "/new") == 0)
        #expect(symlink("old", fixture.root) == 0)
        poll(nil, 0, 110)
        #expect(fixture.run(.download, origin.url) { $0.to("third") }?.success != nil)
        #expect(Self.names(fixture.directory + "/old") == ["first", "third"])
    }
}
