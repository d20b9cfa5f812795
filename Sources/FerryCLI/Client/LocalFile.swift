import FerryCore
import Glibc
import Sys

/// Files on the machine that runs the command.
enum LocalFile {
    /// Returns the bytes of a file, or of standard input for `-`. Throws if there are more than
    /// `byteCountMax`.
    static func read(_ path: String, byteCountMax: Int) throws(ClientFailure) -> [UInt8] {
        let file = LocalPath(path)
        let descriptor = path == "-" ? STDIN_FILENO : file.call { open($0, O_RDONLY | O_CLOEXEC) }
        guard descriptor >= 0 else { throw failure(file) }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(file) }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
            guard bytes.count <= byteCountMax else {
                throw ClientFailure(
                    .usage, "\(file.text) has more than \(byteCountText(Int64(byteCountMax))).")
            }
        }
    }

    /// Returns a text of at most the size of a PEM text.
    static func readPEM(_ path: String) throws(ClientFailure) -> String {
        let bytes = try read(path, byteCountMax: Limits.pemByteCountMax)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw ClientFailure(.usage, "\(path) is not UTF-8 text.")
        }
        return text
    }

    /// Returns the secret in a file, without the line end.
    static func readSecret(_ path: String) throws(ClientFailure) -> String {
        var text = try readPEM(path)
        while text.last?.isNewline == true { text.removeLast() }
        return text
    }

    /// Like `read`, without the byte order mark that some editors write before JSON (RFC 8259 §8.1).
    static func readJSON(_ path: String, byteCountMax: Int) throws(ClientFailure) -> [UInt8] {
        let bytes = try read(path, byteCountMax: byteCountMax)
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        return bytes.starts(with: mark) ? Array(bytes.dropFirst(mark.count)) : bytes
    }

    static func isDirectory(_ path: LocalPath) -> Bool {
        var status = stat()
        return path.call { stat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
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

    /// Failure with the text of an errno.
    static func failure(_ path: LocalPath, _ code: Int32 = errno) -> ClientFailure {
        ClientFailure(.failed, "\(path.text): \(String(cString: strerror(code)))")
    }
}
