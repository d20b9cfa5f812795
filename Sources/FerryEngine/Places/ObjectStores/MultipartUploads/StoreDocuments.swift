import FerryCore

/// A part that a store says it has.
struct ListedPart: Sendable, Equatable {
    var number = 0
    var byteCount: Int64 = -1
    var entityTag = ""
    /// Checksums in Base64 by the names of their elements, such as `ChecksumCRC32C`.
    var checksums: [String: String] = [:]
}

/// The response to `CreateMultipartUpload`.
struct CreatedUpload: Sendable, Equatable {
    static let identifierByteCountMax = 2_048
    /// Identifier of the upload.
    let upload: String

    /// `nil` if the body names no upload.
    init?(_ body: [UInt8]) {
        var scanner = XMLScanner(body)
        while let element = scanner.next() {
            guard element.name == "UploadId", element.parent == "InitiateMultipartUploadResult" else {
                continue
            }
            let text = trimmed(element.text)
            guard (1...Self.identifierByteCountMax).contains(text.utf8.count) else { return nil }
            upload = text
            return
        }
        return nil
    }
}

/// A page of the response to `ListParts`.
struct PartPage: Sendable, Equatable {
    private(set) var parts: [ListedPart] = []
    /// The part after which the next page begins; `nil` if this is the last one.
    private(set) var next: Int?

    /// `nil` if the body is no whole page.
    init?(_ body: [UInt8]) {
        var scanner = XMLScanner(body)
        var part = ListedPart()
        var isTruncated = false
        while let element = scanner.next() {
            let text = trimmed(element.text)
            switch (element.parent, element.name) {
            case ("Part", "PartNumber"): part.number = Int(text) ?? 0
            case ("Part", "Size"): part.byteCount = Int64(text) ?? -1
            case ("Part", "ETag"): part.entityTag = text
            case ("Part", let name) where name.hasPrefix("Checksum"): part.checksums[name] = text
            case ("ListPartsResult", "Part"):
                parts.append(part)
                part = ListedPart()
            case ("ListPartsResult", "IsTruncated"): isTruncated = text == "true"
            case ("ListPartsResult", "NextPartNumberMarker"): next = Int(text)
            case ("", "ListPartsResult"):
                if !isTruncated { next = nil }
                // Without a marker, the last part is one.
                if isTruncated, next == nil { next = parts.last?.number }
                return
            default: break
            }
        }
        return nil
    }
}

/// The response to `CompleteMultipartUpload`.
struct CompletedUpload: Sendable, Equatable {
    /// Entity tag of the object with its quotes, or `nil`.
    private(set) var entityTag: String?

    /// `nil` if the body is no whole result, for example because it has an error.
    init?(_ body: [UInt8]) {
        var scanner = XMLScanner(body)
        while let element = scanner.next() {
            switch (element.parent, element.name) {
            case ("CompleteMultipartUploadResult", "ETag"):
                let text = trimmed(element.text)
                entityTag = text.isEmpty ? nil : text.hasPrefix("\"") ? text : "\"\(text)\""
            case ("", "CompleteMultipartUploadResult"): return
            default: break
            }
        }
        return nil
    }
}

/// Returns a text without the white space around it.
func trimmed(_ text: String) -> String {
    var rest = text[...].unicodeScalars
    while let first = rest.first, first.properties.isWhitespace { rest.removeFirst() }
    while let last = rest.last, last.properties.isWhitespace { rest.removeLast() }
    return String(rest)
}

/// An entity tag of a store.
struct StoreTag: Sendable, Equatable {
    /// The tag in lower case, without quotes.
    let text: String

    init(_ text: String) {
        self.text = text.lowercased().filter { $0 != "\"" }
    }

    /// The MD5 of the bytes, if the tag may be one; else `nil`.
    var digest: [UInt8]? { text.utf8.count == 32 ? hexDecoded(text) : nil }
}
