// The parts of a job's body that name places and carry bytes: request, source, destination, webhook.

/// A request with the data that is stored apart from it.
struct DecodedRequest {
    var spec: JobSpec.RequestSpec
    var payload: [UInt8]?
    var secrets: JobSecrets
    var origin: String
}

extension JobDecoding {
    func request(_ fields: inout FieldReader, _ kind: JobKind?) -> DecodedRequest? {
        guard var object = fields.object("request") else { return nil }
        if !object.has("url") { object.addError("url", "required", "A request needs a url.") }
        let url = url(&object, "url")
        let method = method(&object, kind)
        let (headers, secrets) = headers(&object, "headers")
        let body = body(&object, kind, method)
        let timeout =
            object.number("timeout_for_request", in: 1...604_800) ?? standardTimeoutForRequest
        object.only(
            ["use_protocol_cache_policy"], "cache_policy",
            later: [
                "reload_ignoring_local_cache_data", "reload_ignoring_local_and_remote_cache_data",
                "return_cache_data_else_load", "return_cache_data_dont_load",
                "reload_revalidating_cache_data",
            ])
        let acceptEncoding = acceptEncoding(&object, kind, headers)
        let connection = connection(&object, url, headers)
        var others: Set<String> = acceptEncoding == .identity ? [] : ["accept-encoding"]
        if connection.rules.authentication != nil { others.insert("authorization") }
        let sent = withSessionHeaders(
            (headers, secrets), leavingOut: others, at: object.pointer("headers"))
        let additional = additionalHeaders(
            headers, leavingOut: others, namesProxy: object.has("proxy"))
        object.finish()
        guard let url else { return nil }
        var spec = JobSpec.RequestSpec(
            url: url.string, method: method, headers: sent.shown, body: body?.body,
            timeoutForRequest: timeout, acceptEncoding: acceptEncoding)
        spec.connection = connection.rules
        spec.additionalHeaders = additional
        var all = JobSecrets(headers: sent.secret)
        all.connection = connection.secrets
        let payload = body.flatMap { $0.body.hasPayload ? $0.payload : nil }
        return DecodedRequest(spec: spec, payload: payload, secrets: all, origin: url.origin)
    }

    private func acceptEncoding(
        _ fields: inout FieldReader, _ kind: JobKind?, _ headers: [JobSpec.Pair]
    ) -> JobSpec.AcceptEncoding {
        let choice = fields.choice("accept_encoding", JobSpec.AcceptEncoding.self) ?? .identity
        guard choice != .identity else { return choice }
        if kind == .upload {
            fields.addError(
                "accept_encoding", "invalid_combination", "The response to an upload is not stored.")
        } else if headers.contains(where: { $0.name.lowercased() == "accept-encoding" }) {
            fields.addError(
                "accept_encoding", "invalid_combination",
                "Give either this or an Accept-Encoding header, which stores the response as sent.")
        }
        return choice
    }

    /// Reads a valid URL that the egress policy does not refuse.
    func url(_ fields: inout FieldReader, _ name: String) -> WebURL? {
        guard let text = fields.string(name) else { return nil }
        do throws(WebURL.Failure) {
            let url = try WebURL.parse(text)
            if let reason = refusal(url) {
                fields.addError(name, "blocked_address", reason)
                return nil
            }
            return url
        } catch {
            fields.addError(name, "invalid_value", error.message)
            return nil
        }
    }

    private func method(_ fields: inout FieldReader, _ kind: JobKind?) -> String {
        let standard = kind == .upload ? "PUT" : "GET"
        guard let method = fields.string("method", byteCounts: 1...32) else { return standard }
        let isFit =
            method.utf8.first.map { (65...90).contains($0) } == true
            && method.utf8.allSatisfy {
                (65...90).contains($0) || (48...57).contains($0) || $0 == 45 || $0 == 95
            }
        if !isFit {
            fields.addError(
                "method", "invalid_value", "A method is made of upper-case letters, digits, - and _.")
        } else if method == "CONNECT" || method == "TRACE" {
            fields.addError("method", "invalid_value", "\(method) cannot be used for a transfer.")
        } else if kind == .download, method == "HEAD" {
            fields.addError("method", "invalid_combination", "The response to HEAD has no body to download.")
        } else if kind == .upload, ["GET", "HEAD", "DELETE", "OPTIONS"].contains(method) {
            fields.addError(
                "method", "invalid_combination", "\(method) sends no body; an upload needs PUT or POST.")
        }
        return method
    }

    func headers(
        _ fields: inout FieldReader, _ name: String
    ) -> (shown: [JobSpec.Pair], secret: [JobSpec.Pair]) {
        guard var object = fields.object(name) else { return ([], []) }
        var shown: [JobSpec.Pair] = []
        var secret: [JobSpec.Pair] = []
        var names: Set<String> = []
        var byteCount = 0
        for member in object.all(countMax: Limits.headerCountMax) {
            let name = member.name
            guard let value = object.string(name) else { continue }
            byteCount += name.utf8.count + value.utf8.count
            if !HeaderRules.isName(name) {
                object.addError(name, "invalid_value", "This is not the name of a header field.")
            } else if HeaderRules.isForbidden(name) {
                object.addError(name, "invalid_value", "This header field is set by the service itself.")
            } else if !HeaderRules.isValue(value) {
                object.addError(name, "invalid_value", "A header's value has no control characters.")
            } else if !names.insert(name.lowercased()).inserted {
                object.addError(name, "duplicate", "This header field occurs twice.")
            }
            let isSecret = HeaderRules.isSecret(name)
            shown.append(JobSpec.Pair(name, isSecret ? "" : value))
            if isSecret { secret.append(JobSpec.Pair(name, value)) }
        }
        if byteCount > Limits.headerByteCountMax {
            errors.add(object.path, "too_long", "All together may have \(Limits.headerByteCountMax) bytes.")
        }
        return (shown, secret)
    }

    private func body(
        _ fields: inout FieldReader, _ kind: JobKind?, _ method: String
    ) -> (body: JobSpec.Body, payload: [UInt8])? {
        guard var object = fields.object("body", isNullable: true) else { return nil }
        if let kind, kind != .data {
            object.errors.add(
                object.path, "invalid_combination",
                kind == .upload
                    ? "An upload sends its source; leave the body out." : "A download sends no body.")
        } else if method == "GET" || method == "HEAD" {
            object.errors.add(
                object.path, "invalid_combination", "A \(method) request has no body; set method to POST.")
        }
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

    func inline(_ fields: inout FieldReader) -> (JobSpec.Body.Form, [UInt8])? {
        if let text = fields.string("text") { return (.text, Array(text.utf8)) }
        guard let text = fields.string("base64") else { return nil }
        guard let bytes = Base64.decode(text) else {
            fields.addError("base64", "invalid_value", "This is not base64 (RFC 4648, with padding).")
            return nil
        }
        return (.base64, bytes)
    }

    /// Returns the one of these members that is present; reports an error if there is none or several.
    func exactlyOne(_ fields: inout FieldReader, _ names: [String]) -> String? {
        let given = names.filter { fields.has($0) }
        if given.count != 1 {
            errors.add(
                fields.path, given.isEmpty ? "required" : "invalid_combination",
                "Exactly one of these must be given: \(names.joined(separator: ", ")).")
            for name in given { _ = fields.value(name) }
        }
        return given.count == 1 ? given[0] : nil
    }

    func source(_ fields: inout FieldReader, _ kind: JobKind?) -> (source: JobSpec.Source, payload: [UInt8]?)?
    {
        guard var object = fields.object("source", isNullable: true) else {
            if kind == .upload, !fields.has("source") || fields.value("source")?.isNull == true {
                fields.addError("source", "required", "An upload needs a source.")
            }
            return nil
        }
        if let kind, kind != .upload {
            errors.add(object.path, "invalid_combination", "Only an upload has a source.")
        }
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
    func place(_ fields: inout FieldReader, _ given: String?) -> (source: JobSpec.Source, payload: [UInt8]?)?
    {
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

    func destination(_ fields: inout FieldReader, _ kind: JobKind?) -> JobSpec.Destination? {
        guard var object = fields.object("destination", isNullable: true) else { return nil }
        if let kind, kind != .download {
            errors.add(object.path, "invalid_combination", "Only a download has a destination.")
        }
        var isElsewhere = false
        for name in ["url", "s3", "method", "headers"] where object.value(name) != nil {
            isElsewhere = true
            object.addError(
                name, "not_supported", "This destination is not supported yet by this version of Ferry.")
        }
        if !isElsewhere, !object.has("path") {
            object.addError("path", "required", "A destination needs a path.")
        }
        let path = path(&object, mayBeDirectory: true)
        let ifExists = object.choice("if_exists", JobSpec.Destination.IfExists.self)
        object.finish()
        guard let path else { return nil }
        var destination = JobSpec.Destination(path: path, ifExists: ifExists ?? .replace)
        // A name that the server chooses must not replace an unrelated file.
        if destination.isDirectory, ifExists == nil { destination.ifExists = .rename }
        return destination
    }

    /// Reads a path below a root. Checks the text only; the engine handles symbolic links.
    private func path(_ fields: inout FieldReader, mayBeDirectory: Bool = false) -> String? {
        guard let path = fields.string("path", byteCounts: 1...Limits.pathByteCountMax) else { return nil }
        var parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        if mayBeDirectory, parts.count > 1, parts.last?.isEmpty == true { parts.removeLast() }
        let reason: String? =
            if !NameCharacters.areAllowed(in: path) {
                "A path has \(NameCharacters.rule)."
            } else if path.utf8.first == UInt8(ascii: "/") {
                "A path is relative to the storage root; it does not begin with a slash."
            } else if parts.contains(where: {
                $0.isEmpty || $0.elementsEqual(".".utf8) || $0.elementsEqual("..".utf8)
            }) {
                "A path has no empty, \".\" or \"..\" parts."
            } else if parts.contains(where: { $0.count > 255 }) {
                "Each part of a path may have 255 bytes."
            } else if parts.contains(where: { $0.starts(with: ".ferry-".utf8) }) {
                "Names that begin with \".ferry-\" are the service's own."
            } else {
                nil
            }
        if let reason { fields.addError("path", "invalid_value", reason) }
        return path
    }

    func resumePoint(
        _ fields: inout FieldReader, _ kind: JobKind?, _ request: JobSpec.RequestSpec?
    ) -> ResumePoint? {
        let lengths = 1...Limits.resumeDataByteCountMax
        guard let text = fields.string("resume_data", byteCounts: lengths, isNullable: true) else {
            return nil
        }
        if let kind, kind != .download || request.map({ $0.method != "GET" }) ?? false {
            fields.addError("resume_data", "invalid_combination", "Only a download with GET resumes.")
            return nil
        }
        guard let point = openResumeData(text) else {
            fields.addError("resume_data", "invalid_value", "This is no resume data of this service.")
            return nil
        }
        if let request, !point.allows(request.url) {
            fields.addError("resume_data", "invalid_combination", "This resume data is of another URL.")
        }
        return point
    }

    /// `standard`: events of a webhook that names none.
    func webhook(
        _ fields: inout FieldReader, standard: [EventType]
    ) -> (spec: JobSpec.WebhookSpec, secret: String?)? {
        guard var object = fields.object("webhook", isNullable: true) else { return nil }
        if !object.has("url") { object.addError("url", "required", "A webhook needs a url.") }
        let url = url(&object, "url")
        let events = events(&object) ?? standard
        let secret = object.string("secret", isNullable: true)
        if let secret, WebhookSecret(secret) == nil {
            object.addError(
                "secret", "invalid_value",
                "A secret is whsec_ and the base64 of 24 to 64 bytes (Standard Webhooks).")
        }
        object.finish()
        return url.map {
            (JobSpec.WebhookSpec(url: $0.string, events: events, hasSecret: secret != nil), secret)
        }
    }

    private func events(_ fields: inout FieldReader) -> [EventType]? {
        let isEmpty = fields.value("events") == .array([])
        guard let names = fields.strings("events", countMax: 20, byteCountMax: 64) else {
            return nil
        }
        if isEmpty {
            fields.addError("events", "invalid_value", "Name at least one event, or leave this out.")
        }
        var events: [EventType] = []
        for (index, name) in names.enumerated() {
            if let event = EventType(rawValue: name), EventType.ofJobs.contains(event) {
                events.append(event)
                continue
            }
            let names = EventType.ofJobs.map(\.rawValue)
            errors.add(
                "\(fields.pointer("events"))/\(index)", "invalid_value",
                "This must be one of: \(names.joined(separator: ", ")).")
        }
        return events
    }
}
