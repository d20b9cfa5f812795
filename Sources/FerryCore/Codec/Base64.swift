/// Base64 with the standard alphabet (RFC 4648 §4).
public enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each digit; 0xFF for every other byte.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, digit) in digits.enumerated() { values[Int(digit)] = UInt8(value) }
        return values
    }()

    /// Returns the text with padding, without line breaks.
    public static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let rest = bytes.count - start
            let a = UInt32(bytes[start])
            let b = rest > 1 ? UInt32(bytes[start + 1]) : 0
            let c = rest > 2 ? UInt32(bytes[start + 2]) : 0
            let word = a << 16 | b << 8 | c
            text.append(digits[Int(word >> 18)])
            text.append(digits[Int(word >> 12 & 63)])
            text.append(rest > 1 ? digits[Int(word >> 6 & 63)] : UInt8(ascii: "="))
            text.append(rest > 2 ? digits[Int(word & 63)] : UInt8(ascii: "="))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes, or `nil` if the text is not strict: padding is required, white space and stray bits
    /// in the last digit are not allowed.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let text = Array(text.utf8)
        guard text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        let digitCount = text.count - padding
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digitCount * 3 / 4)
        var word: UInt32 = 0
        var bitCount: UInt32 = 0
        for digit in text[..<digitCount] {
            let value = values[Int(digit)]
            guard value != 0xFF else { return nil }
            word = word << 6 | UInt32(value)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: word >> bitCount))
            }
        }
        return word & (1 << bitCount - 1) == 0 ? bytes : nil
    }
}
