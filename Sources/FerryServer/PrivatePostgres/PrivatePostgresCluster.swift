import Glibc
import Sys

/// The files of the private PostgreSQL below Ferry's data directory, and who may touch them.
///
/// `postgres` is the cluster, `postgres.new` one that initdb has not finished, `postgres.lock` says which
/// Ferry owns them, `postgres.log` is what the server says. `postgres` may be a symbolic link to a cluster
/// that was moved; as root, below a directory that the server's user may not pass (such as /root), it is made
/// as one, to a cluster below /var/lib/ferry. Until that is whole the link is called `postgres.new`.
struct PostgresCluster {
    /// Ferry's data directory: absolute, free of symbolic links.
    let parent: String
    let account: PostgresProcess.Account
    /// The cluster itself: in `parent`, or where the link there leads.
    private(set) var directory: String
    /// It is to be made below /var/lib/ferry.
    private var isMovingOut = false

    var log: String { "\(parent)/postgres.log" }
    /// The cluster as Ferry's data directory has it.
    private var link: String { "\(parent)/postgres" }
    private var unfinished: String { "\(directory).new" }
    private var unfinishedLink: String { "\(link).new" }
    private var processFile: String { "\(directory)/postmaster.pid" }

    /// The role that initdb makes; the database is `postgres`.
    static let role = "ferry"
    /// The longest path that a Unix socket can have (unix(7): 108 bytes with the closing zero).
    static let socketPathByteCountMax = 107
    static let socketName = ".s.PGSQL.5432"
    /// The kernel gives no process a higher number (PID_MAX_LIMIT, proc(5)).
    static let processIDMax: UInt32 = 1 << 22
    /// Where clusters go whose data directory is out of reach for the user who runs the server.
    static let refuge = "/var/lib/ferry"

    init(parent: String, account: PostgresProcess.Account) {
        self.parent = parent
        self.account = account
        directory = "\(parent)/postgres"
    }

    // MARK: Directories

    /// Creates Ferry's data directory if need be, and makes sure that `account` can reach the cluster in it.
    static func prepare(
        dataDirectory: String, userName: String?
    ) throws(PrivatePostgresError) -> PostgresCluster {
        let account = try findAccount(userName)
        do { try createDirectory(absolutePath(dataDirectory), mode: 0o711) } catch {
            throw PrivatePostgresError(.directoryUnusable, "the data directory cannot be created: \(error)")
        }
        guard let parent = FileTree.resolved(dataDirectory) else {
            throw PrivatePostgresError(.directoryUnusable, "the data directory \(dataDirectory) is not there")
        }
        var cluster = PostgresCluster(parent: parent, account: account)
        try cluster.followLink()
        if account != .own { try cluster.openTheWay(userName ?? "postgres") }
        return cluster
    }

    /// PostgreSQL refuses to run as root; anybody else runs it as themselves.
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

    /// A cluster that was moved is never made anew: where nothing is, its disk may not be mounted. Throws
    /// also when nobody can tell.
    mutating func followLink() throws(PrivatePostgresError) {
        guard let target = FileTree.target(ofLink: link) else { return }
        directory = FileTree.resolved(link) ?? link
        guard try majorVersion != nil else {
            throw PrivatePostgresError(
                .directoryUnusable,
                "\(link) is a link to \(target), and there is no cluster of PostgreSQL: mount the disk that "
                    + "holds it, or remove the link for a new, empty database")
        }
    }

    /// The data directory is ours to open for passing through; what is above it is not.
    private mutating func openTheWay(_ user: String) throws(PrivatePostgresError) {
        if let status = FileTree.status(parent), status.st_uid == geteuid(), status.st_mode & 0o001 == 0 {
            chmod(parent, (status.st_mode | 0o001) & 0o7777)
        }
        if directory == link, let closed = FileTree.firstClosedDirectory(onTheWayTo: link, for: account) {
            guard FileTree.status(link) == nil, isRefugeOpen else {
                throw PrivatePostgresError(
                    .directoryUnusable,
                    "the user \(user), who runs the private PostgreSQL, may not pass \(closed) on the way to "
                        + "\(link): set FERRY_DATA_DIR to a place such as \(Self.refuge), or allow it with "
                        + "chmod o+x \(closed)")
            }
            isMovingOut = true
        }
        if let status = FileTree.status(directory), status.st_uid != account.uid {
            throw PrivatePostgresError(
                .directoryUnusable,
                "\(directory) belongs to the user with the number \(status.st_uid) and not to \(user): name "
                    + "the owner in FERRY_POSTGRES_USER, or hand it over with chown -R \(user) \(directory)")
        }
    }

    private var isRefugeOpen: Bool {
        mkdir(Self.refuge, 0o711)
        return FileTree.firstClosedDirectory(onTheWayTo: "\(Self.refuge)/cluster", for: account) == nil
    }

    /// Where the socket goes: the cluster, which only its user can enter, or a short directory like it.
    /// `runtime`: the directory for the sockets of the user who runs Ferry.
    func socketDirectory(
        runtime: String? = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) }
    ) throws(PrivatePostgresError) -> String {
        if "\(directory)/\(Self.socketName)".utf8.count <= Self.socketPathByteCountMax { return directory }
        guard let status = FileTree.status(parent) else { return directory }
        let user = account == .own ? geteuid() : account.uid
        // The same for each start, so that a killed Ferry leaves one empty directory and not many.
        let name = "ferry-\(user)-\(status.st_dev)-\(status.st_ino)"
        // It goes with the last session of its user.
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

    /// Creates the directory that `socketDirectory` has chosen, unless it is the cluster or exists.
    func makeSocketDirectory(_ path: String) throws(PrivatePostgresError) {
        guard path != directory else { return }
        let user = account == .own ? geteuid() : account.uid
        mkdir(path, 0o700)
        var found = stat()
        // Root's own, without access for others: a start was interrupted before it handed the directory over.
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
                "\(path), meant for the socket of the private PostgreSQL, is somebody else's: remove it, or "
                    + "set FERRY_DATA_DIR to a shorter path")
        }
    }

    // MARK: The lock

    /// Takes the directory for this process until the descriptor is closed; a second Ferry is refused
    /// after `milliseconds`.
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

    /// The major version that made the cluster; nil when there is none. What cannot be read may be there.
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

    /// Makes a cluster, all of it or nothing.
    mutating func create(with programs: PostgresPrograms) throws(PrivatePostgresError) {
        guard isMovingOut else { return try make(with: programs) }
        if let begun = begunElsewhere() { directory = begun } else { directory = try beginElsewhere() }
        if try majorVersion == nil { try make(with: programs) }
        // After it: this link always leads to a whole cluster.
        guard rename(unfinishedLink, link) == 0 else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("rename \(unfinishedLink)"))")
        }
        FileTree.sync(directory: parent)
    }

    /// Where a start that was interrupted was about to make the cluster.
    private func begunElsewhere() -> String? {
        guard let begun = FileTree.target(ofLink: unfinishedLink) else { return nil }
        return FileTree.status(parentDirectory(of: begun)) == nil ? nil : begun
    }

    /// A place for the cluster that the next start finds as well.
    private func beginElsewhere() throws(PrivatePostgresError) -> String {
        FileTree.remove(unfinishedLink)
        var name = Array("\(Self.refuge)/cluster-XXXXXX".utf8CString)
        guard mkdtemp(&name) != nil else {
            throw PrivatePostgresError(.directoryUnusable, "\(SystemError("mkdtemp \(Self.refuge)"))")
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

    /// It gets its name when it is on stable storage.
    private func make(with programs: PostgresPrograms) throws(PrivatePostgresError) {
        // The programs of a start that was killed write there for a moment longer.
        try evict(from: unfinished, names: ["initdb", "postgres"], by: [(SIGKILL, 5_000)])
        FileTree.remove(unfinished)
        if FileTree.status(directory) != nil, rmdir(directory) != 0 {
            throw PrivatePostgresError(
                .directoryUnusable, "\(directory) is no cluster of PostgreSQL and not empty: move it away")
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

    /// How a server that outlived its Ferry is ended: by a fast shutdown, an immediate one, which PostgreSQL
    /// itself enforces after 5 s, and a kill (postgres(1), "Notes"); and the milliseconds that each may take.
    static let evictionSteps: [EvictionStep] = [(SIGINT, 5_000), (SIGQUIT, 7_000), (SIGKILL, 5_000)]
    typealias EvictionStep = (signal: Int32, milliseconds: Int64)

    /// Ends what is left of an earlier server of this cluster, and removes lock files that would stop the
    /// next one although no server lives. Call with the lock: no other Ferry has started a server here since.
    ///
    /// A server whose Ferry was killed shuts down by its death signal, within a second as a rule. One that
    /// was recovering from a crash may wait for its checkpointer for ever.
    func vacate(
        socketDirectory: String, by steps: [EvictionStep] = evictionSteps,
        notice: (String) -> Void = { _ in }
    ) throws(PrivatePostgresError) {
        try evict(from: directory, by: steps, notice: notice)
        // Without /proc nobody knows: PostgreSQL judges by its own means.
        guard FileTree.status("/proc/self/cwd") != nil else { return }
        removeIfStale(processFile)
        removeIfStale("\(socketDirectory)/\(Self.socketName).lock")
    }

    private func evict(
        from directory: String, names: Set<String> = ["postgres"], by steps: [EvictionStep],
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
                    "an earlier PostgreSQL server (process \(first.pid)) still works in \(directory); "
                        + "it gets \(signal == SIGQUIT ? "SIGQUIT" : "SIGKILL")")
            }
            let deadline = monotonicNanoseconds() + milliseconds * 1_000_000
            var told: Set<pid_t> = []
            while !left.isEmpty, monotonicNanoseconds() < deadline {
                // A server tells its children itself what it shuts down for; it cannot after a kill.
                for occupant in left where signal == SIGKILL || !occupant.belongs(to: left) {
                    if told.insert(occupant.pid).inserted { occupant.signal(signal) }
                }
                _ = poll(nil, 0, 20)
                left = occupants()
            }
        }
        guard let first = left.first else { return }
        throw PrivatePostgresError(
            .inUse,
            "a PostgreSQL server (process \(first.pid)) that this Ferry did not start works in \(directory) "
                + "and does not end: stop it, and start Ferry again")
    }

    /// Removes a lock file that PostgreSQL would respect although its server is gone: the file names no
    /// process, or its number is another process's by now (after a restart of a container), or that of a
    /// zombie. Other stale ones PostgreSQL replaces, after it has looked for what uses their shared memory.
    private func removeIfStale(_ path: String) {
        guard access(path, F_OK) == 0 else { return }
        if let pid = processID(in: path), kill(pid, 0) != 0 { return }
        unlink(path)
    }

    /// The process that a lock file of PostgreSQL names in its first line; with a minus sign if it serves no
    /// clients.
    private func processID(in path: String) -> pid_t? {
        let line = FileTree.text(of: path)?.split(separator: "\n", omittingEmptySubsequences: false).first
        guard let number = line.flatMap({ pid_t(String($0).trimmed) })?.magnitude,
            (1...Self.processIDMax).contains(number)
        else { return nil }
        return pid_t(number)
    }

    /// What `pid` says about itself: `starting`, `ready` (line 8 of postmaster.pid). Nil: nothing yet.
    func status(of pid: pid_t) -> String? {
        let lines = processFileLines
        return lines.count >= 8 && lines[0].trimmed == "\(pid)" ? lines[7].trimmed : nil
    }

    private var processFileLines: [String] {
        (FileTree.text(of: processFile) ?? "").split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
    }
}
