import Glibc

/// SIGINT, SIGTERM and SIGHUP while a command waits or saves a file: the process removes its temporary file,
/// writes a message and exits with 128 plus the number of the signal. A further signal finds nothing to wait
/// for: the handler makes three calls.
enum Interruption {
    /// Sets the message, and installs the handler for the signals that the process does not ignore.
    static func arm(_ message: String) {
        let text = Array("\n\(printable(message))\n".utf8)
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.count)
        _ = buffer.initialize(from: text)
        // The previous text is not freed: a handler may be writing it.
        interruptionMessage = buffer
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let previous = signal(number, interrupted)
            // nohup(1) and shells without job control ignore signals for their commands.
            if unsafeBitCast(previous, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) {
                signal(number, SIG_IGN)
            }
        }
    }

    /// Sets the temporary file that the handler removes.
    static func remove(_ path: LocalPath) {
        let characters = path.bytes.map { CChar(bitPattern: $0) } + [0]
        let buffer = UnsafeMutableBufferPointer<CChar>.allocate(capacity: characters.count)
        _ = buffer.initialize(from: characters)
        interruptedPart = UnsafePointer(buffer.baseAddress)
    }
}

// Written before the handler is installed, or replaced as a whole; read only by the handler.
private nonisolated(unsafe) var interruptionMessage: UnsafeMutableBufferPointer<UInt8>?
private nonisolated(unsafe) var interruptedPart: UnsafePointer<CChar>?

/// Signal handler: makes only calls that signal-safety(7) allows.
private func interrupted(_ number: Int32) {
    if let part = interruptedPart { unlink(part) }
    if let message = interruptionMessage { _ = write(STDERR_FILENO, message.baseAddress, message.count) }
    _exit(128 + number)
}
