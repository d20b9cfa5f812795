// Objects of stores as members of a source and of a destination.

extension JobSpec {
    /// `source.s3`.
    public struct ObjectSource: FieldObject, FieldValue {
        public static let summary = "An object in an S3-compatible store, which is fetched."
        public static let schemaName = "ObjectSource"

        /// The object.
        public var object = StoreObject()

        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) { object.fields(&visitor) }

        public static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/ObjectSourceInput")]
        }
        public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/ObjectSource")]
        }
    }

    /// `destination.s3`.
    public struct ObjectDestination: FieldObject, FieldValue {
        public static let summary = "The object in an S3-compatible store that a job writes."
        public static let schemaName = "ObjectDestination"

        /// Checksum that the store compares with the bytes and keeps.
        public enum Checksum: String, FieldChoice { case sha256, crc32c, crc64nvme }

        /// The object.
        public var object = StoreObject()
        /// `x-amz-storage-class`, or `nil`.
        public var storageClass: String?
        /// `x-amz-server-side-encryption`, or `nil`.
        public var encryption: String?
        /// Checksum, or `nil`.
        public var checksum: Checksum?
        /// `x-amz-meta-` fields.
        public var metadata: [Pair] = []

        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            object.fields(&visitor)
            visitor.field(
                "storage_class", &storageClass, .storeName, .plain,
                "Storage class, such as STANDARD_IA; null: the store's default.")
            visitor.field(
                "server_side_encryption", &encryption, .storeName, .plain,
                "Encryption at the store, such as AES256 or aws:kms; null: the store's default.")
            visitor.field(
                "checksum", &checksum, .plain,
                "Checksum that the store compares with the bytes and keeps. The SHA-256 of the bytes is "
                    + "signed in any case.")
            var pairs = ObjectMetadata(pairs: metadata)
            visitor.field(
                "metadata", &pairs, .plain,
                "Metadata of the object: names of letters, digits, - and _, values of visible ASCII and "
                    + "spaces; at most 2 KiB together.")
            metadata = pairs.pairs
        }

        public static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/ObjectDestinationInput")]
        }
        public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/ObjectDestination")]
        }
    }
}

/// Metadata of an object: fields of its request, which HTTP bounds.
private struct ObjectMetadata: FieldValue {
    var pairs: [NameValuePair]

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> ObjectMetadata? {
        guard let members = json.members else { return place.failType("an object", json) }
        var pairs: [NameValuePair] = []
        var names: Set<String> = []
        for member in members {
            let item = place.item(member.name)
            guard String.check(member.name, item),
                let value = String.decode(member.value, .metadataValue, item)
            else { continue }
            guard names.insert(member.name.lowercased()).inserted else {
                item.add("duplicate", "This name occurs twice; upper and lower case are the same.")
                continue
            }
            pairs.append(NameValuePair(member.name, value))
        }
        let byteCount = pairs.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard byteCount <= Limits.objectMetadataByteCountMax else {
            return place.fail(
                "too_long",
                "At most \(Limits.objectMetadataByteCountMax) bytes are allowed, these are \(byteCount).")
        }
        return ObjectMetadata(pairs: pairs)
    }
    static func restore(_ json: JSON) -> ObjectMetadata? {
        json.members.map { ObjectMetadata(pairs: $0.map { NameValuePair($0.name, $0.value.string ?? "") }) }
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        for pair in pairs { writer.member(pair.name, pair.value) }
        writer.endObject()
    }
    var isLeftOut: Bool { pairs.isEmpty }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "object"),
            JSON.Member(
                "propertyNames",
                .object([.pattern("^[A-Za-z0-9_-]{1,128}$")])),
            JSON.Member("additionalProperties", .object(String.schema(.metadataValue))),
        ]
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "object"),
            JSON.Member("additionalProperties", .object([JSON.Member("type", "string")])),
        ]
    }
}

extension String {
    /// Whether a name can be the rest of a field's name; reports an error if not.
    fileprivate static func check(_ name: String, _ place: FieldPlace) -> Bool {
        let isName =
            (1...128).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0)
                    || "-_".utf8.contains($0)
            }
        if !isName { place.add("invalid_value", "A name has 1 to 128 letters, digits, - and _.") }
        return isName
    }
}

extension TextRule {
    fileprivate static let storeName = TextRule(1...64, pattern: "^[A-Za-z0-9:_-]+$") {
        $0.utf8.allSatisfy {
            (48...58).contains($0) || (65...90).contains($0) || (97...122).contains($0)
                || "-_".utf8.contains($0)
        } ? nil : "This has letters, digits and :_-."
    }

    /// A value without spaces at its ends, which HTTP leaves out (RFC 9110 §5.5).
    fileprivate static let metadataValue = TextRule(1...2_048, pattern: "^[!-~]([ -~]*[!-~])?$") {
        let isText = $0.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        return isText && $0.utf8.first != 0x20 && $0.utf8.last != 0x20
            ? nil : "A value has visible ASCII, and spaces between it."
    }
}
