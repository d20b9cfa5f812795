extension JobSpec {
    /// An object in an S3-compatible store: what a source and a destination name alike.
    public struct StoreObject: Sendable, Equatable {
        /// Place of the bucket's name in the address of an object.
        public enum Addressing: String, FieldChoice {
            /// In the host: `https://bucket.host/key`.
            case virtual
            /// In the path: `https://host/bucket/key`.
            case path
        }

        /// Name of the bucket.
        public var bucket = ""
        /// Key of the object.
        public var key = ""
        /// URL of the store's origin; `nil` for Amazon S3.
        public var endpoint: String?
        /// Region that the store expects; `nil` for `standardRegion`.
        public var region: String?
        /// `nil`: virtual at Amazon S3 where a certificate allows it, else path.
        public var addressing: Addressing?
        /// Key that signs the requests; `nil` for requests without signature, or with the node's own key.
        public var credential: StoreCredential?

        /// Region of an object that names none.
        public static let standardRegion = "us-east-1"

        /// Creates an object without name.
        public init() {}

        /// Returns `true` if a text can be the name of a region, which may be part of a host.
        public static func isRegion(_ text: String) -> Bool {
            (1...64).contains(text.utf8.count)
                && text.utf8.allSatisfy { isAlphanumeric($0) || "-_".utf8.contains($0) }
        }

        /// Declares the members.
        mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field("bucket", &bucket, .bucket, .of(required: true), "Name of the bucket.")
            visitor.field(
                "key", &key, .objectKey, .of(required: true),
                "Key of the object, not percent-encoded: at most 1,024 bytes of UTF-8 without control "
                    + "characters. No part between slashes is . or ..")
            visitor.field(
                "endpoint", &endpoint, .storeEndpoint, .plain,
                "URL of the store, http or https, without path; null: Amazon S3.")
            visitor.field(
                "region", &region, .region, .plain,
                "Region of the bucket, which is part of the signature. By default \(Self.standardRegion); if "
                    + "the store names another one, the request is sent again with that.")
            visitor.field(
                "addressing", &addressing, .plain,
                "Place of the bucket's name: virtual (in the host) or path. By default path with an "
                    + "endpoint, and at Amazon S3 virtual, unless the name has a dot or upper-case letters.")
            visitor.field(
                "credential", &credential, .plain,
                "Key that signs the requests; null: the node's own if an operator allows it, else they are "
                    + "not signed, which is enough for public objects.")
        }
    }

    /// An access key of an S3-compatible store.
    public struct StoreCredential: FieldObject, FieldValue {
        public static let summary =
            "An access key of an S3-compatible store (AWS Signature Version 4). The secrets are encrypted "
            + "and shown as {\"set\": true}."
        public static let schemaName = "StoreCredential"

        /// Identifier of the key, which is no secret.
        public var accessKeyID = ""
        /// The secrets; `ConnectionSecrets` has their texts.
        public var secretAccessKey = Secret()
        public var sessionToken = Secret()

        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "access_key_id", &accessKeyID, .accessKeyID, .of(required: true), "Identifier of the key.")
            visitor.field(
                "secret_access_key", &secretAccessKey, .secretAccessKey, .of(required: true),
                "The secret key.")
            visitor.field(
                "session_token", &sessionToken, .token, .plain,
                "Session token of a temporary key; null for a permanent one.")
        }

        public mutating func check(_ body: FieldDecoder) {
            if body.has("secret_access_key"), !body.hasValue("secret_access_key") {
                body.fail("secret_access_key", "required", "This field is required.")
            }
        }

        public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> StoreCredential? {
            if json.string != nil {
                return place.fail(
                    "not_supported",
                    "This version of Ferry keeps no credentials by name; give the key itself.")
            }
            return decodeObject(json, place)
        }
        public static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/StoreCredentialInput")]
        }
        public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/StoreCredential")]
        }
    }
}

extension TextRule {
    /// Names of buckets, also those of stores that allow more than Amazon S3.
    fileprivate static let bucket = TextRule(1...255, pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{2,254}$") { name in
        let isName =
            name.utf8.count >= 3 && name.utf8.allSatisfy { isAlphanumeric($0) || "._-".utf8.contains($0) }
            && name.utf8.first.map(isAlphanumeric) == true
        return isName
            ? nil
            : "A bucket's name has at least 3 letters, digits and ._- and begins with a letter or digit."
    }

    fileprivate static let objectKey = TextRule(
        1...1_024, pattern: #"^[^\u0000-\u001f\u007f]+$"#, except: #"(^|/)\.\.?(/|$)"#
    ) { key in
        if key.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { return "A key has no control characters." }
        // Bytes: a slash and a combining character after it are one character.
        let parts = key.utf8.split(separator: UInt8(ascii: "/"))
        return parts.contains { $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8) }
            ? "No part of a key is . or .., which URLs leave out." : nil
    }

    fileprivate static let storeEndpoint = TextRule(
        1...Limits.urlByteCountMax, pattern: #"^ *[hH][tT][tT][pP][sS]?://[^@\s/?#]{1,253}/? *$"#
    ) { text in
        do throws(WebURL.Failure) {
            let url = try WebURL.parse(text)
            return url.path == "/" && url.query == nil ? nil : "The URL of a store has no path and no query."
        } catch {
            return error.message
        }
    }

    fileprivate static let region = TextRule(1...64, pattern: "^[A-Za-z0-9_-]+$") {
        JobSpec.StoreObject.isRegion($0) ? nil : "A region has letters, digits, - and _."
    }

    // The field `Authorization` has the identifier before a slash and a comma.
    fileprivate static let accessKeyID = TextRule(1...256, pattern: "^[!-+.0-~-]+$") {
        $0.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"/,".utf8.contains($0) }
            ? nil : "An identifier has visible characters of ASCII without / and comma."
    }

    fileprivate static let secretAccessKey = TextRule(
        1...Limits.passwordByteCountMax, pattern: #"^[^\u0000-\u001f\u007f]+$"#
    ) {
        $0.utf8.contains { $0 < 0x20 || $0 == 0x7F } ? "A secret key has no control characters." : nil
    }
}

private func isAlphanumeric(_ byte: UInt8) -> Bool {
    (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
}
