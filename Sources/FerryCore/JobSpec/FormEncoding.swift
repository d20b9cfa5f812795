// What a job shows and stores of the bytes that it sends: places, names and sizes, never the bytes.

extension JobSpec.Source {
    /// Writes into an open object: `"path": …`, `"job": …`, `"text": {"size": 5}`, and the form around it.
    func writeMembers(into writer: inout JSONWriter) {
        switch self {
        case .path(let path): writer.member("path", path)
        case .job(let job): writer.member("job", job)
        case .inline(let body): body.writeMember(into: &writer)
        case .form(let parts):
            guard let file = parts.last else { return }
            file.source.writeMembers(into: &writer)
            writer.name("form")
            writer.beginObject()
            writer.member("field", file.name)
            writer.memberOrNull("file_name", file.fileName)
            writer.memberOrNull("content_type", file.contentType)
            writer.name("fields")
            writer.beginObject()
            for field in parts.dropLast() {
                writer.name(field.name)
                if case .inline(let body) = field.source {
                    body.writeSize(into: &writer)
                } else {
                    writer.null()
                }
            }
            writer.endObject()
            writer.endObject()
        }
    }

    /// Reads what `writeMembers` wrote.
    init(stored: StoredObject) throws(StoredJSONError) {
        let place: Self
        if let path = stored.string("path") {
            place = .path(path)
        } else if let job = stored.string("job") {
            place = .job(try stored.need(JobID(job), "job"))
        } else {
            place = .inline(try JobSpec.Body(stored: stored))
        }
        guard let form = stored.object("form") else {
            self = place
            return
        }
        var parts: [JobSpec.Part] = []
        for field in form.json["fields"]?.members ?? [] {
            let size = try form.need(field.value["size"]?.integer, "fields")
            let body = JobSpec.Body(form: .text, byteCount: Int(clamping: size))
            parts.append(JobSpec.Part(name: field.name, source: .inline(body)))
        }
        parts.append(
            JobSpec.Part(
                name: try form.need(form.string("field"), "field"), source: place,
                fileName: form.string("file_name"), contentType: form.string("content_type")))
        self = .form(parts)
    }
}

extension JobSpec.Body {
    /// Writes into an open object: `"json": {"size": 5}`, `"multipart": […]`.
    func writeMember(into writer: inout JSONWriter) {
        writer.name(form.rawValue)
        guard form == .multipart else { return writeSize(into: &writer) }
        writer.beginArray()
        for part in parts {
            writer.beginObject()
            writer.member("name", part.name)
            part.source.writeMembers(into: &writer)
            writer.memberOrNull("file_name", part.fileName)
            writer.memberOrNull("content_type", part.contentType)
            writer.endObject()
        }
        writer.endArray()
    }

    func writeSize(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("size", byteCount)
        writer.endObject()
    }

    /// Reads the parts that `writeMember` wrote.
    init(storedParts stored: StoredObject) throws(StoredJSONError) {
        var parts: [JobSpec.Part] = []
        var byteCount = 0
        for value in stored.array("multipart") {
            let part = StoredObject(value)
            let source = try Self.partSource(part)
            if case .inline(let body) = source { byteCount += body.byteCount }
            parts.append(
                JobSpec.Part(
                    name: try part.need(part.string("name"), "name"), source: source,
                    fileName: part.string("file_name"), contentType: part.string("content_type")))
        }
        self.init(form: .multipart, byteCount: byteCount, parts: parts)
    }

    private static func partSource(_ part: StoredObject) throws(StoredJSONError) -> JobSpec.Source {
        for form in [JobSpec.Body.Form.text, .base64] {
            guard let body = part.object(form.rawValue) else { continue }
            let size = try part.need(body.integer("size"), "size")
            return .inline(JobSpec.Body(form: form, byteCount: Int(clamping: size)))
        }
        return try JobSpec.Source(stored: part)
    }
}

extension JobSpec.Body {
    init(stored: StoredObject) throws(StoredJSONError) {
        guard let member = stored.json.members?.first, let form = Form(rawValue: member.name) else {
            throw StoredJSONError("body")
        }
        if form == .multipart {
            try self.init(storedParts: stored)
            return
        }
        let size = try stored.need(member.value["size"]?.integer, "size")
        self.init(form: form, byteCount: Int(clamping: size))
    }
}
