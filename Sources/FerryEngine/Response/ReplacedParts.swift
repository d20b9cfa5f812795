import FerryCore

/// Parses a `multipart/x-mixed-replace` body as it comes (RFC 2046 §5.1). Each part replaces the one before;
/// the last complete part remains. Loop thread only.
final class ReplacedParts {
    struct Part: Sendable, Equatable {
        /// Media type without parameters, in lower case; `nil` if the part names none.
        let mimeType: String?
        let bytes: [UInt8]
    }

    private enum Place {
        /// Before the first delimiter.
        case preamble
        case head
        case body(mimeType: String?, length: Int?)
        case epilogue
    }

    private static let headByteCountMax = 16 << 10
    /// Bytes that may follow a delimiter in its line.
    private static let paddingByteCountMax = 256

    /// A line end, two hyphens and the boundary.
    private let delimiter: [UInt8]
    private let byteCountMax: Int
    private var place = Place.preamble
    /// Bytes that belong to no complete part yet.
    private var pending: [UInt8] = [UInt8(ascii: "\n")]
    /// Bytes of `pending` that surely begin no delimiter.
    private var searched = 0
    private(set) var last: Part?
    /// Number of complete parts.
    private(set) var count: Int64 = 0
    /// Bytes received in total.
    private(set) var byteCount: Int64 = 0

    /// `nil` if the answer has no such parts. `byteCountMax`: of one part.
    init?(_ head: ResponseHead, byteCountMax: Int) {
        guard head.mimeType == "multipart/x-mixed-replace", head.contentCodings.isEmpty,
            let boundary = head.first("content-type").flatMap({ parameter("boundary", of: $0) }),
            (1...200).contains(boundary.utf8.count)
        else { return nil }
        // Some servers include the hyphens in the boundary parameter.
        delimiter = Array((boundary.hasPrefix("--") ? "\n\(boundary)" : "\n--\(boundary)").utf8)
        self.byteCountMax = byteCountMax
    }

    /// Throws `response_too_large` or `response_invalid`.
    func take(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        byteCount += Int64(bytes.count)
        if case .epilogue = place { return }
        pending.append(contentsOf: bytes)
        while try step() {}
    }

    /// Ends the body and returns the last complete part. A part that is as long as its own length says needs
    /// no delimiter after it. Throws `incomplete_body` if no part is complete.
    func finish() throws(TransferError) -> Part {
        if case .body(let mimeType, let length?) = place, pending.count == length {
            complete(mimeType, pending)
        }
        guard let last else {
            throw TransferError(
                .incompleteBody, "The answer ended before its first part was whole.", phase: .receiving,
                isRetryable: true)
        }
        return last
    }

    /// Parses the next element. Returns `false` if more bytes are needed.
    private func step() throws(TransferError) -> Bool {
        switch place {
        case .preamble: return try passDelimiter(bodyLimit: Self.headByteCountMax) { _ in }
        case .head: return try readHead()
        case .body(let mimeType, _):
            return try passDelimiter(bodyLimit: byteCountMax) { [self] end in
                let isCRLF = end > 0 && pending[end - 1] == UInt8(ascii: "\r")
                complete(mimeType, Array(pending[..<(isCRLF ? end - 1 : end)]))
            }
        case .epilogue:
            pending = []
            return false
        }
    }

    private func complete(_ mimeType: String?, _ bytes: [UInt8]) {
        last = Part(mimeType: mimeType, bytes: bytes)
        count += 1
    }

    /// Moves past the next delimiter's line. `before` gets the end of the bytes before it.
    private func passDelimiter(
        bodyLimit: Int, _ before: (Int) -> Void
    ) throws(TransferError) -> Bool {
        guard let start = find() else {
            // A delimiter and a carriage return before it may have begun.
            guard pending.count <= bodyLimit + delimiter.count + 2 else { throw tooLarge }
            return false
        }
        guard start <= bodyLimit + 1 else { throw tooLarge }
        let rest = pending[(start + delimiter.count)...]
        if rest.starts(with: "--".utf8) {
            before(start)
            place = .epilogue
            pending = []
            return false
        }
        guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else {
            guard rest.count <= Self.paddingByteCountMax else {
                throw TransferError(
                    .responseInvalid, "A part of the answer has no head.", phase: .receiving,
                    isRetryable: false)
            }
            searched = start
            return false
        }
        before(start)
        place = .head
        cut(end + 1)
        return true
    }

    /// Returns where the next delimiter begins.
    private func find() -> Int? {
        var index = searched
        while let line = pending[index...].firstIndex(of: delimiter[0]) {
            guard pending.count - line >= delimiter.count else {
                searched = line
                return nil
            }
            if pending[line..<(line + delimiter.count)].elementsEqual(delimiter) { return line }
            index = line + 1
        }
        searched = pending.count
        return nil
    }

    /// Reads header fields up to the empty line.
    private func readHead() throws(TransferError) -> Bool {
        var mimeType: String?
        var length: Int?
        var start = 0
        while let end = pending[start...].firstIndex(of: UInt8(ascii: "\n")) {
            let isCRLF = end > start && pending[end - 1] == UInt8(ascii: "\r")
            let line = String(decoding: pending[start..<(isCRLF ? end - 1 : end)], as: UTF8.self)
            start = end + 1
            guard !line.isEmpty else {
                place = .body(mimeType: mimeType, length: length)
                cut(start)
                return true
            }
            var head = ResponseHead(status: 200, isHTTP1: true)
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { continue }
            head.append(String(parts[0]), String(Substring(trim(parts[1].utf8))))
            mimeType = head.mimeType ?? mimeType
            if let value = head.contentLength { length = Int(clamping: value) }
        }
        guard pending.count <= Self.headByteCountMax else { throw tooLarge }
        return false
    }

    private func cut(_ index: Int) {
        pending.removeFirst(index)
        searched = 0
    }

    private var tooLarge: TransferError {
        TransferError(
            .responseTooLarge, "A part of the answer is longer than \(byteCountMax) bytes.",
            phase: .receiving,
            isRetryable: false)
    }
}
