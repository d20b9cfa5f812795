import FerryCore

/// The response head of one request: read line by line, and held back while libcurl may answer it by itself.
/// Loop thread only.
struct ResponseHeadReader {
    private var parser = ResponseHeadParser()
    /// `nil` until the head is complete.
    private(set) var head: ResponseHead?
    /// Whether `head` still has to be judged.
    private var isHeld = false

    mutating func take(_ line: some BidirectionalCollection<UInt8>) -> ResponseHeadParser.Step {
        let step = parser.take(line)
        if case .complete(let head) = step { self.head = head }
        return step
    }

    /// Holds the head back: libcurl may answer its challenge (Digest, NTLM).
    mutating func hold() { isHeld = true }

    /// Returns a head that was held back, once.
    mutating func takeHeld() -> ResponseHead? {
        guard isHeld else { return nil }
        isHeld = false
        return head
    }

    /// Forgets a head that is held back: libcurl has answered it, so it belongs to an earlier request.
    mutating func dropHeld() { if isHeld { self = Self() } }

    /// Reads a head from bytes that libcurl has not read, and returns it. 408 is not returned: the server may
    /// have sent it to an idle connection, before the request came (RFC 9110 §15.5.9).
    mutating func take(unread bytes: [UInt8]) -> ResponseHead? {
        var reader = Self()
        for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast() {
            switch reader.take(line.last == UInt8(ascii: "\r") ? line.dropLast() : line) {
            case .more, .interim: continue
            case .complete(let head):
                guard head.status != 408 else { return nil }
                self = reader
                return head
            case .invalid, .tooLarge: return nil
            }
        }
        return nil
    }
}
