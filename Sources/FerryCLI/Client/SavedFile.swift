import FerryCore
import Glibc
import Sys

/// The place at which a command saves a file: `-o`, or the working directory. Checked before a job is
/// submitted.
struct SavedFile {
    private enum Place {
        case standardOutput
        case file(LocalPath)
        /// The server suggests the name of the file.
        case directory(LocalPath)
    }

    private let place: Place

    /// `output`: a file, a directory, `-` for standard output, or `nil` for the working directory. Throws if
    /// no file can be written there.
    init(_ output: String?) throws(ClientFailure) {
        guard output != "-" else {
            // An inherited descriptor may be closed, or opened for reading only.
            let flags = fcntl(STDOUT_FILENO, F_GETFL)
            guard flags >= 0, flags & O_ACCMODE != O_RDONLY else {
                throw ClientFailure(.failed, "Standard output is closed.")
            }
            place = .standardOutput
            return
        }
        guard output != "" else { throw ClientFailure(.usage, "The name of the output file is empty.") }
        let path = output.map { LocalPath($0) } ?? LocalPath(bytes: [])
        if output == nil || LocalFile.isDirectory(path) {
            try Self.checkDirectory(path)
            place = .directory(path)
        } else {
            try Self.check(path)
            place = .file(path)
        }
    }

    /// Saves the content of a finished job, and returns the path of the file, or `nil` for standard output. A
    /// signal removes the temporary file and names the job. `suggested`: the name from the server for a file
    /// in a directory; it does not replace an existing file.
    func save(
        _ content: Content, of id: String, suggested: String, to console: Console
    ) throws(ClientFailure) -> LocalPath? {
        Interruption.arm(
            "Interrupted: the service keeps the file of \(id). To fetch it: ferry content \(id) -o FILE")
        let writer: FileWriter
        switch place {
        case .standardOutput:
            try content.fetch { console.out($0) }
            return nil
        case .file(let path): writer = try FileWriter(path, replaces: true)
        case .directory(let path):
            writer = try FileWriter(path.appending(Array(suggested.utf8)), replaces: false)
        }
        try content.fetch { writer.write($0) }
        try writer.finish()
        return writer.path
    }

    private static func check(_ path: LocalPath) throws(ClientFailure) {
        var status = stat()
        if path.call({ stat($0, &status) }) == 0 {
            guard status.st_mode & S_IFMT != S_IFSOCK else { throw LocalFile.failure(path, ENXIO) }
            guard path.call({ faccessat(AT_FDCWD, $0, W_OK, AT_EACCESS) }) == 0 else {
                throw LocalFile.failure(path)
            }
            // A pipe or a device is written directly.
            guard status.st_mode & S_IFMT == S_IFREG else { return }
        } else {
            guard errno == ENOENT else { throw LocalFile.failure(path) }
        }
        let target = try resolved(path)
        guard target.bytes.last != UInt8(ascii: "/") else { throw LocalFile.failure(path, ENOTDIR) }
        try checkDirectory(target.directory)
    }

    /// Throws unless files can be created in the directory.
    private static func checkDirectory(_ path: LocalPath) throws(ClientFailure) {
        let directory = path.bytes.isEmpty ? LocalPath(bytes: [UInt8(ascii: ".")]) : path
        guard LocalFile.isDirectory(directory) else { throw LocalFile.failure(directory, ENOENT) }
        guard directory.call({ faccessat(AT_FDCWD, $0, W_OK | X_OK, AT_EACCESS) }) == 0 else {
            throw LocalFile.failure(directory)
        }
    }

    /// Returns the path of the file to which symbolic links lead; the file need not exist.
    static func resolved(_ path: LocalPath) throws(ClientFailure) -> LocalPath {
        var current = path
        // The kernel's limit (path_resolution(7)).
        for _ in 0..<40 {
            var status = stat()
            guard current.call({ lstat($0, &status) }) == 0, status.st_mode & S_IFMT == S_IFLNK else {
                return current
            }
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
            let count = current.call { readlink($0, &buffer, Int(PATH_MAX)) }
            guard count > 0 else { throw LocalFile.failure(current) }
            let link = buffer[..<count].map { UInt8(bitPattern: $0) }
            let isAbsolute = link.first == UInt8(ascii: "/")
            current = isAbsolute ? LocalPath(bytes: link) : current.directory.appending(link)
        }
        throw LocalFile.failure(path, ELOOP)
    }
}

/// Writes a file under a temporary name and renames it when complete. An existing pipe or device is written
/// directly. The target of a symbolic link is replaced, not the link.
final class FileWriter {
    let path: LocalPath
    private let target: LocalPath
    private let replaces: Bool
    private let partPath: LocalPath?
    private var descriptor: Int32
    private var isDone = false

    /// `replaces`: `true` to replace an existing file, whose mode and owner are kept; otherwise `finish`
    /// fails if there is one.
    init(_ path: LocalPath, replaces: Bool) throws(ClientFailure) {
        self.path = path
        self.replaces = replaces
        var status = stat()
        let exists = path.call { stat($0, &status) } == 0
        if exists, status.st_mode & S_IFMT != S_IFREG {
            target = path
            partPath = nil
            descriptor = path.call { open($0, O_WRONLY | O_CLOEXEC) }
        } else {
            target = replaces ? try SavedFile.resolved(path) : path
            // In the same directory, for rename(2). Not derived from the name, which may have the maximum
            // length already.
            let name = ".ferry-\(getpid())-\(UInt64.random(in: 0...UInt64.max)).part"
            let part = target.directory.appending(Array(name.utf8))
            partPath = part
            Interruption.remove(part)
            let mode: mode_t = replaces && exists ? 0o600 : 0o666
            descriptor = part.call { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) }
            if descriptor >= 0, replaces, exists { Self.keepAccess(of: status, on: descriptor) }
        }
        guard descriptor >= 0 else { throw LocalFile.failure(path) }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
        if !isDone, let partPath { _ = partPath.call { unlink($0) } }
    }

    /// Gives the new file the owner, if this process may, and the mode of the one that it replaces. The set
    /// bits of set-user-ID, set-group-ID and sticky are dropped, as write(2) does.
    private static func keepAccess(of old: stat, on descriptor: Int32) {
        if fchown(descriptor, old.st_uid, old.st_gid) != 0 { _ = fchown(descriptor, uid_t.max, old.st_gid) }
        var new = stat()
        var mode = old.st_mode & 0o777
        if fstat(descriptor, &new) != 0 || new.st_gid != old.st_gid {
            // Members of either group get only what both classes had.
            let common = (mode >> 3) & mode & 0o7
            mode = mode & 0o700 | common << 3 | common
        }
        // After an error the mode stays 0600, which is narrower.
        _ = fchmod(descriptor, mode)
    }

    /// Returns `false` if not all bytes could be written.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool { writeAll(bytes, to: descriptor) }

    /// Gives the file its name. Call once.
    func finish() throws(ClientFailure) {
        // File servers report some errors of writing here only.
        let isClosed = close(descriptor) == 0
        descriptor = -1
        guard isClosed else { throw LocalFile.failure(path) }
        guard let partPath else { return }
        let code = partPath.call { part in
            target.call { replaces ? rename(part, $0) : renameNoReplace(part, $0) }
        }
        guard code == 0 else { throw LocalFile.failure(path) }
        isDone = true
    }
}
