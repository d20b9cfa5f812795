// Bodies and sources of jobs: what is sent, and where its bytes come from.

extension JobSpec.Body: FieldValue {
    package static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> JobSpec.Body? {
        guard let read = BodyDecoding(context: place.context).body(json, at: place.pointer) else {
            return nil
        }
        place.context.payload = read.body.hasPayload ? read.payload : nil
        return read.body
    }
    package static func restore(_ json: JSON) -> JobSpec.Body? {
        // `nil` stands for any damage.
        try? JobSpec.Body(stored: StoredObject(json))
    }
    package func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        writeMember(into: &writer)
        writer.endObject()
    }
    package static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/Body")]
    }
    package static func shownSchema(_ rule: NoRule) -> [JSON.Member] { [JSON.Member("type", "object")] }
}

extension JobSpec.Source: FieldValue {
    package static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> JobSpec.Source? {
        guard let read = BodyDecoding(context: place.context).source(json, at: place.pointer) else {
            return nil
        }
        if let payload = read.payload { place.context.payload = payload }
        return read.source
    }
    package static func restore(_ json: JSON) -> JobSpec.Source? {
        // `nil` stands for any damage.
        try? JobSpec.Source(stored: StoredObject(json))
    }
    package func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        writeMembers(into: &writer)
        writer.endObject()
    }
    package static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/Source")]
    }
    package static func shownSchema(_ rule: NoRule) -> [JSON.Member] { [JSON.Member("type", "object")] }
}

/// Reads bodies and sources, of which exactly one of several members is given.
private struct BodyDecoding {
    let context: FieldContext
    var errors: ValidationErrors { context.errors }

    func body(_ json: JSONView, at path: String) -> (body: JobSpec.Body, payload: [UInt8])? {
        guard var object = FieldReader(json, at: path, errors) else { return nil }
        let given = exactlyOne(&object, ["json", "form", "text", "base64", "multipart"])
        var bytes: (JobSpec.Body.Form, [UInt8])?
        switch given {
        case "json":
            var writer = JSONWriter()
            if let value = object.value("json") { writer.value(value) }
            bytes = (.json, writer.bytes)
        case "form": bytes = form(&object).map { (.form, $0) }
        case "text", "base64": bytes = inline(&object)
        case "multipart":
            let form = multipart(&object)
            object.finish()
            return form.map {
                (JobSpec.Body(form: .multipart, byteCount: $0.payload.count, parts: $0.parts), $0.payload)
            }
        default: break
        }
        object.finish()
        return bytes.map { (JobSpec.Body(form: $0, byteCount: $1.count), $1) }
    }

    private func form(_ fields: inout FieldReader) -> [UInt8]? {
        guard var object = fields.object("form") else { return nil }
        var pairs: [JobSpec.Pair] = []
        for member in object.all(countMax: 1_000) {
            if let value = object.string(member.name) { pairs.append(JobSpec.Pair(member.name, value)) }
        }
        return formEncoded(pairs)
    }

    private func inline(_ fields: inout FieldReader) -> (JobSpec.Body.Form, [UInt8])? {
        if let text = fields.string("text") { return (.text, Array(text.utf8)) }
        guard let text = fields.string("base64") else { return nil }
        guard let bytes = Base64.decode(text) else {
            fields.addError("base64", "invalid_value", "This is not base64 (RFC 4648, with padding).")
            return nil
        }
        return (.base64, bytes)
    }

    /// Returns the one of these members that is present; reports an error if there is none or several.
    private func exactlyOne(_ fields: inout FieldReader, _ names: [String]) -> String? {
        let given = names.filter { fields.has($0) }
        if given.count != 1 {
            errors.add(
                fields.path, given.isEmpty ? "required" : "invalid_combination",
                "Exactly one of these must be given: \(names.joined(separator: ", ")).")
            for name in given { _ = fields.value(name) }
        }
        return given.count == 1 ? given[0] : nil
    }

    func source(_ json: JSONView, at path: String) -> (source: JobSpec.Source, payload: [UInt8]?)? {
        guard var object = FieldReader(json, at: path, errors) else { return nil }
        let given = exactlyOne(&object, ["path", "text", "base64", "upload", "job", "url", "s3"])
        for name in ["upload", "url", "s3"] where given == name {
            _ = object.value(name)
            object.addError(
                name, "not_supported", "This source is not supported yet by this version of Ferry.")
        }
        var source = place(&object, given)
        source = form(&object, around: source)
        object.finish()
        return source
    }

    /// Reads bytes that are stored somewhere or inline.
    private func place(_ fields: inout FieldReader, _ given: String?) -> (
        source: JobSpec.Source, payload: [UInt8]?
    )? {
        switch given {
        case "path": return path(&fields).map { (.path($0), nil) }
        case "job": return job(&fields).map { (.job($0), nil) }
        case "text", "base64":
            return inline(&fields).map { (.inline(JobSpec.Body(form: $0, byteCount: $1.count)), $1) }
        default: return nil
        }
    }

    private func job(_ fields: inout FieldReader) -> JobID? {
        guard let text = fields.string("job") else { return nil }
        guard let job = JobID(text) else {
            fields.addError("job", "invalid_value", "This is not the identifier of a job.")
            return nil
        }
        return job
    }

    private func path(_ fields: inout FieldReader) -> String? {
        guard let json = fields.value("path") else { return nil }
        let place = FieldPlace(path: fields.path, name: "path", context: context)
        return String.decode(json, .filePath, place)
    }

    /// Reads `{"multipart": [{"name", "text" | "base64" | "path" | "job", "file_name", "content_type"}]}`.
    /// The payload is the concatenation of the inline parts.
    private func multipart(_ fields: inout FieldReader) -> (parts: [JobSpec.Part], payload: [UInt8])? {
        guard let values = fields.array("multipart", countMax: Limits.partCountMax) else { return nil }
        if values.isEmpty {
            fields.addError("multipart", "invalid_value", "A multipart body has at least one part.")
        }
        var parts: [JobSpec.Part] = []
        var payload: [UInt8] = []
        for (index, value) in values.enumerated() {
            let place = "\(fields.pointer("multipart"))/\(index)"
            guard var object = FieldReader(value, at: place, errors) else { continue }
            if let part = part(&object, &payload) { parts.append(part) }
            object.finish()
        }
        return (parts, payload)
    }

    private func part(_ fields: inout FieldReader, _ payload: inout [UInt8]) -> JobSpec.Part? {
        if !fields.has("name") { fields.addError("name", "required", "A part needs a name.") }
        let name = partName(&fields, "name")
        let content = place(&fields, exactlyOne(&fields, ["text", "base64", "path", "job"]))
        let fileName = partName(&fields, "file_name", isNullable: true)
        let type = mediaType(&fields)
        guard let name, let content else { return nil }
        payload += content.payload ?? []
        var part = JobSpec.Part(name: name, source: content.source, fileName: fileName, contentType: type)
        part.nameFile()
        return part
    }

    /// Reads `source.form`, which makes the source a file among fields. Returns the source itself without it.
    private func form(
        _ fields: inout FieldReader, around source: (source: JobSpec.Source, payload: [UInt8]?)?
    ) -> (source: JobSpec.Source, payload: [UInt8]?)? {
        guard var object = fields.object("form", isNullable: true) else { return source }
        let name = partName(&object, "field") ?? "file"
        let fileName = partName(&object, "file_name", isNullable: true)
        let type = mediaType(&object)
        var (parts, payload) = formFields(&object)
        object.finish()
        guard let source else { return nil }
        var file = JobSpec.Part(name: name, source: source.source, fileName: fileName, contentType: type)
        file.nameFile()
        if case .inline = file.source {
            // Without a name it would be a field (RFC 7578 §4.2).
            file.fileName = fileName ?? "file"
            file.contentType = type ?? octetStream
        }
        parts.append(file)
        payload += source.payload ?? []
        let whole = JobSpec.Source.form(parts)
        return (whole, whole.hasPayload ? payload : nil)
    }

    private func formFields(_ fields: inout FieldReader) -> (parts: [JobSpec.Part], payload: [UInt8]) {
        guard var object = fields.object("fields") else { return ([], []) }
        var parts: [JobSpec.Part] = []
        var payload: [UInt8] = []
        for member in object.all(countMax: Limits.partCountMax - 1) {
            if let reason = partNameReason(member.name) {
                object.addError(member.name, "invalid_value", reason)
            }
            guard let value = object.string(member.name) else { continue }
            payload += value.utf8
            let body = JobSpec.Body(form: .text, byteCount: value.utf8.count)
            parts.append(JobSpec.Part(name: member.name, source: .inline(body)))
        }
        return (parts, payload)
    }

    private func partName(_ fields: inout FieldReader, _ name: String, isNullable: Bool = false) -> String? {
        guard let text = fields.string(name, isNullable: isNullable) else { return nil }
        if let reason = partNameReason(text) { fields.addError(name, "invalid_value", reason) }
        return text
    }

    private func partNameReason(_ name: String) -> String? {
        (1...Limits.partNameByteCountMax).contains(name.utf8.count) && NameCharacters.areAllowed(in: name)
            ? nil : "A name has 1 to \(Limits.partNameByteCountMax) bytes, and \(NameCharacters.rule)."
    }

    /// Reads `type/subtype` with optional parameters (RFC 9110 §8.3.1).
    private func mediaType(_ fields: inout FieldReader) -> String? {
        guard let text = fields.string("content_type", isNullable: true) else { return nil }
        let parts = text.utf8.prefix { $0 != UInt8(ascii: ";") }
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let isType =
            parts.count == 2 && text.utf8.count <= 255 && text.utf8.allSatisfy { (0x20...0x7E).contains($0) }
            && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(HeaderRules.isTokenByte) }
        if !isType {
            fields.addError(
                "content_type", "invalid_value", "This must be a media type such as \"image/png\".")
        }
        return text
    }
}

private let octetStream = "application/octet-stream"

extension JobSpec {
    /// A part of a `multipart/form-data` body.
    package struct Part: Sendable, Equatable {
        /// Name of the field.
        package var name: String
        /// The bytes; never a form itself.
        package var source: Source
        /// File name; `nil` for a field, and for another job's file, which has a name of its own.
        package var fileName: String?
        /// Media type; `nil` for text, and for another job's file, which has a type of its own.
        package var contentType: String?
        /// Creates a part.
        package init(name: String, source: Source, fileName: String? = nil, contentType: String? = nil) {
            self.name = name
            self.source = source
            self.fileName = fileName
            self.contentType = contentType
        }

        /// Sets the default name of a file, the last part of its path, and its default type.
        fileprivate mutating func nameFile() {
            if case .path(let path) = source {
                fileName = fileName ?? path.split(separator: "/").last.map(String.init)
                contentType = contentType ?? octetStream
            } else if case .inline(let body) = source, body.form == .base64 {
                contentType = contentType ?? octetStream
            }
        }
    }

    /// `true` if bytes are stored beside the spec as payload.
    package var hasPayload: Bool { request.body?.hasPayload ?? source?.hasPayload ?? false }

    /// The parts of a multipart body, or `nil` for other bodies.
    package var parts: [Part]? {
        if case .form(let parts)? = source { return parts }
        return request.body.flatMap { $0.form == .multipart ? $0.parts : nil }
    }
}

extension JobSpec.Body {
    var hasPayload: Bool { form != .multipart || parts.contains { $0.source.hasPayload } }
}

extension JobSpec.Source {
    var hasPayload: Bool {
        switch self {
        case .path, .job: false
        case .inline: true
        case .form(let parts): parts.contains { $0.source.hasPayload }
        }
    }
}
