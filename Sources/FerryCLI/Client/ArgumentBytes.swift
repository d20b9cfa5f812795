/// Arguments as texts from which their bytes can be restored. File names on Linux are bytes, and Swift's
/// `CommandLine.arguments` replaces those that are not UTF-8.
package enum ArgumentBytes {
    /// Scalar for the byte 0; the scalars for the other bytes follow it. They are at the end of the
    /// private-use plane 16.
    private static let first: UInt32 = 0x10_FE00
    private static let scalars = first..<(first + 256)

    /// Arguments of the process without the program's name.
    package static let all: [String] = raw.map {
        isEscaped ? escaped($0) : String(decoding: $0, as: UTF8.self)
    }

    /// `true` if an argument of the process is not UTF-8: all arguments are escaped then.
    private static let isEscaped = raw.contains { String(validating: $0, as: UTF8.self) == nil }

    private static let raw: [[UInt8]] = {
        var arguments: [[UInt8]] = []
        for index in 0..<Int(CommandLine.argc) {
            guard let argument = CommandLine.unsafeArgv[index] else { break }
            var bytes: [UInt8] = []
            var end = argument
            while end.pointee != 0 {
                bytes.append(UInt8(bitPattern: end.pointee))
                end += 1
            }
            arguments.append(bytes)
        }
        return Array(arguments.dropFirst())
    }()

    /// Returns the bytes of an argument, or of a part of one.
    static func bytes(of text: String) -> [UInt8] { isEscaped ? unescaped(text) : Array(text.utf8) }

    /// Returns the text with one scalar of the private-use plane for each byte that is not UTF-8, and for
    /// each byte of such a scalar.
    static func escaped(_ bytes: [UInt8]) -> String {
        var text = String.UnicodeScalarView()
        var rest = bytes[...]
        while let byte = rest.first {
            // The shortest valid prefix is one scalar: no prefix of a scalar's bytes is valid.
            let scalar = (1...4).lazy.filter { $0 <= rest.count }
                .compactMap { String(validating: rest.prefix($0), as: UTF8.self)?.unicodeScalars.first }.first
            if let scalar, !scalars.contains(scalar.value) {
                text.append(scalar)
                rest = rest.dropFirst(String(scalar).utf8.count)
            } else {
                if let replacement = Unicode.Scalar(first + UInt32(byte)) { text.append(replacement) }
                rest = rest.dropFirst()
            }
        }
        return String(text)
    }

    /// Returns the bytes from which `escaped` made a text.
    static func unescaped(_ text: String) -> [UInt8] {
        text.unicodeScalars.flatMap { scalar in
            scalars.contains(scalar.value) ? [UInt8(scalar.value - first)] : Array(String(scalar).utf8)
        }
    }
}

/// Path of a local file: bytes without NUL.
struct LocalPath: Equatable {
    let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    /// Path from an argument of the command.
    init(_ argument: String) { bytes = ArgumentBytes.bytes(of: argument) }

    /// Path for messages; bytes that are not UTF-8 are replaced.
    var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Directory of the last name with its slash; empty for a path that is only a name.
    var directory: LocalPath {
        LocalPath(bytes: Array(bytes[..<((bytes.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1)]))
    }

    /// Path of a name in this directory.
    func appending(_ name: [UInt8]) -> LocalPath {
        let needsSlash = !bytes.isEmpty && bytes.last != UInt8(ascii: "/")
        return LocalPath(bytes: bytes + (needsSlash ? [UInt8(ascii: "/")] : []) + name)
    }

    /// Passes the path to a kernel call. The pointer is valid during the call.
    func call<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        let characters = bytes.map { CChar(bitPattern: $0) } + [0]
        return body(characters)
    }
}
