import Glibc

/// Where a command writes: data to standard output, everything else to standard error.
package struct Console: Sendable {
    /// The console of the running command; tests set their own.
    @TaskLocal package static var current = Console.standard

    /// Writes all bytes; false when nobody reads any more.
    package var out: @Sendable (UnsafeRawBufferPointer) -> Bool
    package var err: @Sendable (String) -> Void
    package var outIsTerminal: Bool
    package var errIsTerminal: Bool
    /// Whether the terminal moves its cursor (`TERM` is not `dumb`).
    package var isCapable: Bool
    package var allowsColor: Bool
    /// Columns.
    package var width: @Sendable () -> Int

    package init(
        out: @escaping @Sendable (UnsafeRawBufferPointer) -> Bool, err: @escaping @Sendable (String) -> Void,
        isTerminal: Bool = false
    ) {
        self.out = out
        self.err = err
        outIsTerminal = isTerminal
        errIsTerminal = isTerminal
        isCapable = isTerminal
        allowsColor = false
        width = { 80 }
    }

    /// The process's own streams. Colour is left out when `NO_COLOR` is set (no-color.org).
    package static let standard: Console = {
        var console = Console(
            out: { writeAll($0, to: STDOUT_FILENO) },
            err: { text in _ = Array(text.utf8).withUnsafeBytes { writeAll($0, to: STDERR_FILENO) } })
        console.outIsTerminal = isatty(STDOUT_FILENO) == 1
        console.errIsTerminal = isatty(STDERR_FILENO) == 1
        let term = environmentValue("TERM")
        console.isCapable = term != nil && term != "dumb"
        console.allowsColor = console.isCapable && (environmentValue("NO_COLOR") ?? "").isEmpty
        console.width = {
            var size = winsize()
            return ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
                ? Int(size.ws_col) : 80
        }
        return console
    }()

    /// Data, as it is. Throws when standard output is closed.
    package func data(_ bytes: [UInt8]) throws(ClientFailure) {
        guard bytes.withUnsafeBytes({ out($0) }) else {
            throw ClientFailure(.failed, "Standard output was closed before everything was written.")
        }
    }

    /// A line for people.
    package func data(line: String) throws(ClientFailure) {
        try data(Array("\(printable(line, keeping: "\t"))\n".utf8))
    }

    /// The same with a state at its end, which has its colour when data goes to a terminal that has any.
    package func data(line: String, state: String) throws(ClientFailure) {
        try data(Array("\(printable(line, keeping: "\t"))\(colored(printable(state)))\n".utf8))
    }

    /// A JSON text and a line end.
    package func data(json: [UInt8]) throws(ClientFailure) {
        try data(json.last == UInt8(ascii: "\n") ? json : json + [UInt8(ascii: "\n")])
    }

    package func message(_ text: String) { err("\(printable(text))\n") }

    private func colored(_ state: String) -> String {
        guard outIsTerminal, allowsColor else { return state }
        let code =
            switch state {
            case "succeeded": "32"
            case "failed": "31"
            case "running": "36"
            case "cancelled", "suspended": "33"
            default: "0"
            }
        return "\u{1B}[\(code)m\(state)\u{1B}[0m"
    }
}

/// A text of whoever wrote it without what moves a terminal's cursor, ends a line or turns letters around.
/// `kept`: controls that stay.
func printable(_ text: String, keeping kept: String = "") -> String {
    let stays = { (scalar: Unicode.Scalar) in
        !isControl(scalar) || kept.unicodeScalars.contains(scalar)
    }
    guard !text.unicodeScalars.allSatisfy(stays) else { return text }
    return String(String.UnicodeScalarView(text.unicodeScalars.map { stays($0) ? $0 : "\u{FFFD}" }))
}

/// C0, DEL and C1; ends of lines and paragraphs; embeddings, overrides and isolates (UAX #9).
private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}

/// write(2) until everything is written; false when it fails.
func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
        let count = write(descriptor, rest.baseAddress, rest.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return false }
        rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
    return true
}

/// A variable of the process's environment; nil when it is not set.
func environmentValue(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
}
