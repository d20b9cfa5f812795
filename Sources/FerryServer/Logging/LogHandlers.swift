import FerryCore
package import Logging
import Sys

/// Log handler that writes each message as one line to standard error, as text or JSON.
package struct LineLogHandler: LogHandler {
    /// Fields of all messages of this handler.
    package var metadata: Logger.Metadata = [:]
    /// Lowest level that is written.
    package var logLevel: Logger.Level
    private let label: String
    private let isJSON: Bool
    private let sink: LogSink

    /// Creates a handler that writes to `sink`.
    package init(
        label: String, level: Logger.Level, isJSON: Bool, sink: LogSink = .standardError
    ) {
        self.label = label
        self.logLevel = level
        self.isJSON = isJSON
        self.sink = sink
    }

    /// A field of all messages; `nil` removes it.
    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    /// Writes a message with its fields.
    package func log(event: LogEvent) {
        let all = event.metadata.map { metadata.merging($0) { $1 } } ?? metadata
        sink.write(line(event.level, event.message.description, all)) { count in
            line(.warning, "Log lines were dropped: they were not read.", ["count": "\(count)"])
        }
    }

    private func line(_ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata) -> [UInt8] {
        let pairs = metadata.sorted { $0.key < $1.key }
        let time = Timestamp(microseconds: wallMicroseconds())
        var line: [UInt8]
        if isJSON {
            var writer = JSONWriter(reservingCapacity: 256)
            writer.beginObject()
            writer.member("time", time)
            writer.member("level", level.rawValue)
            writer.member("logger", label)
            writer.member("message", message)
            for (key, value) in pairs { writer.member(key, value.description) }
            writer.endObject()
            line = writer.bytes
        } else {
            var text = "\(time) \(level.rawValue) \(label): \(message)"
            for (key, value) in pairs { text += " \(key)=\(value)" }
            // Control characters become spaces, so that a message stays one line.
            line = text.utf8.map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: " ") : $0 }
        }
        line.append(UInt8(ascii: "\n"))
        return line
    }
}
