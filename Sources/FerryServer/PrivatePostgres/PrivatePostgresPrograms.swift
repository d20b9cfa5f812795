import Glibc
import Sys

/// The programs `initdb` and `postgres` of one installation of PostgreSQL.
struct PostgresPrograms: Equatable {
    /// Directory of the programs, without symbolic links.
    let directory: String
    /// 15 for version 15.20.
    let majorVersion: Int

    /// 14 is the first version with all pipeline and SQL functions that are used.
    static let oldestMajorVersion = 14

    var initdb: String { "\(directory)/initdb" }
    var server: String { "\(directory)/postgres" }

    /// Returns the installation to use: the one with the cluster's version, or the newest if there is no
    /// cluster.
    static func find(clusterVersion: Int?) throws(PrivatePostgresError) -> PostgresPrograms {
        try choose(from: installed(), clusterVersion: clusterVersion)
    }

    /// Like `find`, without the search, for tests.
    static func choose(
        from installations: [PostgresPrograms], clusterVersion: Int?
    ) throws(PrivatePostgresError) -> PostgresPrograms {
        let usable = installations.filter { $0.majorVersion >= oldestMajorVersion }
        guard let newest = usable.max(by: { $0.majorVersion < $1.majorVersion }) else {
            let found = installations.map { "\($0.majorVersion) in \($0.directory)" }.joined(separator: ", ")
            throw PrivatePostgresError(
                .programsNotFound,
                "the private PostgreSQL needs PostgreSQL \(oldestMajorVersion) or newer, and "
                    + (found.isEmpty ? "none was found" : "only \(found) was found")
                    + " (PATH, pg_config --bindir, /usr/lib/postgresql); install it (Debian: apt-get install "
                    + "postgresql) or set FERRY_DATABASE_URL")
        }
        guard let clusterVersion else { return newest }
        guard let same = usable.first(where: { $0.majorVersion == clusterVersion }) else {
            throw PrivatePostgresError(
                .versionMismatch,
                "the data directory was created by PostgreSQL \(clusterVersion), but version "
                    + "\(newest.majorVersion) is installed: install version \(clusterVersion) again, or move "
                    + "the data with pg_upgrade")
        }
        return same
    }

    /// Returns all installations on this machine, each once: in PATH, by pg_config, and in the directories of
    /// Debian and Red Hat.
    static func installed() -> [PostgresPrograms] {
        let search = (getenv("PATH").map { String(cString: $0) } ?? "").split(separator: ":").map(String.init)
        var candidates = search
        if let tool = search.first(where: { access("\($0)/pg_config", X_OK) == 0 }) {
            candidates.append(PostgresProcess.output(of: "\(tool)/pg_config", ["--bindir"]).trimmed)
        }
        for parent in ["/usr/lib/postgresql", "/usr/local/pgsql"] {
            candidates += directoryNames(parent).map { "\(parent)/\($0)/bin" }
        }
        candidates += directoryNames("/usr").filter { $0.hasPrefix("pgsql-") }.map { "/usr/\($0)/bin" }
        var seen: Set<String> = []
        return candidates.compactMap { candidate in
            // Debian links single programs into PATH: use the directory of the server program itself.
            guard let server = FileTree.resolved("\(candidate)/postgres"), access(server, X_OK) == 0 else {
                return nil
            }
            let directory = parentDirectory(of: server)
            guard seen.insert(directory).inserted, access("\(directory)/initdb", X_OK) == 0,
                let version = majorVersion(PostgresProcess.output(of: server, ["--version"]))
            else { return nil }
            return PostgresPrograms(directory: directory, majorVersion: version)
        }
    }

    /// Returns 15 for `postgres (PostgreSQL) 15.20 (Debian …)` and 19 for `postgres (PostgreSQL) 19beta1`.
    static func majorVersion(_ text: String) -> Int? {
        guard let name = text.split(separator: " ").firstIndex(of: "(PostgreSQL)") else { return nil }
        let words = text.split(separator: " ")
        guard words.indices.contains(name + 1) else { return nil }
        return Int(words[name + 1].prefix { $0.isASCII && $0.isNumber })
    }
}
