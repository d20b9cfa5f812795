import Glibc

/// Output of a command: data to standard output, messages to standard error.
package struct Console: Sendable {
    /// Console of the running command; tests set another one.
    @TaskLocal package static var current = Console.standard

    /// Writes all bytes. Returns `false` if standard output is closed.
    package var out: @Sendable (UnsafeRawBufferPointer) -> Bool
    /// Writes a message.
    package var err: @Sendable (String) -> Void
    /// `true` if standard output is a terminal.
    package var outIsTerminal: Bool
    /// `true` if standard error is a terminal.
    package var errIsTerminal: Bool
    /// `true` if the terminal can move its cursor (`TERM` is not `dumb`).
    package var isCapable: Bool
    /// `true` if states may be coloured.
    package var allowsColor: Bool
    /// Reads a line of standard input without its end; `nil` at the end of the input, or if it is no
    /// terminal.
    package var answer: @Sendable () -> String? = { nil }
    /// Reads a line that the terminal does not show; `nil` if standard input is no terminal, or at its end.
    package var secret: @Sendable () -> String? = { nil }
    /// Columns of the terminal.
    package var width: @Sendable () -> Int

    /// Creates a console without colours.
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

    /// Streams of the process. No colours if `NO_COLOR` is set (no-color.org).
    package static let standard: Console = {
        var console = Console(
            out: { writeAll($0, to: STDOUT_FILENO) },
            err: { text in _ = Array(text.utf8).withUnsafeBytes { writeAll($0, to: STDERR_FILENO) } })
        console.outIsTerminal = isatty(STDOUT_FILENO) == 1
        console.errIsTerminal = isatty(STDERR_FILENO) == 1
        let term = environmentValue("TERM")
        console.isCapable = term != nil && term != "dumb"
        console.allowsColor = console.isCapable && (environmentValue("NO_COLOR") ?? "").isEmpty
        console.answer = { isatty(STDIN_FILENO) == 1 ? readLine() : nil }
        console.secret = readHiddenLine
        console.width = {
            var size = winsize()
            return ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
                ? Int(size.ws_col) : 80
        }
        return console
    }()

    /// Writes data unchanged. Throws if standard output is closed.
    package func data(_ bytes: [UInt8]) throws(ClientFailure) {
        guard bytes.withUnsafeBytes({ out($0) }) else {
            throw ClientFailure(.failed, "Standard output was closed before everything was written.")
        }
    }

    /// Writes a line. Control characters except for tabs are replaced.
    package func data(line: String) throws(ClientFailure) {
        try data(Array("\(printable(line, keeping: "\t"))\n".utf8))
    }

    /// Like `data(line:)`, with a state at the end, coloured if standard output is a terminal with colours.
    package func data(line: String, state: String) throws(ClientFailure) {
        try data(Array("\(printable(line, keeping: "\t"))\(colored(printable(state)))\n".utf8))
    }

    /// Writes JSON and a line end.
    package func data(json: [UInt8]) throws(ClientFailure) {
        try data(json.last == UInt8(ascii: "\n") ? json : json + [UInt8(ascii: "\n")])
    }

    /// Writes a message to standard error. Control characters are replaced.
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

/// Returns a text from another party with each character replaced that moves the cursor, ends a line or
/// changes the writing direction. `kept`: control characters to keep.
func printable(_ text: String, keeping kept: String = "") -> String {
    let stays = { (scalar: Unicode.Scalar) in
        !isControl(scalar) || kept.unicodeScalars.contains(scalar)
    }
    guard !text.unicodeScalars.allSatisfy(stays) else { return text }
    return String(String.UnicodeScalarView(text.unicodeScalars.map { stays($0) ? $0 : "\u{FFFD}" }))
}

/// Returns `true` for C0, DEL and C1, line and paragraph separators, and bidirectional embeddings, overrides
/// and isolates (UAX #9).
private func isControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
}

/// Writes all bytes with write(2). Returns `false` after an error.
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

/// Returns an environment variable, or `nil` if it is not set.
func environmentValue(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
}

/// Reads a line of standard input while the terminal shows nothing; `nil` if it is no terminal, or at the end
/// of the input.
@Sendable private func readHiddenLine() -> String? {
    var shown = termios()
    guard tcgetattr(STDIN_FILENO, &shown) == 0 else { return nil }
    var hidden = shown
    hidden.c_lflag &= ~tcflag_t(ECHO)
    guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0 else { return nil }
    defer {
        // If it fails, the terminal is gone.
        _ = tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
        _ = "\n".withCString { write(STDERR_FILENO, $0, 1) }
    }
    return readLine()
}
