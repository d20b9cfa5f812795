import FerryCore
import Glibc
import Sys
import TestSupport
import Testing

@testable import FerryEngine

@Suite("Shortages of file systems") struct ShortageTests {
    private static func space(_ shortageMax: Int64) -> StorageSpace {
        StorageSpace(reserve: 0, watched: [], admission: DownloadAdmission(), shortageMax: shortageMax)
    }

    private static let needed: Int64 = 15 << 20

    /// A file system of 16 MiB that has less room than that.
    private static func onFullDisk(_ body: (StorageDirectory) throws -> Void) throws {
        let place = try TemporaryDirectory.make("short")
        defer { TemporaryDirectory.remove(place) }
        try #require(mount("tmpfs", place, "tmpfs", 0, "size=16m") == 0, "this needs root, as in CI")
        defer { umount2(place, Int32(MNT_DETACH)) }
        try writeFile(place + "/ballast", [UInt8](repeating: 0, count: 4 << 20))
        try body(StorageDirectory.root(place, .own))
    }

    @Test("a shortage that no transfer meets is forgotten, and downloads are not checked any more")
    func forgotten() throws {
        try Self.onFullDisk { place in
            let space = Self.space(0)
            #expect(throws: TransferError.self) { try space.claim(at: place, expecting: Self.needed) }
            #expect(space.hasShortages)
            #expect(throws: TransferError.self) { try space.needSpace(at: place, expecting: Self.needed) }
            space.measure()
            #expect(!space.hasShortages)
            // Whoever still needs as much finds out, and is remembered again.
            try space.needSpace(at: place, expecting: Self.needed)
            #expect(throws: TransferError.self) { try space.claim(at: place, expecting: Self.needed) }
            #expect(space.hasShortages)
        }
    }

    @Test("a shortage that transfers keep meeting is kept")
    func met() throws {
        try Self.onFullDisk { place in
            let space = Self.space(1 << 60)
            #expect(throws: TransferError.self) { try space.claim(at: place, expecting: Self.needed) }
            for _ in 1...3 {
                space.measure()
                #expect(throws: TransferError.self) { try space.needSpace(at: place, expecting: Self.needed) }
            }
            #expect(space.hasShortages)
            try space.needSpace(at: place, expecting: 1 << 20)
            #expect(!space.hasShortages)
        }
    }

    @Test("a file larger than the file system is never waited for, whether or not a shortage is known")
    func larger() throws {
        try Self.onFullDisk { place in
            let space = Self.space(1 << 60)
            let tooLarge: Int64 = 17 << 20
            func failure(_ body: () throws -> Void) -> TransferError? {
                do {
                    try body()
                    return nil
                } catch {
                    return error as? TransferError
                }
            }
            let claimed = failure { _ = try space.claim(at: place, expecting: tooLarge) }
            #expect(claimed?.isRetryable == false && !space.hasShortages)
            #expect(failure { _ = try space.claim(at: place, expecting: Self.needed) }?.isRetryable == true)
            #expect(space.hasShortages)
            let needed = failure { try space.needSpace(at: place, expecting: tooLarge) }
            #expect(needed == claimed, "\(String(describing: needed))")
            let resumed = failure { try space.needSpace(at: place, expecting: tooLarge, after: 2 << 20) }
            #expect(resumed == claimed, "\(String(describing: resumed))")
            #expect(failure { try space.needSpace(at: place, expecting: Self.needed) }?.isRetryable == true)
        }
    }

    @Test("the estimates of a tenant are promised up to its share of the free space")
    func shares() throws {
        try Self.onFullDisk { place in
            let space = Self.space(0)
            let mebibyte: Int64 = 1 << 20
            // 12 MiB are free: 6 for the first tenant, and 6 for all others.
            var first = [try space.claim(at: place, expecting: 10 * mebibyte, estimatedBy: "a")]
            #expect(throws: TransferError.self) {
                try space.claim(at: place, expecting: 7 * mebibyte, estimatedBy: "a")
            }
            #expect(throws: TransferError.self) {
                try space.claim(at: place, expecting: 7 * mebibyte, estimatedBy: "b")
            }
            first.append(try space.claim(at: place, expecting: 5 * mebibyte, estimatedBy: "a"))
            // A known length counts whole. 7 MiB are left, of which the estimates have a half.
            let known = try space.claim(at: place, expecting: 5 * mebibyte)
            #expect(throws: TransferError.self) { try space.claim(at: place, expecting: 4 * mebibyte) }
            withExtendedLifetime(known) {}
            first = []
            // Nothing is left of a tenant's estimates.
            let all = try space.claim(at: place, expecting: 7 * mebibyte - 65_536)
            withExtendedLifetime(all) {}
        }
    }

    @Test("bytes that are written are taken off the estimate, and the others are given back")
    func written() throws {
        try Self.onFullDisk { place in
            let space = Self.space(0)
            let estimate = try space.claim(at: place, expecting: 4 << 20, estimatedBy: "a")
            try estimate.take(3 << 20, place.descriptor)
            #expect(throws: TransferError.self) { try space.claim(at: place, expecting: (8 << 20) + 1) }
            // More than estimated, but it is free.
            try estimate.take(2 << 20, place.descriptor)
            #expect(throws: TransferError.self) { try estimate.take(8 << 20, place.descriptor) }
        }
    }

    @Test("on a file system that does not tell its size, any announced length is accepted")
    func boundless() throws {
        // /proc counts no blocks, like file systems in user space that have no end of their own.
        let space = Self.space(0)
        let place = try StorageDirectory.root("/proc", .own)
        let claims = try (1...3).map { _ in try space.claim(at: place, expecting: .max) }
        for claim in claims { try claim.take(1_000, place.descriptor) }
        #expect(!space.hasShortages)
    }
}
