internal import FerryCore
internal import HTTPServer
internal import OpenSSL

/// Entity tags of `If-Match` or `If-None-Match`: `*`, or a list (RFC 9110 §13.1).
enum EntityTags: Equatable {
    case any
    /// Tags with their quotes; weak ones with `W/`.
    case list([String])

    /// `nil` if the field is absent. A malformed tag matches nothing.
    init?(_ fields: HTTPFields, _ name: String) {
        let values = fields.all(name)
        guard !values.isEmpty else { return nil }
        if values.count == 1, trimmed(values[0][...]) == "*" {
            self = .any
            return
        }
        self = .list(values.flatMap(Self.split))
    }

    /// Splits a value at the commas outside quotes.
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

    /// Whether a strong tag matches by weak comparison, as `If-None-Match` compares.
    func matchesWeakly(_ tag: String) -> Bool {
        switch self {
        case .any: true
        case .list(let tags): tags.contains { $0 == tag || $0 == "W/" + tag }
        }
    }

    /// Whether a tag matches by strong comparison, as `If-Match` compares.
    func matches(_ tag: String) -> Bool {
        switch self {
        case .any: true
        case .list(let tags): tags.contains(tag)
        }
    }

    /// Whether `If-Match` allows to change an object with this JSON of its changeable members. The tag has a
    /// digest of them (`entityTag(changeable:shown:)`); its other digest covers members that change by
    /// themselves, and is not compared.
    func allowsChange(of changeable: [UInt8]) -> Bool {
        switch self {
        case .any: true
        case .list(let tags):
            tags.contains { $0.hasPrefix("\"\(shortDigest(changeable))-") && $0.hasSuffix("\"") }
        }
    }

    /// Revisions that `If-Match` lists, in its order; `nil` for `*`.
    var revisions: [Int32]? {
        switch self {
        case .any: nil
        case .list(let tags): tags.compactMap(revisionNumber)
        }
    }
}

/// Returns the entity tag of a revision: `"r3"`.
func entityTag(revision: Int32) -> String { "\"r\(revision)\"" }

/// Returns the entity tag of an object without revisions: a digest of the members that clients can change,
/// and one of the whole representation.
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

/// Bytes that a `Range` field asks for (RFC 9110 §14.2).
enum ByteRange: Equatable {
    /// The whole content: the field is absent or malformed, has another unit, or lists several ranges.
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
