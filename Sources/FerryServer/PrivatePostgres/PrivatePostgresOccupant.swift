import CSys
import Glibc
import Sys

/// A PostgreSQL process whose working directory is a cluster.
///
/// It is identified by what the kernel reports, its name and working directory, never by a process ID in a
/// file. A descriptor refers to it (pidfd_open(2)), so that a signal never reaches another process that got
/// its process ID.
final class PostgresOccupant {
    let pid: pid_t
    /// Process ID of the process that started or adopted it.
    let parent: pid_t
    /// `nil` if it must not get signals and can only be waited for.
    private var descriptor: Int32?

    private init(pid: pid_t, parent: pid_t, descriptor: Int32?) {
        self.pid = pid
        self.parent = parent
        self.descriptor = descriptor
    }

    deinit { if let descriptor { close(descriptor) } }

    /// Returns the processes with one of `names` that work in `directory`, parents before their children.
    /// `recorded`: process ID in postmaster.pid. If the kernel does not report that process's working
    /// directory, it counts as well, but gets no signals.
    static func find(
        in directory: String, names: Set<String> = ["postgres"], account: PostgresProcess.Account,
        recorded: pid_t? = nil
    ) -> [PostgresOccupant] {
        guard let place = FileTree.status(directory) else { return [] }
        let found = directoryNames("/proc").compactMap { pid_t($0) }.compactMap { pid in
            identify(pid, names: names, place: place, account: account, recorded: recorded)
        }
        return found.filter { !$0.belongs(to: found) } + found.filter { $0.belongs(to: found) }
    }

    /// Returns `true` if one of `others` started this process: the children of a server follow the server.
    func belongs(to others: [PostgresOccupant]) -> Bool { others.contains { $0.pid == parent } }

    /// Sends a signal to this process only.
    func signal(_ number: Int32) {
        if let descriptor { _ = csys_pidfd_signal(descriptor, number) }
    }

    private static func identify(
        _ pid: pid_t, names: Set<String>, place: stat, account: PostgresProcess.Account, recorded: pid_t?
    ) -> PostgresOccupant? {
        guard let status = ProcessStatus(of: pid), names.contains(status.name) else { return nil }
        let descriptor = csys_pidfd_open(pid)
        let occupant = PostgresOccupant(
            pid: pid, parent: status.parent, descriptor: descriptor >= 0 ? descriptor : nil)
        // Information read now belongs to the process of the descriptor, unless it was reaped in the meantime
        // (checked below).
        let works = works(pid, in: place, account: account)
        guard works ?? (pid == recorded), let name = ProcessStatus(of: pid)?.name, names.contains(name) else {
            return nil
        }
        if descriptor >= 0, csys_pidfd_signal(descriptor, 0) != 0, errno == ESRCH { return nil }
        if works == nil { occupant.withholdSignals() }
        return occupant
    }

    /// Prevents signals to the process.
    private func withholdSignals() {
        if let descriptor { close(descriptor) }
        descriptor = nil
    }

    /// Returns `true` if the process works in the directory. `nil` if the kernel does not report that and the
    /// process has the account that runs the server.
    private static func works(_ pid: pid_t, in place: stat, account: PostgresProcess.Account) -> Bool? {
        var (device, inode) = (UInt64(0), UInt64(0))
        var result = csys_working_directory(pid, uid_t.max, gid_t.max, &device, &inode)
        if result != 0, errno == EACCES, account != .own {
            result = csys_working_directory(pid, account.uid, account.gid, &device, &inode)
        }
        guard result != 0 else { return device == place.st_dev && inode == place.st_ino }
        // A zombie has no working directory.
        guard errno == EACCES else { return false }
        let user = account == .own ? geteuid() : account.uid
        return FileTree.status("/proc/\(pid)")?.st_uid == user ? nil : false
    }
}

/// Process information from `/proc/PID/stat` (proc(5)).
struct ProcessStatus {
    let name: String
    let parent: pid_t

    /// `nil` if there is no such process.
    init?(of pid: pid_t) {
        guard let text = FileTree.text(of: "/proc/\(pid)/stat") else { return nil }
        self.init(parsing: text)
    }

    /// Parses `7 (name) S 1 …`. The name may contain parentheses and spaces.
    init?(parsing text: String) {
        guard let open = text.firstIndex(of: "("), let end = text.lastIndex(of: ")"), open < end else {
            return nil
        }
        let words = text[text.index(after: end)...].split(separator: " ")
        guard words.count > 1, let parent = pid_t(words[1]) else { return nil }
        name = String(text[text.index(after: open)..<end])
        self.parent = parent
    }
}
