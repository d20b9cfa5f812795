extension JobSpec {
    /// Destination of a download, of the body of a data job, or of an upload to a store.
    public struct Destination: FieldObject {
        public static let summary =
            "Where a download or a body is stored; the object of a store to which a download or an upload is "
            + "sent; or the other server to which a download is sent."
        public static let schemaName = "Destination"
        /// Behavior if the file or object exists.
        public enum IfExists: String, FieldChoice { case replace, fail, rename }
        /// Path below the tenant's storage root: relative, without `.` or `..` segments. With a slash at the
        /// end it is a directory, and the response suggests the file name. Empty for an object.
        public var path = ""
        /// The object to which a download or an upload is sent; `nil` for a path.
        public var object: ObjectDestination? {
            get { boxedObject?.value }
            set { boxedObject = newValue.map(Boxed.init) }
        }
        private var boxedObject: Boxed<ObjectDestination>?
        /// The other server to which a download is sent; `nil` for a path.
        public var server: OtherServer? {
            get { boxedServer?.value }
            set { boxedServer = newValue.map(Boxed.init) }
        }
        private var boxedServer: Boxed<OtherServer>?
        /// `true` if the destination is an object.
        public var isObject: Bool { boxedObject != nil }
        /// Behavior if the file or object exists.
        public var ifExists = IfExists.replace
        /// Creates a destination without path.
        public init() {}
        /// Creates a destination.
        public init(path: String, ifExists: IfExists) {
            self.path = path
            self.ifExists = ifExists
        }
        /// `true` if the path is a directory.
        public var isDirectory: Bool { path.utf8.last == UInt8(ascii: "/") }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            var path = isObject || boxedServer != nil || self.path.isEmpty ? nil : self.path
            visitor.alternative(
                "path", &path, .destinationPath, change: .whileStopped, kinds: [.download, .data],
                "Path below the tenant's storage root: relative, without empty, . or .. parts. With a slash "
                    + "at the end it is a directory, and the response suggests the file name.")
            if let path { self.path = path }
            visitor.alternative(
                "s3", &boxedObject, NoRule(), kinds: [.download, .upload], isForOthersLater: true,
                "Object in an S3-compatible store. Of an upload: in place of request.url, which then shows "
                    + "its address. Of a download: the object is written while the file is fetched.")
            var server = server
            OtherServer.fields(
                &visitor, &server, kind: .download,
                "Of a download: URL to which the file is sent while it is fetched, http or https. "
                    + "s3://bucket/key is short for s3, for Amazon S3.")
            if server != self.server { self.server = server }
            visitor.field(
                "if_exists", &ifExists, .plain,
                "What happens if the file or object exists. By default replace, in a directory rename. An "
                    + "object and a file of another server are never renamed; for fail, the request has "
                    + "If-None-Match: *.")
        }

        public static func schema(of field: String, for kind: JobKind) -> [JSON.Member]? {
            field == "url" && kind != .download ? OtherServerURL.objectSchema : nil
        }

        public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
            switch kind {
            case .download: JSON.rules(otherEndRules)
            // The destination of an upload is an object.
            case .upload:
                JSON.rules(#"{"allOf": [{"properties": {"if_exists": {"enum": ["replace", "fail"]}}}]}"#)
            case .data, nil: []
            }
        }

        private static let otherEndRules = #"""
            {
              "dependentRequired": {
                "method": ["url"], "headers": ["url"], "header_fields": ["url"], "auth": ["url"]
              },
              "if": {"anyOf": [{"required": ["url"]}, {"required": ["s3"]}]},
              "then": {"properties": {"if_exists": {"enum": ["replace", "fail"]}}}
            }
            """#

        public mutating func check(_ body: FieldDecoder) {
            // A name that the server chooses must not replace an unrelated file.
            if isDirectory, !body.isGiven("if_exists") { ifExists = .rename }
            if isObject, ifExists == .rename {
                body.fail("if_exists", "not_supported", "An object in a store is replaced, or the job fails.")
            } else if server != nil, ifExists == .rename {
                body.fail(
                    "if_exists", "not_supported", "A file of another server is replaced, or the job fails.")
            }
            OtherServer.check(server, body)
        }
    }
}

extension TextRule {
    fileprivate static let destinationPath = path(mayBeDirectory: true)
    /// Path of a file below the tenant's storage root.
    static let filePath = path(mayBeDirectory: false)

    /// Checks the text only; the engine handles symbolic links.
    private static func path(mayBeDirectory: Bool) -> TextRule {
        let part = "[^/" + NameCharacters.forbiddenRanges + "]{1,255}"
        return TextRule(
            1...Limits.pathByteCountMax, pattern: "^\(part)(/\(part))*\(mayBeDirectory ? "/?" : "")$",
            except: #"(^|/)(\.\.?(/|$)|\.ferry-)"#
        ) { path in
            if !NameCharacters.areAllowed(in: path) { return "A path has \(NameCharacters.rule)." }
            if path.utf8.first == UInt8(ascii: "/") {
                return "A path is relative to the storage root; it does not begin with a slash."
            }
            var faults = PartFaults()
            var rest = path.utf8[...]
            while let slash = rest.firstIndex(of: UInt8(ascii: "/")) {
                faults.check(rest[..<slash])
                rest = rest[rest.index(after: slash)...]
            }
            if !mayBeDirectory || !rest.isEmpty || path.isEmpty { faults.check(rest) }
            return faults.message
        }
    }
}

/// Faults of the parts of a path.
private struct PartFaults {
    private var hasRelative = false
    private var hasTooLong = false
    private var hasReserved = false

    mutating func check(_ part: Substring.UTF8View) {
        let byteCount = part.count
        if byteCount <= 2, part.allSatisfy({ $0 == UInt8(ascii: ".") }) { hasRelative = true }
        if byteCount > 255 { hasTooLong = true }
        if part.starts(with: ".ferry-".utf8) { hasReserved = true }
    }

    /// The sentence about the first fault, or `nil` if there is none.
    var message: String? {
        if hasRelative { return "A path has no empty, \".\" or \"..\" parts." }
        if hasTooLong { return "Each part of a path may have 255 bytes." }
        return hasReserved ? "Names that begin with \".ferry-\" are the service's own." : nil
    }
}
