import Glibc
import Sys

/// Files of the private PostgreSQL in Ferry's data directory, and their permissions.
///
/// - `postgres`: the cluster, or a symbolic link to a cluster at another place. If Ferry runs as root and the
///   server's user may not pass a directory above (such as /root), Ferry creates a link to a cluster below
///   /var/lib/ferry.
/// - `postgres.new`: a cluster that initdb has not completed, or the link to one.
/// - `postgres.lock`: locked by the Ferry that uses the cluster.
/// - `postgres.log`: log of the server.
struct PostgresCluster {
    /// Ferry's data directory, absolute and without symbolic links.
    let parent: String
    let account: PostgresProcess.Account
    /// Directory of the cluster: in `parent`, or the target of the link there.
    private(set) var directory: String
    /// `true` if the cluster is to be created below /var/lib/ferry.
    private var usesFallback = false

    var log: String { "\(parent)/postgres.log" }
    /// Path of the cluster in Ferry's data directory.
    private var link: String { "\(parent)/postgres" }
    private var unfinished: String { "\(directory).new" }
    private var unfinishedLink: String { "\(link).new" }
    private var processFile: String { "\(directory)/postmaster.pid" }

    /// Role that initdb creates; the database is `postgres`.
    static let role = "ferry"
    /// Longest path of a Unix socket in bytes (unix(7): 108 with the final zero).
    static let socketPathByteCountMax = 107
    static let socketName = ".s.PGSQL.5432"
    /// Highest process ID of the kernel (PID_MAX_LIMIT, proc(5)).
    static let processIDMax: UInt32 = 1 << 22
    /// Parent of clusters whose data directory is not accessible to the user that runs the server.
    static let varLib = "/var/lib/ferry"

    init(parent: String, account: PostgresProcess.Account) {
        self.parent = parent
        self.account = account
        directory = "\(parent)/postgres"
    }

    // MARK: Directories

    /// Creates Ferry's data directory if it is missing, and makes the cluster in it accessible to `account`.
    static func prepare(
        dataDirectory: String, userName: String?
    ) throws(PrivatePostgresError) -> PostgresCluster {
        let account = try findAccount(userName)
        do { try createDirectory(absolutePath(dataDirectory), mode: 0o711) } catch {
            throw PrivatePostgresError(.directoryUnusable, "the data directory cannot be created: \(error)")
        }
        guard let parent = FileTree.resolved(dataDirectory) else {
            throw PrivatePostgresError(.directoryUnusable, "\(dataDirectory) does not exist")
        }
        var cluster = PostgresCluster(parent: parent, account: account)
        try cluster.followLink()
        if account != .own { try cluster.makeAccessible(userName ?? "postgres") }
        return cluster
    }

    /// Returns the account that runs the server. PostgreSQL refuses to run as root; other users run it
    /// themselves.
    static func findAccount(_ name: String?) throws(PrivatePostgresError) -> PostgresProcess.Account {
        guard geteuid() == 0 else { return .own }
        let name = name ?? "postgres"
        guard let entry = getpwnam(name) else {
            throw PrivatePostgresError(
                .userUnusable,
                "PostgreSQL does not run as root and there is no user \(name) to run it: set "
                    + "FERRY_POSTGRES_USER to an unprivileged user, or start Ferry as one")
        }
        guard entry.pointee.pw_uid != 0 else {
            throw PrivatePostgresError(
                .userUnusable, "PostgreSQL does not run as root: FERRY_POSTGRES_USER must name another user")
        }
        return PostgresProcess.Account(uid: entry.pointee.pw_uid, gid: entry.pointee.pw_gid)
    }

    /// Follows the link to a cluster at another place. Throws if there is no cluster or it cannot be read:
    /// its disk may not be mounted, so a new cluster is never created there.
    mutating func followLink() throws(PrivatePostgresError) {
        guard let target = FileTree.target(ofLink: link) else { return }
        directory = FileTree.resolved(link) ?? link
        guard try majorVersion != nil else {
            throw PrivatePostgresError(
                .directoryUnusable,
                "\(link) is a link to \(target), where there is no PostgreSQL cluster: mount its disk, or "
                    + "remove the link for a new, empty database")
        }
    }

    /// Makes the cluster accessible to the server's user. May open Ferry's data directory for passing
    /// through, but no directory above it.
    private mutating func makeAccessible(_ user: String) throws(PrivatePostgresError) {
        if let status = FileTree.status(parent), status.st_uid == geteuid(), status.st_mode & 0o001 == 0 {
            chmod(parent, (status.st_mode | 0o001) & 0o7777)
        }
        if directory == link, let closed = FileTree.firstClosedDirectory(above: link, for: account) {
            guard FileTree.status(link) == nil, isFallbackAccessible else {
                throw PrivatePostgresError(
                    .directoryUnusable,
                    "the user \(user), who runs the private PostgreSQL, may not pass \(closed) on the way to "
                        + "\(link): set FERRY_DATA_DIR to a place such as \(Self.varLib), or allow it with "
                        + "chmod o+x \(closed)")
            }
            usesFallback = true
        }
        if let status = FileTree.status(directory), status.st_uid != account.uid {
            throw PrivatePostgresError(
                .directoryUnusable,
                "\(directory) belongs to the user with ID \(status.st_uid) and not to \(user): set "
                    + "FERRY_POSTGRES_USER to the owner, or run chown -R \(user) \(directory)")
        }
    }

    private var isFallbackAccessible: Bool {
        mkdir(Self.varLib, 0o711)
        return FileTree.firstClosedDirectory(above: "\(Self.varLib)/cluster", for: account) == nil
    }

    /// Returns the directory for the Unix socket: the cluster, which only its user may enter, or a short
    /// directory with the same permissions. `runtime`: runtime directory of the user that runs Ferry.
    func socketDirectory(
        runtime: String? = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
    ) throws(PrivatePostgresError) -> String {
        if "\(directory)/\(Self.socketName)".utf8.count <= Self.socketPathByteCountMax { return directory }
        guard let status = FileTree.status(parent) else { return directory }
        let user = account == .own ? geteuid() : account.uid
        // Same name at each start, so that a killed Ferry leaves one empty directory at most.
        let name = "ferry-\(user)-\(status.st_dev)-\(status.st_ino)"
        // XDG_RUNTIME_DIR is removed with the last session of its user.
        let parents = account == .own ? (runtime.map { [$0] } ?? []) + ["/tmp"] : ["/tmp"]
        let paths = parents.filter { access($0, W_OK | X_OK) == 0 }.map { "\($0)/\(name)" }
        guard
            let path = paths.first(where: {
                "\($0)/\(Self.socketName)".utf8.count <= Self.socketPathByteCountMax
            })
        else { return directory }
        try makeSocketDirectory(path)
        return path
    }

    /// Creates the directory that `socketDirectory` returned, unless it is the cluster or exists.
    func makeSocketDirectory(_ path: String) throws(PrivatePostgresError) {
        guard path != directory else { return }
        let user = account == .own ? geteuid() : account.uid
        mkdir(path, 0o700)
        var found = stat()
        // Owned by root and closed to others: an earlier start was interrupted before it changed the owner.
        if account != .own, lstat(path, &found) == 0, found.st_mode & (S_IFMT | 0o077) == S_IFDIR,
            found.st_uid == geteuid()
        {
            lchown(path, account.uid, account.gid)
        }
        guard lstat(path, &found) == 0, found.st_mode & S_IFMT == S_IFDIR, found.st_uid == user,
            found.st_mode & 0o077 == 0
        else {
            throw PrivatePostgresError(
                .directoryUnusable,
                "\(path), meant for the socket of the private PostgreSQL, has another owner or other "
                    + "permissions: remove it, or set FERRY_DATA_DIR to a shorter path")
        }
    }

    // MARK: The lock

    /// Locks the data directory for this process until the returned descriptor is closed. Throws if another
    /// Ferry still has the lock after `milliseconds`.
    func lock(milliseconds: Int = 1_000) throws(PrivatePostgresError) -> Int32 {
        let path = "\(parent)/postgres.lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("open \(path)"))")
        }
        guard lockFile(descriptor, milliseconds: milliseconds) else {
            let recorded = FileTree.text(of: path)?.trimmed ?? ""
            let owner = recorded.isEmpty ? "" : " (process \(recorded))"
            close(descriptor)
            throw PrivatePostgresError(
                .inUse,
                "another Ferry\(owner) uses the data directory \(parent): "
                    + "stop it, or set FERRY_DATA_DIR to another one")
        }
        let text = Array("\(getpid())\n".utf8)
        ftruncate(descriptor, 0)
        pwrite(descriptor, text, text.count, 0)
        return descriptor
    }

    // MARK: The cluster

    /// Major version of the cluster; `nil` if there is no cluster. Throws if the cluster cannot be read.
    var majorVersion: Int? {
        get throws(PrivatePostgresError) {
            do throws(SystemError) {
                let bytes = try readFile("\(directory)/PG_VERSION", byteCountMax: 4096)
                return Int(String(decoding: bytes, as: UTF8.self).trimmed)
            } catch {
                if error.code == ENOENT || error.code == ENOTDIR { return nil }
                throw PrivatePostgresError(
                    .directoryUnusable, "the cluster of the private PostgreSQL cannot be read: \(error)")
            }
        }
    }

    /// Creates the cluster completely or not at all.
    mutating func create(with programs: PostgresPrograms) throws(PrivatePostgresError) {
        guard usesFallback else { return try make(with: programs) }
        if let begun = interruptedFallback() { directory = begun } else { directory = try createFallback() }
        if try majorVersion == nil { try make(with: programs) }
        // Last, so that this link always leads to a complete cluster.
        guard rename(unfinishedLink, link) == 0 else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("rename \(unfinishedLink)"))")
        }
        FileTree.sync(directory: parent)
    }

    /// Returns the place that an interrupted start has chosen for the cluster, or `nil`.
    private func interruptedFallback() -> String? {
        guard let begun = FileTree.target(ofLink: unfinishedLink) else { return nil }
        return FileTree.status(parentDirectory(of: begun)) == nil ? nil : begun
    }

    /// Creates a directory for the cluster and a link by which the next start finds it.
    private func createFallback() throws(PrivatePostgresError) -> String {
        FileTree.remove(unfinishedLink)
        var name = Array("\(Self.varLib)/cluster-XXXXXX".utf8CString)
        guard mkdtemp(&name) != nil else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("mkdtemp \(Self.varLib)"))")
        }
        let home = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        chmod(home, 0o711)
        guard symlink("\(home)/postgres", unfinishedLink) == 0 else {
            let error = SystemError("symlink \(unfinishedLink)")
            rmdir(home)
            throw PrivatePostgresError(.directoryUnusable, "\(error)")
        }
        return "\(home)/postgres"
    }

    /// Creates the cluster under a temporary name and renames it after it is synced.
    private func make(with programs: PostgresPrograms) throws(PrivatePostgresError) {
        // Programs of a start that was killed may still write there.
        try endProcesses(from: unfinished, names: ["initdb", "postgres"], by: [(SIGKILL, 5_000)])
        FileTree.remove(unfinished)
        if FileTree.status(directory) != nil, rmdir(directory) != 0 {
            throw PrivatePostgresError(
                .directoryUnusable, "\(directory) is not a PostgreSQL cluster and not empty: move it away")
        }
        guard mkdir(unfinished, 0o700) == 0,
            account == .own || lchown(unfinished, account.uid, account.gid) == 0
        else { throw PrivatePostgresError(.directoryUnusable, "\(SystemError("mkdir \(unfinished)"))") }
        let options = ["-A", "trust", "-U", Self.role, "--locale=C", "-E", "UTF8", "--no-instructions"]
        try initdb(programs, ["-D", unfinished, "--no-sync"] + options)
        try initdb(programs, ["-D", unfinished, "--sync-only"])
        guard rename(unfinished, directory) == 0 else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("rename \(unfinished)"))")
        }
        FileTree.sync(directory: parentDirectory(of: directory))
    }

    private func initdb(_ programs: PostgresPrograms, _ arguments: [String]) throws(PrivatePostgresError) {
        let result: (output: String, status: Int32)
        do {
            result = try PostgresProcess(
                programs.initdb, arguments, account: account, deathSignal: SIGKILL,
                workingDirectory: unfinished
            ).finish()
        } catch { throw PrivatePostgresError(.failed, "\(error)") }
        guard result.status == 0 else {
            FileTree.remove(unfinished)
            throw PrivatePostgresError(
                .failed, "initdb could not create \(directory): \(result.output.trimmed)")
        }
    }

    // MARK: Servers that outlived their Ferry

    /// Signals that end a server whose Ferry was killed, and the milliseconds to wait after each: a fast
    /// shutdown, an immediate one, which PostgreSQL itself enforces after 5 s, and a kill (postgres(1),
    /// "Notes").
    static let endSteps: [EndStep] = [(SIGINT, 5_000), (SIGQUIT, 7_000), (SIGKILL, 5_000)]
    typealias EndStep = (signal: Int32, milliseconds: Int64)

    /// Ends the processes of an earlier server of this cluster, and removes stale lock files that would
    /// prevent the next start. Call while holding the lock, so that no other Ferry starts a server here.
    ///
    /// A server whose Ferry was killed receives its death signal and usually shuts down within a second. A
    /// server in crash recovery may wait for its checkpointer forever.
    func removeEarlierServers(
        socketDirectory: String, by steps: [EndStep] = endSteps,
        notice: (String) -> Void = { _ in }
    ) throws(PrivatePostgresError) {
        try endProcesses(from: directory, by: steps, notice: notice)
        // Without /proc, the processes are unknown: PostgreSQL checks its lock files itself.
        guard FileTree.status("/proc/self/cwd") != nil else { return }
        removeIfStale(processFile)
        removeIfStale("\(socketDirectory)/\(Self.socketName).lock")
    }

    private func endProcesses(
        from directory: String, names: Set<String> = ["postgres"], by steps: [EndStep],
        notice: (String) -> Void = { _ in }
    ) throws(PrivatePostgresError) {
        func occupants() -> [PostgresOccupant] {
            PostgresOccupant.find(
                in: directory, names: names, account: account, recorded: processID(in: processFile))
        }
        var left = occupants()
        for (signal, milliseconds) in steps where !left.isEmpty {
            if signal != SIGINT, let first = left.first {
                notice(
                    "an earlier PostgreSQL server (process \(first.pid)) still runs in \(directory) "
                        + "and is sent \(signal == SIGQUIT ? "SIGQUIT" : "SIGKILL")")
            }
            let deadline = monotonicNanoseconds() + milliseconds * 1_000_000
            var signalled: Set<pid_t> = []
            while !left.isEmpty, monotonicNanoseconds() < deadline {
                // A server passes a shutdown to its children itself, except for SIGKILL.
                for occupant in left where signal == SIGKILL || !occupant.belongs(to: left) {
                    if signalled.insert(occupant.pid).inserted { occupant.signal(signal) }
                }
                _ = poll(nil, 0, 20)
                left = occupants()
            }
        }
        guard let first = left.first else { return }
        throw PrivatePostgresError(
            .inUse,
            "another PostgreSQL server (process \(first.pid)) runs in \(directory) and does not end: "
                + "stop it and start Ferry again")
    }

    /// Removes a lock file that PostgreSQL would respect although its server is gone: the file names no
    /// process, or its process ID now belongs to another process (after a restart of a container) or to a
    /// zombie. PostgreSQL replaces other stale lock files itself, after it has checked for users of their
    /// shared memory.
    private func removeIfStale(_ path: String) {
        guard access(path, F_OK) == 0 else { return }
        if let pid = processID(in: path), kill(pid, 0) != 0 { return }
        unlink(path)
    }

    /// Returns the process ID in the first line of a PostgreSQL lock file. It is negative there if the
    /// process serves no clients.
    private func processID(in path: String) -> pid_t? {
        let line = FileTree.text(of: path)?.split(separator: "\n", omittingEmptySubsequences: false).first
        guard let number = line.flatMap({ pid_t(String($0).trimmed) })?.magnitude,
            (1...Self.processIDMax).contains(number)
        else { return nil }
        return pid_t(number)
    }

    /// Returns the status in line 8 of postmaster.pid, such as `starting` or `ready`, or `nil` if `pid` has
    /// written none.
    func status(of pid: pid_t) -> String? {
        let lines = processFileLines
        return lines.count >= 8 && lines[0].trimmed == "\(pid)" ? lines[7].trimmed : nil
    }

    private var processFileLines: [String] {
        (FileTree.text(of: processFile) ?? "").split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }
}
