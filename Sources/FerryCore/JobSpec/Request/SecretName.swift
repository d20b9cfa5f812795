/// Judges the names of secret header fields (`HeaderRules.isSecret`) where they are, without a copy: each
/// line of each request and response is judged, some of them several times.
///
/// A name consists of words in lower case with one `-` between them. Every character but letters and digits
/// separates words; separators and numbers at the end do not count (`X_Key.2-`: `x-key`).
enum SecretName {
    static func isSecret(_ name: Span<UInt8>) -> Bool {
        let end = endOfWords(name)
        var start = 0
        while start < end, !isWordByte(name[start]) { start += 1 }
        return isWhole(name, start, end) || hasPart(name, start, end) || hasLastWord(name, start, end)
    }

    /// Names that are secret as a whole.
    private static func isWhole(_ name: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        let whole = start..<end
        return switch whole.isEmpty ? 0 : lowercased(name[start]) {
        case UInt8(ascii: "c"): matches("cookie", name, whole) || matches("cookie2", name, whole)
        case UInt8(ascii: "x"): matches("x-jfrog-art-api", name, whole)
        default: false
        }
    }

    /// Texts that make a name secret anywhere in it.
    private static func hasPart(_ name: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        guard end - start > 1 else { return false }
        // Two bytes rule out nearly every place.
        for place in start..<(end - 1) {
            let rest = place..<end
            let isPart =
                switch (lowercased(name[place]), lowercased(name[place + 1])) {
                case (UInt8(ascii: "a"), UInt8(ascii: "p")):
                    begins("api-key", name, rest) || begins("apikey", name, rest)
                case (UInt8(ascii: "c"), UInt8(ascii: "r")): begins("credential", name, rest)
                case (UInt8(ascii: "p"), UInt8(ascii: "a")):
                    begins("password", name, rest) || begins("passwd", name, rest)
                        || begins("passphrase", name, rest)
                case (UInt8(ascii: "s"), UInt8(ascii: "e")): begins("secret", name, rest)
                case (UInt8(ascii: "s"), UInt8(ascii: "i")): begins("signature", name, rest)
                case (UInt8(ascii: "t"), UInt8(ascii: "o")): begins("token", name, rest)
                default: false
                }
            if isPart { return true }
        }
        return false
    }

    /// Last words that make a name secret, except in keys that name something and open nothing.
    private static func hasLastWord(_ name: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        var word = end
        while word > start, isWordByte(name[word - 1]) { word -= 1 }
        let (last, whole) = (word..<end, start..<end)
        return switch last.isEmpty ? 0 : lowercased(name[word]) {
        case UInt8(ascii: "k"):
            matches("key", name, last) && !matches("idempotency-key", name, whole)
                && !matches("surrogate-key", name, whole) && !matches("partition-key", name, whole)
        case UInt8(ascii: "a"): matches("auth", name, last) || matches("authorization", name, last)
        case UInt8(ascii: "s"): matches("session", name, last)
        default: false
        }
    }

    /// Returns the end of the last word that has a letter; 0 if there is none.
    private static func endOfWords(_ name: Span<UInt8>) -> Int {
        var place = name.count
        while place > 0 {
            while place > 0, !isWordByte(name[place - 1]) { place -= 1 }
            let end = place
            var hasLetter = false
            while place > 0, isWordByte(name[place - 1]) {
                place -= 1
                if !isDigit(name[place]) { hasLetter = true }
            }
            if hasLetter { return end }
        }
        return 0
    }

    private static func matches(_ text: String, _ name: Span<UInt8>, _ range: Range<Int>) -> Bool {
        end(of: text, name, range) == range.upperBound
    }

    private static func begins(_ text: String, _ name: Span<UInt8>, _ range: Range<Int>) -> Bool {
        end(of: text, name, range) != nil
    }

    /// Returns the index after `text` if the words in the range begin with it. `text`: in the form of words.
    private static func end(of text: String, _ name: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var place = range.lowerBound
        for expected in text.utf8 {
            guard place < range.upperBound else { return nil }
            if expected == UInt8(ascii: "-") {
                guard !isWordByte(name[place]) else { return nil }
                // A word follows: separators at the end do not belong to the range.
                repeat { place += 1 } while place < range.upperBound && !isWordByte(name[place])
            } else {
                guard lowercased(name[place]) == expected else { return nil }
                place += 1
            }
        }
        return place
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }
    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
    private static func isWordByte(_ byte: UInt8) -> Bool {
        isDigit(byte) || (97...122).contains(byte | 0x20)
    }
}
