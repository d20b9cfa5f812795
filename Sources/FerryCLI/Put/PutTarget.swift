import FerryCore

/// A local file and the URL to which it is sent.
struct PutTarget: Sendable {
    /// Path of the file, or `-` for standard input.
    let file: String
    let url: String

    /// Name of the file without its directory; `nil` for standard input.
    var name: LocalPath? { Self.name(of: file) }

    private static func name(of file: String) -> LocalPath? {
        guard file != "-" else { return nil }
        let path = LocalPath(file)
        return LocalPath(bytes: Array(path.bytes.dropFirst(path.directory.bytes.count)))
    }

    /// Returns the targets of these files. If the URL ends with a slash, the name of the file is appended,
    /// percent-encoded. `isHandler`: `true` if the URL gets forms, and so stays as it is.
    ///
    /// Throws `usage` if two files have the same URL, or if a file is named twice. A URL that is not valid is
    /// found before files are staged.
    static func all(
        _ files: [String], url: String, isHandler: Bool
    ) throws(ClientFailure) -> [PutTarget] {
        var known: Set<String> = []
        var targets: [PutTarget] = []
        for file in files {
            var target = PutTarget(file: file, url: url)
            if let name = target.name, url.hasSuffix("/"), !isHandler {
                target = PutTarget(file: file, url: url + encoded(name))
            }
            guard known.insert(isHandler ? file : target.url).inserted else {
                throw ClientFailure(
                    .usage,
                    isHandler
                        ? "\(LocalPath(file).text) is given twice."
                        : "Several files have the URL \(target.url). Give them different names.")
            }
            do throws(WebURL.Failure) {
                _ = try WebURL.parse(target.url)
            } catch {
                throw ClientFailure(.usage, "\(target.url): \(error.message)")
            }
            targets.append(target)
        }
        return targets
    }

    private static func encoded(_ name: LocalPath) -> String {
        if let text = String(validating: name.bytes, as: UTF8.self) { return percentEncoded(text) }
        var bytes: [UInt8] = []
        for byte in name.bytes {
            if byte < 0x80 {
                bytes += Array(percentEncoded(String(Unicode.Scalar(byte))).utf8)
            } else {
                appendPercentEncoded(byte, to: &bytes)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
