import FerryCore
import Glibc
import OpenSSL
import Sys

/// A local file, a pipe or standard input, open for reading.
final class OutgoingFile {
    /// Bytes of the file.
    enum Content {
        /// A small file, read whole.
        case whole([UInt8])
        /// A larger file, which stays on the disk.
        case large(Version)
        /// First bytes of a pipe that has more.
        case stream([UInt8])
    }

    /// Size and times of a file. A file with the same version has the same bytes: each change sets the time
    /// of the last status change (inode(7)).
    struct Version: Equatable {
        let byteCount: Int64
        let modified: [Int64]
        let changed: [Int64]

        init(_ status: stat) {
            byteCount = Int64(status.st_size)
            modified = [Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec)]
            changed = [Int64(status.st_ctim.tv_sec), Int64(status.st_ctim.tv_nsec)]
        }
    }

    let path: LocalPath
    let content: Content
    private let descriptor: Int32

    /// Opens a file, or standard input for `-`. `byteCountMax`: largest size of a small file.
    init(_ argument: String, byteCountMax: Int) throws(ClientFailure) {
        let path = argument == "-" ? LocalPath("standard input") : LocalPath(argument)
        self.path = path
        let descriptor =
            argument == "-" ? STDIN_FILENO : path.call { open($0, O_RDONLY | O_CLOEXEC) }
        self.descriptor = descriptor
        guard descriptor >= 0 else { throw LocalFile.failure(path) }
        do throws(ClientFailure) {
            content = try Self.content(descriptor, path, byteCountMax)
        } catch {
            if descriptor != STDIN_FILENO { close(descriptor) }
            throw error
        }
    }

    deinit {
        if descriptor != STDIN_FILENO { close(descriptor) }
    }

    /// Milliseconds within which two changes may have the same time: more than a tick of the kernel's clock.
    private static let tickMilliseconds: Int32 = 20

    private static func content(
        _ descriptor: Int32, _ path: LocalPath, _ byteCountMax: Int
    ) throws(ClientFailure) -> Content {
        var status = try status(descriptor, path)
        guard status.st_mode & S_IFMT != S_IFDIR else { throw LocalFile.failure(path, EISDIR) }
        let isFile = status.st_mode & S_IFMT == S_IFREG && descriptor != STDIN_FILENO
        if isFile, status.st_size > byteCountMax {
            let changedAt = Int64(status.st_ctim.tv_sec) * 1_000_000 + Int64(status.st_ctim.tv_nsec) / 1_000
            if wallMicroseconds() - changedAt < Int64(tickMilliseconds) * 1_000 {
                poll(nil, 0, tickMilliseconds)
                status = try Self.status(descriptor, path)
            }
            return .large(Version(status))
        }
        let bytes = try read(descriptor, path, byteCountMax + 1)
        guard bytes.count > byteCountMax else { return .whole(bytes) }
        // The file has grown since; its end is not known.
        return .stream(bytes)
    }

    private static func status(_ descriptor: Int32, _ path: LocalPath) throws(ClientFailure) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw LocalFile.failure(path) }
        return status
    }

    /// Reads so many bytes; fewer at the end of the file.
    private static func read(
        _ descriptor: Int32, _ path: LocalPath, _ byteCount: Int
    ) throws(ClientFailure) -> [UInt8] {
        var code: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, filled in
            while filled < byteCount {
                let count = Glibc.read(
                    descriptor, buffer.baseAddress.map { $0 + filled }, byteCount - filled)
                if count < 0, errno == EINTR { continue }
                if count < 0 { code = errno }
                guard count > 0 else { return }
                filled += count
            }
        }
        guard code == 0 else { throw LocalFile.failure(path, code) }
        return bytes
    }

    /// Reads the next bytes of a stream: so many, or fewer at its end.
    func next(_ byteCount: Int) throws(ClientFailure) -> [UInt8] {
        try Self.read(descriptor, path, byteCount)
    }

    /// Copies bytes of a large file from `offset` on. Returns how many, 0 at its end, −1 with errno if it
    /// cannot be read.
    func copy(from offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            if count >= 0 || errno != EINTR { return count }
        }
    }

    /// Throws if the file is not the one any more that it was.
    func check(is version: Version) throws(ClientFailure) {
        guard Version(try Self.status(descriptor, path)) == version else { throw changed }
    }

    var changed: ClientFailure {
        ClientFailure(
            .failed, "\(path.text) changed while it was sent. Run the command again when it is complete.")
    }

    /// Name of the staged upload of this version of the file for a URL: the same in each run.
    func stagingName(_ version: Version, url: String) -> String {
        let whole = path.call { realpath($0, nil) }
        defer { free(whole) }
        var digest = Digest(.sha256)
        if let whole { digest.update(UnsafeRawBufferPointer(start: whole, count: strlen(whole))) }
        let numbers = [version.byteCount] + version.modified + version.changed
        digest.update(Array("\0\(numbers)\0\(url)".utf8))
        return "put-" + hexEncoded(Array(digest.finish().prefix(16)))
    }
}
