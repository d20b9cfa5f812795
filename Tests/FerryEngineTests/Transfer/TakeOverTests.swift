import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// The files of a job's earlier attempts, without a server.
@Suite("Takeover of earlier attempts' bytes", .onOwnThread) struct TakeOverTests {
    private struct Job {
        let fixture: Fixture
        let id: JobID

        func destination(_ number: Int32) throws -> Destination {
            Destination(
                root: try StorageDirectory.root(fixture.root, .own), .namedFile(path: "file"),
                of: fixture.attempt(.download, "http://a.example/", job: id, number: number))
        }

        func path(_ number: Int32) -> String {
            fixture.root + "/" + PartialNames.partial(of: id, attempt: number)
        }

        func record(_ number: Int32) -> PartialRecord? {
            readFile(PartialNames.record(of: path(number))).flatMap { PartialRecord(json: $0) }
        }

        /// Leaves a file of so many bytes, of which these have come in parts.
        func leave(_ number: Int32, size: Int, _ ranges: [Range<Int64>], syncs: Bool = false) throws {
            let place = try destination(number)
            let file = try PartialFile(place, in: place.root)
            try file.append(patternBytes(size))
            var record = PartialRecord(
                identity: "i", source: "s", validator: .entityTag("\"a\""), total: 1_000_000)
            record.isSequential = false
            file.becomeResumable(record)
            try #require(file.keep(syncs: syncs, ranges: ByteRanges(ranges)) != nil)
        }

        func takeOver(_ number: Int32, withGaps: Bool) throws -> Resumption? {
            try destination(number).takeOver(identity: "i", withGaps: withGaps)
        }
    }

    private static func with(_ body: (Job) throws -> Void) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(Job(fixture: fixture, id: fixture.ids.make()))
    }

    /// Writes behind a gap, and is killed before it can say so.
    private static func write(_ count: Int, at offset: Int64, to file: PartialFile) throws {
        try patternBytes(count).withUnsafeBytes { try file.write($0, at: offset) }
        file.letGo()
    }

    @Test(
        "an attempt that does not know that it has lost its lease leaves no record of its removed file",
        arguments: [false, true])
    func removed(isRecordedBefore: Bool) throws {
        try Self.with { job in
            let place = try job.destination(1)
            let file = try PartialFile(place, in: place.root)
            try file.append(patternBytes(1_000))
            file.becomeResumable(
                PartialRecord(identity: "i", source: "s", validator: .entityTag("\"a\""), total: 1_000_000))
            if isRecordedBefore { #expect(file.checkpoint(syncs: false)) }
            // The first attempt holds the file, so the second one begins anew.
            #expect(try job.takeOver(2, withGaps: false) == nil)
            #expect(job.fixture.files().isEmpty)
            try file.append(patternBytes(1_000))
            #expect(!file.checkpoint(syncs: false))
            #expect(file.keep(syncs: false) == nil)
            #expect(job.fixture.files().isEmpty)
        }
    }

    @Test("bytes that are taken over get the permissions of a new file")
    func modes() throws {
        try Self.with { job in
            try job.leave(1, size: 1_000, [0..<1_000])
            try #require(chmod(job.path(1), 0o644) == 0)
            let found = try #require(try job.takeOver(2, withGaps: false))
            var status = stat()
            #expect(fstat(found.file.descriptor, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        }
    }

    @Test(
        "bytes that were cut off behind a gap are no longer on record",
        arguments: [false, true])
    func gap(isSynced: Bool) throws {
        try Self.with { job in
            try job.leave(
                1, size: 400_000, [0..<60_000, 100_000..<160_000, 300_000..<400_000], syncs: isSynced)
            let second = try #require(try job.takeOver(2, withGaps: false))
            #expect(second.ranges.ranges == [0..<60_000])
            let record = try #require(job.record(1))
            #expect(record.isSequential && record.ranges.ranges == [0..<60_000])
            #expect(record.synced.byteCount == (isSynced ? 60_000 : 0))
            try second.file.append(patternBytes(100_000))
            #expect(second.file.keep(syncs: isSynced)?.partialDownload?.byteCount == 160_000)

            let third = try #require(try job.takeOver(3, withGaps: true))
            #expect(third.ranges.ranges == [0..<160_000])
            try Self.write(10_000, at: 650_000, to: third.file)
            #expect(try job.takeOver(4, withGaps: true)?.ranges.ranges == [0..<160_000])
        }
    }

    @Test("bytes that the file has lost at its end are no longer on record")
    func shorter() throws {
        try Self.with { job in
            try job.leave(1, size: 400_000, [0..<100_000, 200_000..<400_000], syncs: true)
            // As where a full disk had no room for another record.
            #expect(truncate(job.path(1), 300_000) == 0)
            let second = try #require(try job.takeOver(2, withGaps: true))
            #expect(second.ranges.ranges == [0..<100_000, 200_000..<300_000])
            #expect(job.record(1)?.synced == second.ranges)
            try Self.write(10_000, at: 390_000, to: second.file)
            let third = try #require(try job.takeOver(3, withGaps: true))
            #expect(third.ranges == second.ranges)
        }
    }

    @Test("a partial file that cannot be read now is left to a later attempt")
    func unreadable() throws {
        try Self.with { job in
            try job.leave(1, size: 1_000, [0..<1_000])
            let record = PartialNames.record(of: job.path(1))
            #expect(rename(record, record + ".aside") == 0)
            // To open a socket is ENXIO, as of a device that is gone.
            #expect(mknod(record, S_IFSOCK | 0o600, 0) == 0)
            #expect(try job.takeOver(2, withGaps: true) == nil)
            #expect(rename(record + ".aside", record) == 0)
            #expect(try job.takeOver(3, withGaps: true)?.byteCount == 1_000)
        }
    }

    @Test(
        "earlier partial files are found, stray records removed, and those of later attempts kept",
        arguments: [3, 16, 17, 5_000] as [Int32])
    func names(number: Int32) throws {
        try Self.with { job in
            try job.leave(1, size: 1_000, [0..<1_000])
            try job.leave(2, size: 500, [0..<500])
            try job.leave(number + 1, size: 2_000, [0..<2_000])
            let stray = PartialNames.record(of: job.path(0))
            try writeFile(stray, [1])
            try writeFile(PartialNames.draft(of: stray), [1])
            #expect(try job.takeOver(number, withGaps: true)?.byteCount == 1_000)
            let left = [1, number + 1].flatMap { attempt -> [String] in
                let partial = "tenant/" + PartialNames.partial(of: job.id, attempt: attempt)
                return [partial, PartialNames.record(of: partial)]
            }
            #expect(job.fixture.files() == Set(left))
        }
    }
}
