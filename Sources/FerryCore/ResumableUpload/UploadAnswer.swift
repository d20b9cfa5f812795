/// The parts of a response that the protocols of resumable uploads read. A field with a value of the wrong
/// type is ignored, as structured fields are (RFC 9651 §4.2).
public struct UploadAnswer: Sendable, Equatable {
    /// Status code.
    public var status: Int
    /// `Upload-Offset`: bytes that the server has; `nil` if the response does not say it.
    public var offset: Int64?
    /// `Upload-Complete`, or the opposite of `Upload-Incomplete`; `nil` if the response does not say it.
    public var isComplete: Bool?
    /// `Upload-Limit`, or `nil`.
    public var limit: UploadLimit?
    /// `Upload-Draft-Interop-Version`, or `nil`.
    public var version: Int64?
    /// `true` if the response has `Tus-Resumable`: 1.0.0.
    public var speaksTus: Bool

    /// Creates an answer without fields.
    public init(status: Int) {
        self.status = status
        speaksTus = false
    }

    /// Reads a response. `fields` returns the values of all fields of a name, ignoring case.
    public init(status: Int, fields: (String) -> [String]) {
        self.init(status: status)
        offset = Self.integer(fields("upload-offset")).flatMap { $0 < 0 ? nil : $0 }
        // Servers built with SwiftNIO send `Upload-Incomplete` where `Upload-Complete` is due.
        isComplete =
            Self.boolean(fields("upload-complete")) ?? Self.boolean(fields("upload-incomplete")).map { !$0 }
        let limits = fields("upload-limit")
        limit = limits.isEmpty ? nil : UploadLimit(limits.joined(separator: ", "))
        version = Self.integer(fields("upload-draft-interop-version"))
        speaksTus = fields("tus-resumable") == ["1.0.0"]
    }

    /// Reads an item (RFC 9651 §3.3) without its parameters; `nil` if the field is missing or repeated.
    private static func item(_ values: [String]) -> Substring? {
        guard values.count == 1 else { return nil }
        return values[0].prefix { $0 != ";" }.trimmed
    }

    private static func integer(_ values: [String]) -> Int64? {
        item(values).flatMap { StructuredInteger.read($0.utf8) }
    }

    private static func boolean(_ values: [String]) -> Bool? {
        switch item(values) {
        case "?1": true
        case "?0": false
        default: nil
        }
    }
}

/// Limits that a server sets for uploads (`Upload-Limit`).
public struct UploadLimit: Sendable, Equatable {
    /// Bytes of an upload at most, or `nil`.
    public var byteCountMax: Int64?
    /// Bytes of one append at most, or `nil`.
    public var appendByteCountMax: Int64?

    /// Creates a limit.
    public init(byteCountMax: Int64? = nil, appendByteCountMax: Int64? = nil) {
        self.byteCountMax = byteCountMax
        self.appendByteCountMax = appendByteCountMax
    }

    /// Reads the field; `nil` if it is malformed, or a known key has a value of another type. Unknown keys
    /// are ignored.
    public init?(_ text: String) {
        guard let dictionary = StructuredDictionary(text) else { return nil }
        for (key, value) in dictionary.members {
            guard Self.known.contains(key) else { continue }
            guard case .integer(let number) = value, number >= 0 else { return nil }
            if key == "max-size" { byteCountMax = number }
            if key == "max-append-size" { appendByteCountMax = number }
        }
    }

    private static let known: Set<String> = [
        "max-size", "min-size", "max-append-size", "min-append-size", "max-age", "expires",
    ]
}
