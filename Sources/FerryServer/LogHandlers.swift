import FerryCore
import Glibc
package import Logging
import Sys

/// Writes one line a message to standard error: for people, or as JSON for machines.
package struct LineLogHandler: LogHandler {
    package var metadata: Logger.Metadata = [:]
    package var logLevel: Logger.Level
    private let label: String
    private let isJSON: Bool

    package init(label: String, level: Logger.Level, isJSON: Bool) {
        self.label = label
        self.logLevel = level
        self.isJSON = isJSON
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { $1 } } ?? metadata
        let pairs = all.sorted { $0.key < $1.key }
        let time = Timestamp(microseconds: wallMicroseconds())
        var line: [UInt8]
        if isJSON {
            var writer = JSONWriter(reservingCapacity: 256)
            writer.beginObject()
            writer.member("time", time)
            writer.member("level", event.level.rawValue)
            writer.member("logger", label)
            writer.member("message", event.message.description)
            for (key, value) in pairs { writer.member(key, value.description) }
            writer.endObject()
            line = writer.bytes
        } else {
            var text = "\(time) \(event.level.rawValue) \(label): \(event.message)"
            for (key, value) in pairs { text += " \(key)=\(value)" }
            // A line stays a line, whatever a value holds.
            line = text.utf8.map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: " ") : $0 }
        }
        line.append(UInt8(ascii: "\n"))
        // One write a line, so that lines of several threads do not mix (write(2), below PIPE_BUF for pipes).
        _ = write(STDERR_FILENO, line, line.count)
    }
}
