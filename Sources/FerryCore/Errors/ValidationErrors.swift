/// One thing that is wrong with what a client sent.
package struct FieldError: Error, Sendable, Equatable {
    /// Where: a JSON Pointer as a URI fragment (RFC 6901 §6), `#/schedule/priority`.
    package let pointer: String
    /// Stable and snake_case: `unknown_field`, `wrong_type`, `required`, `out_of_range`, `invalid_value`,
    /// `invalid_combination`, `not_supported`, `duplicate`, `too_long`, `too_many`, `blocked_address`.
    package let code: String
    /// A sentence for the client.
    package let detail: String

    package init(pointer: String, code: String, detail: String) {
        self.pointer = pointer
        self.code = code
        self.detail = detail
    }
}

/// Everything that is wrong with a submission; never empty.
package struct InvalidFields: Error, Sendable, Equatable {
    package let errors: [FieldError]

    package init(_ errors: [FieldError]) { self.errors = errors }

    package init(_ pointer: String, _ code: String, _ detail: String) {
        errors = [FieldError(pointer: pointer, code: code, detail: detail)]
    }
}

/// Gathers complaints while a document is read. One owner, one thread.
package final class ValidationErrors {
    /// More than anyone reads; a hostile batch gets no larger answer than this.
    package static let countMax = 100
    package private(set) var errors: [FieldError] = []

    package init() {}

    package var isEmpty: Bool { errors.isEmpty }
    package var isFull: Bool { errors.count >= Self.countMax }

    /// Adds one; beyond `countMax` they are dropped.
    package func add(_ pointer: String, _ code: String, _ detail: String) {
        guard !isFull else { return }
        errors.append(FieldError(pointer: pointer, code: code, detail: detail))
    }

    /// `expected`: with its article, as `JSON.typeName`.
    package func addWrongType(_ pointer: String, _ expected: String, _ value: JSON) {
        add(pointer, "wrong_type", "This must be \(expected), not \(value.typeName).")
    }
}

/// One step of a JSON Pointer in a URI fragment: `~` and `/` escaped (RFC 6901 §3), then percent-encoded what
/// a fragment may not hold (RFC 3986 §3.5).
package func pointerStep(_ name: String) -> String {
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
