import Glibc
import Sys

/// File system queries of the private PostgreSQL.
enum FileTree {
    /// Returns the absolute path without symbolic links, or `nil` if it does not exist (realpath(3)).
    static func resolved(_ path: String) -> String? {
        guard let raw = realpath(path, nil) else { return nil }
        defer { free(raw) }
        return String(cString: raw)
    }

    /// Returns the target of a symbolic link, or `nil` if the file is not one.
    static func target(ofLink path: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(path, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Returns the result of stat(2), which follows links, or `nil` after an error.
    static func status(_ path: String) -> stat? {
        var status = stat()
        return stat(path, &status) == 0 ? status : nil
    }

    /// Returns a small file as text, or `nil` if it cannot be read. The reason does not matter: callers treat
    /// both as no file.
    static func text(of path: String) -> String? {
        // All callers treat an unreadable file as a missing one.
        (try? readFile(path, byteCountMax: 4096)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Removes a file or a directory with its content, without following links. Ignores a missing file.
    static func remove(_ path: String) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            unlink(path)
            return
        }
        for name in directoryNames(path) { remove("\(path)/\(name)") }
        rmdir(path)
    }

    /// Makes renames in a directory durable. Errors are ignored: after a crash, the next start repeats the
    /// work.
    static func sync(directory: String) { try? syncDirectory(directory) }

    /// Returns the first directory above `path` that `account` may not pass, by mode bits, or `nil` if there
    /// is none.
    static func firstClosedDirectory(above path: String, for account: PostgresProcess.Account) -> String? {
        var ancestors: [String] = []
        var current = path
        while current != "/" && current != "." {
            current = parentDirectory(of: current)
            ancestors.append(current)
        }
        return ancestors.reversed().first { directory in
            guard let status = status(directory) else { return true }
            let bit: mode_t =
                status.st_uid == account.uid ? 0o100 : status.st_gid == account.gid ? 0o010 : 0o001
            return status.st_mode & bit == 0
        }
    }
}

/// Log of the server: a file and its predecessor, each of limited size.
final class BoundedLog {
    /// Size in bytes at which the file becomes the predecessor.
    static let byteCountMax = 4 << 20

    private let path: String
    private var descriptor: Int32
    private var byteCount: Int
    /// The last 2,048 bytes, for error messages.
    private(set) var tail: [UInt8] = []

    /// Opens `path` for appending. If that fails, only `tail` is kept: a missing log must not prevent the
    /// start.
    init(path: String) {
        self.path = path
        descriptor = Self.open(path)
        byteCount = FileTree.status(path).map { Int($0.st_size) } ?? 0
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func append(_ bytes: [UInt8]) {
        tail = Array((tail + bytes).suffix(2048))
        guard descriptor >= 0 else { return }
        if byteCount + bytes.count > Self.byteCountMax {
            close(descriptor)
            rename(path, "\(path).1")
            descriptor = Self.open(path)
            byteCount = 0
        }
        byteCount += max(0, write(descriptor, bytes, bytes.count))
    }

    /// Clears `tail`, so that the next error quotes only the next server.
    func forgetTail() { tail = [] }

    private static func open(_ path: String) -> Int32 {
        Glibc.open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o640)
    }
}
