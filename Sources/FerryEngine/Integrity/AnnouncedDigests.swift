import FerryCore

/// The bytes that the digests of a transfer cover. They decide which announcements of the server apply.
enum HashedBytes: Sendable {
    /// The whole content as received.
    case whole
    /// The content of one response that is a part of the file (206) and is stored as such.
    case part
    /// The file whose rest the response brings (206).
    case continued
    /// The content after its codings are decoded.
    case decoded
}

extension ResponseHead {
    /// Returns the digests that the server announces for `hashed`, only of the best algorithm, since each
    /// costs time. Allocates nothing if there are none.
    ///
    /// Reads `Repr-Digest`, `Content-Digest` (RFC 9530), `Digest` (RFC 3230), `Content-MD5` (RFC 1864) and
    /// the fields of object stores. Does not read `ETag`, which is a digest only by accident. Malformed
    /// values count as absent.
    func announcedDigests(of hashed: HashedBytes) -> [ExpectedDigest] {
        var reader = AnnouncementReader(head: self, hashed: hashed)
        for field in headers {
            if let kind = AnnouncementField(field.name) { reader.take(kind, field.value) }
        }
        return reader.best
    }
}

private enum AnnouncementField {
    case reprDigest, contentDigest, digest, contentMD5, googHash
    case amazon(DigestAlgorithm)

    /// The first byte or the length rules out nearly all names.
    init?(_ name: String) {
        switch (name.utf8.first ?? 0) | 0x20 {
        case UInt8(ascii: "r") where equalIgnoringCase(name, "repr-digest"): self = .reprDigest
        case UInt8(ascii: "d") where equalIgnoringCase(name, "digest"): self = .digest
        case UInt8(ascii: "c") where equalIgnoringCase(name, "content-digest"): self = .contentDigest
        case UInt8(ascii: "c") where equalIgnoringCase(name, "content-md5"): self = .contentMD5
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-goog-hash"): self = .googHash
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-amz-checksum-sha256"): self = .amazon(.sha256)
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-amz-checksum-sha1"): self = .amazon(.sha1)
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-amz-checksum-crc64nvme"):
            self = .amazon(.crc64nvme)
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-amz-checksum-crc32c"): self = .amazon(.crc32c)
        case UInt8(ascii: "x") where equalIgnoringCase(name, "x-amz-checksum-crc32"): self = .amazon(.crc32)
        default: return nil
        }
    }
}

private struct AnnouncementReader {
    let head: ResponseHead
    let hashed: HashedBytes
    private var found: [ExpectedDigest] = []

    init(head: ResponseHead, hashed: HashedBytes) {
        self.head = head
        self.hashed = hashed
    }

    /// All values of the best announced algorithm.
    var best: [ExpectedDigest] {
        guard !found.isEmpty, let best = DigestAlgorithm.allCases.first(where: isFound) else { return found }
        return found.filter { $0.algorithm == best }
    }

    private func isFound(_ algorithm: DigestAlgorithm) -> Bool {
        found.contains { $0.algorithm == algorithm }
    }

    mutating func take(_ field: AnnouncementField, _ value: String) {
        switch field {
        case .reprDigest:
            if isRepresentation { takeStructured(value) }
        case .contentDigest:
            // Covers the content of this message (RFC 9530 §2), which is a part if a part was sent.
            if hashed == .whole || hashed == .part { takeStructured(value) }
        case .digest: takeInstance(value)
        case .contentMD5:
            // Servers disagree about what the field covers for a part.
            if hashed == .whole { add(.md5, Base64.decode(value)) }
        case .amazon(let algorithm):
            // Covers the object or one of its parts; neither if the object was uploaded in parts.
            let type = head.first("x-amz-checksum-type") ?? ""
            if hashed == .whole, !equalIgnoringCase(type, "COMPOSITE") {
                add(algorithm, Base64.decode(value))
            }
        case .googHash:
            // Covers the stored object. With another coding, the bytes differ from it.
            let stored = coding("x-goog-stored-content-encoding")
            if isRepresentation, stored == nil || stored == coding("content-encoding") { takeStore(value) }
        }
    }

    /// Whether the hashed bytes are the whole file with its content codings (RFC 9530 §3).
    private var isRepresentation: Bool { hashed == .whole || hashed == .continued }

    /// The field's value in lower case. Without the field: `identity` for `content-encoding`, `nil` for
    /// others.
    private func coding(_ name: String) -> String? {
        let value = head.first(name)?.lowercased()
        return name == "content-encoding" ? value ?? "identity" : value
    }

    private mutating func add(_ algorithm: DigestAlgorithm, _ value: [UInt8]?) {
        if let one = ExpectedDigest(algorithm, value, .server) { found.append(one) }
    }

    /// `sha-256=:base64:, md5=:base64:`
    private mutating func takeStructured(_ text: String) {
        found += ExpectedDigest.all(in: text, from: .server)
    }

    /// Reads `SHA-256=base64,ADLER32=3da0195`. Covers the same bytes as `Repr-Digest`; with the prefix `id-`,
    /// those before the codings.
    private mutating func takeInstance(_ text: String) {
        let isPlain = head.first("content-encoding") == nil
        for (name, value) in pairs(text) {
            let isIdentity = name.hasPrefix("id-")
            let holds = isIdentity ? hashed == .decoded || isPlain && isRepresentation : isRepresentation
            guard holds else { continue }
            switch isIdentity ? String(name.dropFirst(3)) : name {
            case "sha-256": add(.sha256, Base64.decode(value))
            case "sha-512": add(.sha512, Base64.decode(value))
            case "sha": add(.sha1, Base64.decode(value))
            case "md5": add(.md5, Base64.decode(value))
            case "crc32c": add(.crc32c, checksum(value))
            case "adler32": add(.adler32, checksum(value))
            default: break
            }
        }
    }

    /// `crc32c=base64,md5=base64`
    private mutating func takeStore(_ text: String) {
        for (name, value) in pairs(text) {
            switch name {
            case "crc32c": add(.crc32c, Base64.decode(value))
            case "md5": add(.md5, Base64.decode(value))
            default: break
            }
        }
    }

    /// Splits a list of `name=value`; names in lower case.
    private func pairs(_ text: String) -> [(String, String)] {
        text.split(separator: ",").compactMap { part in
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard words.count == 2 else { return nil }
            let name = words[0].filter { $0 != " " && $0 != "\t" }.lowercased()
            return (name, String(words[1].filter { $0 != " " && $0 != "\t" }))
        }
    }

    /// Decodes one to eight hexadecimal digits.
    private func checksum(_ text: String) -> [UInt8]? {
        guard (1...8).contains(text.utf8.count) else { return nil }
        return hexDecoded(String(repeating: "0", count: 8 - text.utf8.count) + text)
    }
}

extension ExpectedDigest {
    /// Returns the digests of a `Repr-Digest` or `Content-Digest` field (RFC 9530), without those that this
    /// node cannot compute.
    static func all(in text: String, from source: Source) -> [ExpectedDigest] {
        (StructuredDictionary(text)?.byteSequences ?? []).compactMap { member in
            let algorithm: DigestAlgorithm
            switch member.key {
            case "sha-256": algorithm = .sha256
            case "sha-512": algorithm = .sha512
            case "sha": algorithm = .sha1
            case "md5": algorithm = .md5
            case "crc32c": algorithm = .crc32c
            case "adler": algorithm = .adler32
            // Of tus; not registered for HTTP.
            case "crc32" where source == .client: algorithm = .crc32
            default: return nil
            }
            return ExpectedDigest(algorithm, member.value, source)
        }
    }
}
