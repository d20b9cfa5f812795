import FerryCore
import Glibc
import Sys

/// Files of the machine on which the command runs.
enum LocalFile {
    /// The bytes of a file, or of standard input for `-`. Throws when it has more than `byteCountMax`.
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
                throw ClientFailure(.usage, "\(path): more than \(byteCountText(Int64(byteCountMax))).")
            }
        }
    }

    /// Bytes of a regular file; nil for anything else.
    static func byteCount(_ path: String) throws(ClientFailure) -> Int64? {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure(path) }
        return status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : nil
    }

    static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// The last part of a name that a server gave, fit to be a file here; nil when nothing is left.
    static func safeName(_ name: String?) -> String? {
        // By scalars, as file systems see them: a slash before a combining mark is a character of its own.
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

/// A file that appears under its name when it is whole. What exists and is no regular file (a pipe, a device)
/// is written directly.
final class FileWriter {
    let path: String
    private let replaces: Bool
    private let partPath: String?
    private let descriptor: Int32
    private var isDone = false

    /// `replaces`: an existing file gives way; otherwise `finish` fails.
    init(_ path: String, replaces: Bool) throws(ClientFailure) {
        self.path = path
        self.replaces = replaces
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            partPath = nil
            descriptor = open(path, O_WRONLY | O_CLOEXEC)
        } else {
            // The name may be as long as names can be, and what it is told by has to be in its directory.
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

    /// False when the file cannot take everything.
    func write(_ bytes: UnsafeRawBufferPointer) -> Bool { writeAll(bytes, to: descriptor) }

    /// Gives the file its name. Call once.
    func finish() throws(ClientFailure) {
        guard let partPath else { return }
        // link(2) never replaces what is there.
        let code = replaces ? rename(partPath, path) : link(partPath, path)
        guard code == 0 else { throw LocalFile.failure(path) }
        if !replaces { unlink(partPath) }
        isDone = true
    }
}
