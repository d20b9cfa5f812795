import FerryCore
import Glibc
import Sys

/// Files on the machine that runs the command.
enum LocalFile {
    /// Returns the bytes of a file, or of standard input for `-`. Throws if there are more than
    /// `byteCountMax`.
    static func read(_ path: String, byteCountMax: Int) throws(ClientFailure) -> [UInt8] {
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path) }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= byteCountMax else {
                throw ClientFailure(.usage, "\(path) has more than \(byteCountText(Int64(byteCountMax))).")
            }
        }
    }

    /// Returns the size of a regular file in bytes, or `nil` for other files.
    static func byteCount(_ path: String) throws(ClientFailure) -> Int64? {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path) }
        return status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : nil
    }

    static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Returns the last component of a name that a server sent, made safe as a file name, or `nil` if nothing
    /// remains.
    static func safeName(_ name: String?) -> String? {
        // Split by scalars, as file systems do: a slash before a combining mark is a character of its own in
        // Swift.
        let parts = name?.unicodeScalars.split(whereSeparator: { $0 == "/" || $0 == "\\" })
        guard let last = parts?.last else { return nil }
        let clean = NameCharacters.removingForbidden(from: String(String.UnicodeScalarView(last)))
        let isHidden = clean.utf8.first == UInt8(ascii: ".")
        return clean.isEmpty || isHidden || clean.utf8.count > 255 ? nil : clean
    }

    static func failure(_ path: String) -> ClientFailure {
        ClientFailure(.failed, "\(path): \(String(cString: strerror(errno)))")
    }
}

/// Writes a file under a temporary name and renames it when complete. An existing pipe or device is written
/// directly.
final class FileWriter {
    let path: String
    private let replaces: Bool
    private let partPath: String?
    private let descriptor: Int32
    private var isDone = false

    /// `replaces`: `true` to replace an existing file; otherwise `finish` fails if there is one.
    init(_ path: String, replaces: Bool) throws(ClientFailure) {
        self.path = path
        self.replaces = replaces
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            partPath = nil
            descriptor = open(path, O_WRONLY | O_CLOEXEC)
        } else {
            // In the same directory, for rename(2). Not derived from the name, which may have the maximum
            // length already.
            let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
            let directory = slash.map { path[..<path.utf8.index(after: $0)] } ?? ""
            let part = "\(directory).ferry-\(getpid())-\(UInt64.random(in: 0...UInt64.max)).part"
            partPath = part
            descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
        }
        guard descriptor >= 0 else { throw LocalFile.failure(path) }
    }

    deinit {
        close(descriptor)
        if !isDone, let partPath { unlink(partPath) }
    }

    /// Returns `false` if not all bytes could be written.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool { writeAll(bytes, to: descriptor) }

    /// Gives the file its name. Call once.
    func finish() throws(ClientFailure) {
        guard let partPath else { return }
        // link(2) never replaces an existing file.
        let code = replaces ? rename(partPath, path) : link(partPath, path)
        guard code == 0 else { throw LocalFile.failure(path) }
        if !replaces { unlink(partPath) }
        isDone = true
    }
}
