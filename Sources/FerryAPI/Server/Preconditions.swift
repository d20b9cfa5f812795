internal import FerryCore
internal import HTTPServer
internal import OpenSSL

/// Entity tags of a header field: `*`, or a list (RFC 9110 §13.1).
enum EntityTags: Equatable {
    case any
    /// With their quotes; a weak one keeps its `W/`.
    case list([String])

    /// Nil without the field. What is no entity tag matches nothing.
    init?(_ fields: HTTPFields, _ name: String) {
        let values = fields.all(name)
        guard !values.isEmpty else { return nil }
        if values.count == 1, trimmed(values[0][...]) == "*" {
            self = .any
            return
        }
        self = .list(values.flatMap(Self.split))
    }

    /// Commas may be inside the quotes.
    private static func split(_ value: String) -> [String] {
        var tags: [String] = []
        var current: [UInt8] = []
        var isQuoted = false
        for byte in value.utf8 {
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if byte == UInt8(ascii: ","), !isQuoted {
                tags.append(trimmed(String(decoding: current, as: UTF8.self)[...]))
                current = []
            } else {
                current.append(byte)
            }
        }
        tags.append(trimmed(String(decoding: current, as: UTF8.self)[...]))
        return tags.filter { !$0.isEmpty }
    }

    /// Weak comparison, for `If-None-Match`. `tag`: a strong one.
    func matchesWeakly(_ tag: String) -> Bool {
        switch self {
        case .any: true
        case .list(let tags): tags.contains { $0 == tag || $0 == "W/" + tag }
        }
    }

    /// Strong comparison, for `If-Match`.
    func matches(_ tag: String) -> Bool {
        switch self {
        case .any: true
        case .list(let tags): tags.contains(tag)
        }
    }

    /// Whether `If-Match` allows to change what is like this by now (`entityTag(changeable:shown:)`): what is
    /// shown beside it changes by itself, and is no reason to refuse.
    func allowsChange(of changeable: [UInt8]) -> Bool {
        switch self {
        case .any: true
        case .list(let tags):
            tags.contains { $0.hasPrefix("\"\(shortDigest(changeable))-") && $0.hasSuffix("\"") }
        }
    }

    /// The revisions that `If-Match` allows, as it lists them; nil for any.
    var revisions: [Int32]? {
        switch self {
        case .any: nil
        case .list(let tags): tags.compactMap(revisionNumber)
        }
    }
}

/// The entity tag of a revision: `"r3"`.
func entityTag(revision: Int32) -> String { "\"r\(revision)\"" }

/// The entity tag of what has no revisions: of what clients can change about it, and of all that is shown.
func entityTag(changeable: [UInt8], shown: [UInt8]) -> String {
    "\"\(shortDigest(changeable))-\(shortDigest(shown))\""
}

private func shortDigest(_ bytes: [UInt8]) -> String {
    hexEncoded(Array(Digest.of(bytes).prefix(8)))
}

private func revisionNumber(_ tag: String) -> Int32? {
    guard tag.hasPrefix("\"r"), tag.hasSuffix("\""), let number = Int32(tag.dropFirst(2).dropLast()),
        number >= 0
    else { return nil }
    return number
}

/// What a `Range` field asks for (RFC 9110 §14.2).
enum ByteRange: Equatable {
    /// Everything: no field, another unit, several ranges, or not to be read.
    case whole
    case part(offset: Int64, length: Int64)
    case unsatisfiable

    init(_ field: String?, byteCount: Int64) {
        self = .whole
        guard let field, field.utf8.count <= 64, field.lowercased().hasPrefix("bytes=") else { return }
        let parts = trimmed(field.dropFirst(6)).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.allSatisfy { (48...57).contains($0) } }) else {
            return
        }
        if parts[0].isEmpty {
            guard let suffix = Int64(parts[1]) else { return }
            let length = min(suffix, byteCount)
            self = length == 0 ? .unsatisfiable : .part(offset: byteCount - length, length: length)
            return
        }
        guard let first = Int64(parts[0]), let last = parts[1].isEmpty ? Int64.max : Int64(parts[1]),
            first <= last
        else { return }
        guard first < byteCount else {
            self = .unsatisfiable
            return
        }
        self = .part(offset: first, length: min(last, byteCount - 1) - first + 1)
    }
}
