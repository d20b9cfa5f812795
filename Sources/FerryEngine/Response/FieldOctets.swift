import Curl
import FerryCore

/// The value of a field as received (RFC 9110 §5.5). Octets beyond ASCII may have any encoding, and a field
/// that is sent back to the server has the same ones: validators, cookies, the words of a challenge.
package struct FieldOctets: Sendable, Hashable {
    /// The octets without the spaces around the value.
    package let bytes: [UInt8]

    /// Creates a value of these octets.
    package init(_ bytes: some Collection<UInt8>) { self.bytes = Array(bytes) }

    /// Creates a value with the UTF-8 form of a text.
    package init(_ text: String) { self.init(text.utf8) }

    /// Reads `text`. `nil` if a character is no octet.
    init?(text: String) {
        let scalars = text.unicodeScalars
        guard scalars.allSatisfy({ $0.value <= 0xFF }) else { return nil }
        bytes = scalars.map { UInt8(truncatingIfNeeded: $0.value) }
    }

    /// A text in which each character is one octet (ISO 8859-1). Storage in JSON has this form.
    var text: String {
        // Nearly all values are ASCII.
        if isASCII { return String(decoding: bytes, as: UTF8.self) }
        return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    var isASCII: Bool { bytes.allSatisfy { $0 < 0x80 } }
}

extension FieldOctets: ExpressibleByStringLiteral {
    package init(stringLiteral text: String) { self.init(text) }
}

extension TransferRequest.Header {
    /// Creates a field that is sent with these octets.
    init(_ name: String, _ value: FieldOctets) {
        self.init(name, value.text, hasOctets: !value.isASCII)
    }
}
