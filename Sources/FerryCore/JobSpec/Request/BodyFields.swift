// Bodies and sources of jobs: what is sent, and where its bytes come from. Responses and the stored form show
// names and sizes, never the bytes.

extension JobSpec {
    /// Bytes that a request of the API carries: the bytes until the object around them has taken them, later
    /// only their number.
    struct InlineBytes: FieldValue {
        let byteCount: Int
        private(set) var bytes: [UInt8] = []

        init(_ bytes: [UInt8]) {
            self.bytes = bytes
            byteCount = bytes.count
        }
        init(byteCount: Int) { self.byteCount = byteCount }

        static func decode(_ json: JSONView, _ form: Body.Form, _ place: FieldPlace) -> InlineBytes? {
            switch form {
            case .json:
                var writer = JSONWriter()
                writer.value(json)
                return InlineBytes(writer.bytes)
            case .form:
                return FormTexts.decode(json, FormTexts.Rule(countMax: 1_000), place)
                    .map { InlineBytes(formEncoded($0.pairs)) }
            case .base64:
                guard let text = json.string else { return place.failType("a string", json) }
                return Base64.decode(text).map(InlineBytes.init)
                    ?? place.fail("invalid_value", "This is not base64 (RFC 4648, with padding).")
            case .text, .multipart:
                guard let text = json.string else { return place.failType("a string", json) }
                return InlineBytes(Array(text.utf8))
            }
        }
        static func restore(_ json: JSON) -> InlineBytes? {
            json["size"]?.integer.map { InlineBytes(byteCount: Int(clamping: $0)) }
        }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) {
            writer.beginObject()
            writer.member("size", byteCount)
            writer.endObject()
        }
        static func schema(_ form: Body.Form) -> [JSON.Member] {
            switch form {
            case .json: []
            case .form: FormTexts.schema(FormTexts.Rule(countMax: 1_000))
            case .base64: JSON.rules(base64Schema)
            case .text, .multipart: [JSON.Member("type", "string")]
            }
        }
        static func shownSchema(_ form: Body.Form) -> [JSON.Member] { FormTexts.sizeSchema }

        private static let base64Schema = #"""
            {
              "type": "string", "contentEncoding": "base64",
              "pattern":
                "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
            }
            """#
    }
}

// MARK: Bodies

extension JobSpec {
    /// The form in which the client gave a body, and the size of its payload in bytes.
    public struct Body: FieldObject {
        public static let summary =
            "Body of a request. Shown with its size instead of its content: {\"json\": {\"size\": 5}}."
        public static let schemaName = "Body"

        /// Member of the request in which the body was given.
        public enum Form: String, Sendable, CaseIterable {
            case json, form, text, base64, multipart

            fileprivate var summary: String {
                switch self {
                case .json: "Any JSON value, sent as application/json."
                case .form:
                    "Fields by name, or a list of fields with name and value, whose names may repeat; "
                        + "sent as application/x-www-form-urlencoded."
                case .text: "Text to send as UTF-8."
                case .base64: "Bytes as base64 (RFC 4648 section 4), with padding."
                case .multipart: "The parts, sent as multipart/form-data (RFC 7578)."
                }
            }
        }
        /// Form.
        public var form: Form
        /// Bytes of the payload.
        public var byteCount: Int
        /// Parts of a `multipart` body.
        public var parts: [Part]
        /// The payload while the body is read.
        fileprivate var bytes: [UInt8] = []

        /// Creates a body without content.
        public init() { self.init(form: .text, byteCount: 0) }
        /// Creates a body.
        public init(form: Form, byteCount: Int, parts: [Part] = []) {
            self.form = form
            self.byteCount = byteCount
            self.parts = parts
        }
        fileprivate init(_ form: Form, _ content: InlineBytes) {
            self.init(form: form, byteCount: content.byteCount)
            bytes = content.bytes
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            for form in Form.allCases where form != .multipart {
                var content = content(form)
                visitor.alternative(form.rawValue, &content, form, form.summary)
                if let content { self = Body(form, content) }
            }
            var parts = form == .multipart ? self.parts : nil
            visitor.alternative(
                "multipart", &parts, ListRule(1...Limits.partCountMax, of: NoRule(), isUnique: false),
                Form.multipart.summary)
            guard let parts else { return }
            let byteCount = parts.reduce(0) { $0 + $1.source.inlineByteCount }
            self = Body(form: .multipart, byteCount: byteCount, parts: parts)
        }

        /// The content, if it was given in this form.
        fileprivate func content(_ form: Form) -> InlineBytes? {
            guard self.form == form else { return nil }
            return bytes.isEmpty ? InlineBytes(byteCount: byteCount) : InlineBytes(bytes)
        }

        public mutating func check(_ body: FieldDecoder) {
            body.context.payload = hasPayload ? takePayload() : nil
        }

        /// Returns the payload and forgets it.
        fileprivate mutating func takePayload() -> [UInt8] {
            defer { bytes = [] }
            return bytes + parts.takePayload()
        }

        var hasPayload: Bool { form != .multipart || parts.contains { $0.source.hasPayload } }
    }
}

extension [JobSpec.Part] {
    /// Returns the concatenation of the inline parts and forgets them.
    fileprivate mutating func takePayload() -> [UInt8] {
        var payload: [UInt8] = []
        for index in indices {
            guard case .inline(var body) = self[index].source else { continue }
            payload += body.takePayload()
            self[index].source = .inline(body)
        }
        return payload
    }
}

// MARK: Sources

extension JobSpec {
    /// Source of an upload.
    public enum Source: Sendable, Equatable {
        /// A file below the tenant's storage root.
        case path(String)
        /// The file of another job of the same tenant.
        case job(JobID)
        /// A staged upload of the same tenant. A submitted job has its identifier.
        case upload(UploadReference)
        /// The payload, given as `base64` or `text`.
        case inline(Body)
        /// A `multipart/form-data` body of fields, with the uploaded file as last part. `isList`: `true` if
        /// the client has given the fields as a list.
        case form([Part], isList: Bool = false)
        /// An object in a store, which a download fetches, or an upload while it is sent.
        case object(Boxed<ObjectSource>)
        /// A file of another server, which is sent as it is fetched.
        case server(Boxed<OtherServer>)
    }
}

extension JobSpec.Source: FieldObject {
    public static let summary = "Source of an upload, or the object of a store that a download fetches."
    public static let schemaName = "Source"

    public static func schema(of field: String, for kind: JobKind) -> [JSON.Member]? {
        field == "url" && kind != .upload ? OtherServerURL.objectSchema : nil
    }

    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        kind == .upload ? JSON.rules(serverRules) : []
    }

    private static let serverRules = #"""
        {
          "dependentRequired": {"headers": ["url"], "header_fields": ["url"], "auth": ["url"]},
          "if": {"required": ["url"]},
          "then": {"properties": {"form": {"type": "null"}}}
        }
        """#

    /// Creates a source without path.
    public init() { self = .path("") }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        var file = file
        file.place(&visitor, kinds: .upload)
        file.upload(&visitor, kinds: .upload)
        file.object(&visitor)
        file.server(&visitor)
        var form = form
        visitor.object(
            "form", &form, .of(kinds: .upload),
            "Form that carries the source as a file, or null to send the source as the whole body.")
        self = form.map { .form($0.parts(file), isList: $0.texts.isList) } ?? file
    }

    /// Declares where the bytes are. `kinds`: of jobs that have such a source.
    fileprivate mutating func place(_ visitor: inout some FieldVisitor, kinds: JobKinds) {
        for form in [JobSpec.Body.Form.text, .base64] {
            var content: JobSpec.InlineBytes?
            if case .inline(let body) = self { content = body.content(form) }
            visitor.alternative(form.rawValue, &content, form, kinds: kinds, form.summary)
            if let content { self = .inline(JobSpec.Body(form, content)) }
        }
        var path: String?
        if case .path(let own) = self { path = own }
        visitor.alternative(
            "path", &path, .filePath, kinds: kinds, "Path of a file below the tenant's storage root.")
        if let path { self = .path(path) }
        var job: JobReference?
        if case .job(let own) = self { job = JobReference(id: own) }
        visitor.alternative(
            "job", &job, NoRule(), kinds: kinds,
            "Identifier of a job of the same tenant whose content is sent as it was received. That job must "
                + "have succeeded when this one begins. In a batch, #/jobs/3 is the job at place 3 of jobs, "
                + "an earlier one: this one then depends on it.")
        if let job { self = .job(job.id) }
    }

    /// Declares the staged upload that the bytes are of.
    fileprivate mutating func upload(_ visitor: inout some FieldVisitor, kinds: JobKinds) {
        var upload: UploadReference?
        if case .upload(let own) = self { upload = own }
        visitor.alternative(
            "upload", &upload, NoRule(), kinds: kinds,
            "Identifier or name of a staged upload of the same tenant. If it is not complete, the job "
                + "depends on it, and waits until it is.")
        if let upload { self = .upload(upload) }
    }

    /// Declares the object of a store that is fetched.
    private mutating func object(_ visitor: inout some FieldVisitor) {
        var object: Boxed<JobSpec.ObjectSource>?
        if case .object(let own) = self { object = own }
        visitor.alternative(
            "s3", &object, NoRule(), kinds: [.download, .upload], isForOthersLater: true,
            "Object in an S3-compatible store. Of a download: in place of request.url, which then shows its "
                + "address. Of an upload: the object is fetched while it is sent.")
        if let object { self = .object(object) }
    }

    /// Declares the other server that an upload copies from.
    private mutating func server(_ visitor: inout some FieldVisitor) {
        var server: JobSpec.OtherServer?
        if case .server(let own) = self { server = own.value }
        JobSpec.OtherServer.fields(
            &visitor, &server, kind: .upload,
            "Of an upload: URL of a file that is fetched and sent at the same time, http or https. "
                + "s3://bucket/key is short for s3, for Amazon S3.")
        if let server { self = .server(Boxed(server)) }
    }

    /// The source without the form around it.
    private var file: Self {
        if case .form(let parts, _) = self, let file = parts.last { file.source } else { self }
    }

    private var form: UploadForm? {
        if case .form(let parts, let isList) = self { UploadForm(parts, isList: isList) } else { nil }
    }

    public mutating func check(_ body: FieldDecoder) {
        var server: JobSpec.OtherServer?
        if case .server(let own) = file { server = own.value }
        JobSpec.OtherServer.check(server, body)
        if case .form = self {
            switch file {
            case .server, .object:
                body.fail(
                    "form", "invalid_combination", "A file of another server is sent as the whole body.")
            case .path, .job, .upload, .inline, .form: break
            }
        }
        let payload: [UInt8]
        switch self {
        case .form(var parts, let isList):
            if var file = parts.popLast() {
                file.nameUpload()
                parts.append(file)
            }
            payload = parts.takePayload()
            self = .form(parts, isList: isList)
        case .inline(var own):
            payload = own.takePayload()
            self = .inline(own)
        case .path, .job, .upload, .object, .server: return
        }
        if hasPayload { body.context.payload = payload }
    }

    var hasPayload: Bool {
        switch self {
        case .path, .job, .upload, .object, .server: false
        case .inline: true
        case .form(let parts, _): parts.contains { $0.source.hasPayload }
        }
    }

    fileprivate var inlineByteCount: Int {
        if case .inline(let body) = self { body.byteCount } else { 0 }
    }
}

extension UploadReference: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> UploadReference? {
        guard let text = json.string else { return place.failType("a string", json) }
        return UploadReference(text)
            ?? place.fail(
                "invalid_value", "This must be the identifier of an upload, or its name: \(UploadName.rule).")
    }
    public static func restore(_ json: JSON) -> UploadReference? {
        json.string.flatMap { UploadReference($0) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        switch self {
        case .id(let id): writer.value(id)
        case .name(let name): writer.value(name)
        }
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        String.schema(TextRule(1...Limits.nameByteCountMax, pattern: "^[A-Za-z0-9._-]+$"))
    }
}

/// `source.form` of an upload.
private struct UploadForm: FieldObject {
    static let summary =
        "Sends the source as a file of a multipart/form-data body, after the fields. integrity and result "
        + "cover the file only. Most servers expect the method POST."
    static let schemaName = "UploadForm"

    var field = "file"
    var fileName: String?
    var contentType: String?
    var texts = JobSpec.FormTexts(fields: [])

    init() {}

    init(_ parts: [JobSpec.Part], isList: Bool) {
        texts.isList = isList
        if let file = parts.last {
            (field, fileName, contentType) = (file.name, file.fileName, file.contentType)
        }
        texts.fields = parts.dropLast().compactMap { part in
            guard case .inline(let body) = part.source else { return nil }
            return body.content(.text).map { (part.name, $0) }
        }
    }

    func parts(_ file: JobSpec.Source) -> [JobSpec.Part] {
        texts.fields.map { JobSpec.Part(name: $0.name, source: .inline(JobSpec.Body(.text, $0.text))) }
            + [JobSpec.Part(name: field, source: file, fileName: fileName, contentType: contentType)]
    }

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("field", &field, .partName, .plain, "Name of the field that carries the file.")
        visitor.field(
            "file_name", &fileName, .partName, .plain,
            "File name of the source. Default: the last component of path, the file name of the job, or file."
        )
        visitor.field(
            "content_type", &contentType, .mediaType, .plain,
            "Media type of the source. Default: that of the job's content, else application/octet-stream.")
        visitor.field(
            "fields", &texts, JobSpec.FormTexts.Rule(countMax: Limits.partCountMax - 1, name: .partName),
            .plain,
            "Further fields by name, or a list of fields with name and value, whose names may repeat; "
                + "sent before the file.")
    }
}

// MARK: Parts

extension JobSpec {
    /// A part of a `multipart/form-data` body.
    public struct Part: FieldObject, FieldValue {
        public static let summary =
            "A part of a multipart/form-data body (RFC 7578): a field or a file. The content of text and "
            + "base64 is shown as {\"size\": 5}."
        public static let schemaName = "Part"

        /// Name of the field.
        public var name: String
        /// The bytes; never a form itself.
        public var source: Source
        /// File name; `nil` for a field, and for the file of a job or an upload, which has its own name.
        public var fileName: String?
        /// Media type; `nil` for text, and for the file of a job or an upload, which has its own type.
        public var contentType: String?

        /// Creates a part without name.
        public init() { self.init(name: "", source: Source()) }
        /// Creates a part.
        public init(name: String, source: Source, fileName: String? = nil, contentType: String? = nil) {
            self.name = name
            self.source = source
            self.fileName = fileName
            self.contentType = contentType
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field("name", &name, .partName, .of(required: true), "Name of the part.")
            source.place(&visitor, kinds: .all)
            source.upload(&visitor, kinds: .all)
            visitor.field(
                "file_name", &fileName, .partName, .plain,
                "File name of the part. Default: the last component of path, or the file name of the job or "
                    + "upload; none for text and base64.")
            visitor.field(
                "content_type", &contentType, .mediaType, .plain,
                "Media type of the part. Default: that of the job's content or of the upload, else "
                    + "application/octet-stream; none for text.")
        }

        public mutating func check(_ body: FieldDecoder) { nameFile() }

        /// Sets the default name of a file, the last part of its path, and its default type.
        private mutating func nameFile() {
            if case .path(let path) = source {
                fileName = fileName ?? path.split(separator: "/").last.map(String.init)
                contentType = contentType ?? octetStream
            } else if case .inline(let body) = source, body.form == .base64 {
                contentType = contentType ?? octetStream
            }
        }

        /// Like `nameFile`, for the file of an upload: without a name it would be a field (RFC 7578 §4.2).
        fileprivate mutating func nameUpload() {
            nameFile()
            guard case .inline = source else { return }
            fileName = fileName ?? "file"
            contentType = contentType ?? octetStream
        }

        public static func schema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/PartInput")]
        }
        public static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
            [JSON.Member("$ref", "#/components/schemas/Part")]
        }
    }

    /// `true` if bytes are stored beside the spec as payload.
    public var hasPayload: Bool { request.body?.hasPayload ?? source?.hasPayload ?? false }

    /// The parts of a multipart body, or `nil` for other bodies.
    public var parts: [Part]? {
        if case .form(let parts, _)? = source { return parts }
        return request.body.flatMap { $0.form == .multipart ? $0.parts : nil }
    }
}

private let octetStream = "application/octet-stream"

extension TextRule {
    /// Name of a part or file; a quote is sent as `%22`.
    fileprivate static let partName = TextRule(
        1...Limits.partNameByteCountMax, pattern: "^[^\(NameCharacters.forbiddenRanges)]*$"
    ) { NameCharacters.areAllowed(in: $0) ? nil : "A name has \(NameCharacters.rule)." }

    /// `type/subtype` with optional parameters (RFC 9110 §8.3.1).
    fileprivate static let mediaType = TextRule(
        0...255, pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+/[A-Za-z0-9!#$%&'*+.^_`|~-]+(;[ -~]*)?$"
    ) { text in
        let parts = text.utf8.prefix { $0 != UInt8(ascii: ";") }
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let isType =
            parts.count == 2 && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
            && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(isTokenByte) }
        return isType ? nil : "This must be a media type such as \"image/png\"."
    }
}
