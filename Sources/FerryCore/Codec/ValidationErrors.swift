/// One error in the body of a request.
public struct FieldError: Error, Sendable, Equatable {
    /// Place as a JSON Pointer in a URI fragment (RFC 6901 §6), such as `#/schedule/priority`.
    public let pointer: String
    /// Stable code in snake_case: `unknown_field`, `wrong_type`, `required`, `out_of_range`, `invalid_value`,
    /// `invalid_combination`, `not_supported`, `duplicate`, `too_long`, `too_many`, `blocked_address`.
    public let code: String
    /// One sentence for the client: what is wrong and what is allowed.
    public let detail: String
}

/// All errors of a submission; never empty.
public struct InvalidFields: Error, Sendable, Equatable {
    /// The errors.
    public let errors: [FieldError]

    /// Creates an error with several causes.
    public init(_ errors: [FieldError]) { self.errors = errors }

    /// Creates an error with one cause.
    public init(_ pointer: String, _ code: String, _ detail: String) {
        errors = [FieldError(pointer: pointer, code: code, detail: detail)]
    }
}

/// Collects errors while a document is read. Not thread-safe: one owner.
public final class ValidationErrors {
    /// Largest number of errors in a response, so that a hostile batch cannot make it larger.
    public static let countMax = 100
    /// The errors in the order in which they were found.
    public private(set) var all: [FieldError] = []

    /// Creates an empty collection.
    public init() {}

    /// `true` if there are no errors.
    public var isEmpty: Bool { all.isEmpty }
    /// `true` if further errors are dropped.
    public var isFull: Bool { all.count >= Self.countMax }

    /// Adds an error, unless there are `countMax` already.
    public func add(_ pointer: String, _ code: String, _ detail: String) {
        guard !isFull else { return }
        all.append(FieldError(pointer: pointer, code: code, detail: detail))
    }

    /// Adds an error about the type of `value`. `expected`: with its article, as `JSON.typeName`.
    public func addWrongType(_ pointer: String, _ expected: String, _ value: JSONView) {
        add(pointer, "wrong_type", "This must be \(expected), not \(value.typeName).")
    }
}

/// Returns one step of a JSON Pointer in a URI fragment: `~` and `/` are escaped (RFC 6901 §3), then bytes
/// that a fragment cannot hold are percent-encoded (RFC 3986 §3.5).
public func pointerStep(_ name: String) -> String {
    if name.utf8.allSatisfy(isPlainPointerByte) { return name }
    let digits = Array("0123456789ABCDEF".utf8)
    var text: [UInt8] = []
    for byte in name.utf8 {
        switch byte {
        case UInt8(ascii: "~"): text.append(contentsOf: "~0".utf8)
        case UInt8(ascii: "/"): text.append(contentsOf: "~1".utf8)
        case _ where isPlainPointerByte(byte): text.append(byte)
        default: text.append(contentsOf: [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]])
        }
    }
    return String(decoding: text, as: UTF8.self)
}

private func isPlainPointerByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
        UInt8(ascii: ":"), UInt8(ascii: "@"):
        true
    default: false
    }
}
