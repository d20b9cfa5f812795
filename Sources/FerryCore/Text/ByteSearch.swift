/// Search for bytes in texts. It reads the memory of the text; the methods of `utf8` make an index for each
/// byte, which takes about thirty instructions.
extension StringProtocol where UTF8View.Element == UInt8, UTF8View.Index == Index {
    /// Returns the index of the first byte for which the condition holds, or `nil`.
    @inline(__always)
    func firstIndex(whereByte isFound: (UInt8) -> Bool) -> Index? {
        let offset: Int?? = utf8.withContiguousStorageIfAvailable { bytes in
            unsafe bytes.firstIndex(where: isFound)
        }
        guard let offset else { return utf8.firstIndex(where: isFound) }
        return offset.map { utf8.index(utf8.startIndex, offsetBy: $0) }
    }

    /// Returns the index of the first occurrence of a byte, or `nil`.
    func firstIndex(ofByte byte: UInt8) -> Index? { firstIndex(whereByte: { $0 == byte }) }

    /// Returns `true` if the condition holds for a byte.
    @inline(__always)
    func containsByte(where isFound: (UInt8) -> Bool) -> Bool {
        let isThere = utf8.withContiguousStorageIfAvailable { bytes in
            unsafe bytes.contains(where: isFound)
        }
        return isThere ?? utf8.contains(where: isFound)
    }
}
