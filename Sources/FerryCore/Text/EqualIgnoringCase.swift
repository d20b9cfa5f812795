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
