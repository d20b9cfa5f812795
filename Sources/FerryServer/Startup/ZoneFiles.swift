package import FerryCore
import Synchronization
import Sys

/// Time zones of this machine: TZif files of tzdata, read when they are first used. Usable on any thread.
package final class ZoneFiles: TimeZoneSource {
    /// Nanoseconds after which a file is read again, so that new rules apply without a restart.
    private static let lifetimeNanoseconds: Int64 = 3_600_000_000_000
    private static let byteCountMax = 1 << 20

    private struct Entry {
        let rules: TimeZoneRules
        let readAt: Int64
    }

    private let directory: String
    private let entries = Mutex<[String: Entry]>([:])

    /// Creates a source of the files in `directory`.
    package init(directory: String = "/usr/share/zoneinfo") { self.directory = directory }

    /// Returns the rules of a zone such as `Europe/Berlin`, or `nil` if there is no valid file.
    package func rules(named name: String) -> TimeZoneRules? {
        // Available without tzdata.
        if name == "UTC" { return .utc }
        guard Self.isName(name) else { return nil }
        let now = monotonicNanoseconds()
        let known = entries.withLock { $0[name] }
        if let known, now - known.readAt < Self.lifetimeNanoseconds { return known.rules }
        // Without a readable file the zone is unknown, or keeps the rules read before.
        guard let bytes = try? readFile("\(directory)/\(name)", byteCountMax: Self.byteCountMax),
            let rules = TimeZoneRules(tzif: bytes)
        else { return known?.rules }
        entries.withLock { $0[name] = Entry(rules: rules, readAt: now) }
        return rules
    }

    /// Returns `true` for parts of letters, digits and `+-_`, so that the name cannot lead out of the
    /// directory. Excludes the copies of the database in `right` (with leap seconds) and `posix`.
    private static func isName(_ name: String) -> Bool {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count), name.utf8.count <= Limits.timeZoneByteCountMax,
            !["right", "posix"].contains(parts[0])
        else { return false }
        return parts.allSatisfy { part in
            !part.isEmpty
                && part.utf8.allSatisfy { byte in
                    (65...90).contains(byte & 0xDF) || (48...57).contains(byte) || "+-_".utf8.contains(byte)
                }
        }
    }
}
