/// Search for bytes in texts. It reads the memory of the text, while the methods of `utf8` make an index for
/// each byte, which costs about thirty instructions.
extension StringProtocol where UTF8View.Element == UInt8, UTF8View.Index == Index {
    /// Returns the index of the first byte for which the condition holds, or `nil`.
    @inline(__always)
    func firstByte(where isFound: (UInt8) -> Bool) -> Index? {
        let offset: Int?? = utf8.withContiguousStorageIfAvailable { bytes in
            unsafe bytes.firstIndex(where: isFound)
        }
        guard let offset else { return utf8.firstIndex(where: isFound) }
        return offset.map { utf8.index(utf8.startIndex, offsetBy: $0) }
    }

    /// Returns the index of the first occurrence of a byte, or `nil`.
    func firstByte(_ byte: UInt8) -> Index? { firstByte { $0 == byte } }

    /// Returns `true` if the condition holds for a byte.
    @inline(__always)
    func hasByte(where isFound: (UInt8) -> Bool) -> Bool {
        let isThere = utf8.withContiguousStorageIfAvailable { bytes in
            unsafe bytes.contains(where: isFound)
        }
        return isThere ?? utf8.contains(where: isFound)
    }
}

/// Returns `true` if two names are the same but for the case of ASCII letters, as names of fields are
/// (RFC 9110 §5.1). Nothing else is folded.
public func equalIgnoringCase(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    let isSame: Bool?? = unsafe a.utf8.withContiguousStorageIfAvailable { a in
        unsafe b.utf8.withContiguousStorageIfAvailable { b in
            unsafe zip(a, b).allSatisfy(isSameLetter)
        }
    }
    return (isSame ?? nil) ?? zip(a.utf8, b.utf8).allSatisfy(isSameLetter)
}

/// Returns `true` for the same byte, and for an ASCII letter in both cases.
@inline(__always)
private func isSameLetter(_ a: UInt8, _ b: UInt8) -> Bool {
    a == b || a | 0x20 == b | 0x20 && (0x61...0x7A).contains(a | 0x20)
}
