import Glibc
import Sys
import TestSupport
import Testing

@Suite("Directories of killed test processes")
struct TemporaryDirectoryTests {
    /// A process number that cannot exist.
    private static let unusedPID = 2_000_000_000

    @Test("the sweep removes directories of dead test processes and nothing else")
    func sweep() throws {
        let place = try TemporaryDirectory.make("sweep")
        defer { TemporaryDirectory.remove(place) }
        let left = ["ferry-engine-\(Self.unusedPID)-a1B2c3", "ferry-outside-\(Self.unusedPID)-ab_d3f7h"]
        var others = [
            "ferry-backup-2026-11", "ferry-my-own-\(Self.unusedPID)-a1B2c3",
            "ferry-1000-\(Self.unusedPID)-123456",
            "ferry--\(Self.unusedPID)-a1B2c3", "ferry-x-\(Self.unusedPID)-ABCDEFGH",
            "ferry-x-\(Self.unusedPID)-a_B2c3",
            "ferry-x-\(getpid())-a1B2c3", "ferry-x-0-a1B2c3", "other-x-\(Self.unusedPID)-a1B2c3",
        ]
        for name in left + others {
            try #require(mkdir("\(place)/\(name)", 0o700) == 0)
            try writeFile("\(place)/\(name)/file", [1])
        }
        others.append("ferry-file-\(Self.unusedPID)-a1B2c3")
        try writeFile("\(place)/ferry-file-\(Self.unusedPID)-a1B2c3", [1])
        if geteuid() == 0 {
            let theirs = "ferry-theirs-\(Self.unusedPID)-a1B2c3"
            try #require(mkdir("\(place)/\(theirs)", 0o700) == 0)
            try #require(chown("\(place)/\(theirs)", 1, 1) == 0)
            others.append(theirs)
        }
        TemporaryDirectory.sweep(place)
        #expect(directoryNames(place).sorted() == others.sorted())
    }
}
