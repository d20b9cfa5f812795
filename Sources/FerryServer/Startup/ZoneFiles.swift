package import FerryCore
import Synchronization
import Sys

/// The time zones of this machine: the TZif files that tzdata installs, read when they are first named.
package final class ZoneFiles: TimeZoneSource {
    /// Seconds after which a file is read anew, so that new rules count without a restart.
    private static let lifetimeNanoseconds: Int64 = 3_600_000_000_000
    private static let byteCountMax = 1 << 20

    private struct Entry {
        let rules: TimeZoneRules
        let readAt: Int64
    }

    private let directory: String
    private let entries = Mutex<[String: Entry]>([:])

    package init(directory: String = "/usr/share/zoneinfo") { self.directory = directory }

    package func rules(named name: String) -> TimeZoneRules? {
        // Works without tzdata.
        if name == "UTC" { return .utc }
        guard Self.isName(name) else { return nil }
        let now = monotonicNanoseconds()
        let known = entries.withLock { $0[name] }
        if let known, now - known.readAt < Self.lifetimeNanoseconds { return known.rules }
        guard let bytes = try? readFile("\(directory)/\(name)", byteCountMax: Self.byteCountMax),
            let rules = TimeZoneRules(tzif: bytes)
        else { return known?.rules }
        entries.withLock { $0[name] = Entry(rules: rules, readAt: now) }
        return rules
    }

    /// Parts of letters, digits and `+-_`, so that nothing outside the directory can be named; and not the
    /// copies of the database with leap seconds.
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
