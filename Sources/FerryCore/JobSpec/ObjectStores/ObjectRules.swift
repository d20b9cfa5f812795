// Rules of jobs whose address is an object of a store.

extension JobSpec {
    /// The object whose address is the job's URL; `nil` if that is no object's.
    public var storeObject: StoreObject? { kind == .upload ? destinationObject : sourceObject }

    /// The object at the other end of a copy; `nil` for other jobs.
    public var otherObject: StoreObject? { kind == .upload ? sourceObject : destinationObject }

    /// `true` if the job is an upload to an object of a store.
    public var isSentToStore: Bool { kind == .upload && destination?.isObject ?? false }

    /// The object of `source.s3`.
    var sourceObject: StoreObject? {
        get { if case .object(let source)? = source { source.value.object } else { nil } }
        set {
            guard let newValue, case .object(let boxed)? = source else { return }
            var own = boxed.value
            own.object = newValue
            source = .object(Boxed(own))
        }
    }

    /// The object of `destination.s3`.
    var destinationObject: StoreObject? {
        get { destination?.object?.object }
        set {
            guard let newValue, var own = destination?.object else { return }
            own.object = newValue
            destination?.object = own
        }
    }

    /// Moves the texts of the secrets of the job's own object, or of that at the other end of a copy, out of
    /// the spec; `nil` if it has none.
    mutating func takeStoreCredential(ofOther: Bool) -> (secretAccessKey: String?, sessionToken: String?)? {
        if (kind == .upload) == ofOther { return sourceObject?.takeSecrets() ?? nil }
        return destinationObject?.takeSecrets() ?? nil
    }

    /// Reports combinations that a request to a store cannot have.
    func checkObject(_ fields: FieldDecoder) {
        if fields.mode == .patch, kind == .upload, fields.has("destination") {
            fields.fail(
                "destination", "not_supported",
                "This cannot be changed after the submission; cancel the job and submit another one.")
        }
        for (member, object) in [("source/s3", sourceObject), ("destination/s3", destinationObject)] {
            guard let object, object.url == nil else { continue }
            return fields.fail(
                member, "invalid_value", "Bucket, endpoint and addressing together make no valid URL.")
        }
        // The URL of the job's own object is checked as `request.url`.
        if fields.mode == .new, let url = otherObject?.url,
            let reason = fields.context.refusal(url.endpoint)
        {
            fields.fail(kind == .upload ? "source/s3" : "destination/s3", "blocked_address", reason)
        }
        guard let object = storeObject, let url = object.url else { return }
        func refuse(_ steps: String, _ detail: String) { fields.fail(steps, "invalid_combination", detail) }
        if url != request.webURL {
            refuse("request/url", "The address of the object is the URL of this job; leave this out.")
        }
        let method = kind == .download ? "GET" : "PUT"
        if request.method != method {
            refuse("request/method", "The method of a request to a store is \(method).")
        }
        if request.body != nil { refuse("request/body", "The request for an object has no body.") }
        if request.connection?.authentication != nil {
            refuse("request/auth", "The credential of the object signs the request.")
        }
        if request.resumableUploads.isDemanded {
            refuse("request/resumable_upload", "A store speaks no protocol of resumable uploads.")
        }
        if case .form? = source { refuse("source/form", "An object has the bytes of its source, no form.") }
        for header in request.headers where isOwnField(header.name.lowercased()) {
            refuse(
                "request/headers/\(pointerStep(header.name))",
                "The service sets this field itself for an object of a store.")
        }
    }

    private func isOwnField(_ name: String) -> Bool {
        Self.isStoreField(name) || name == "if-none-match" && destination?.ifExists == .fail
    }

    /// Returns `true` if Ferry sets a field, whose name is in lower case, of all requests to a store.
    static func isStoreField(_ name: String) -> Bool {
        switch name {
        case "authorization", "host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token",
            "x-amz-storage-class", "x-amz-server-side-encryption":
            true
        default: name.hasPrefix("x-amz-checksum-") || name.hasPrefix("x-amz-meta-")
        }
    }
}

extension JobSpec.StoreObject {
    /// `nil` without a credential.
    fileprivate mutating func takeSecrets() -> (secretAccessKey: String?, sessionToken: String?)? {
        credential == nil ? nil : (credential?.secretAccessKey.take(), credential?.sessionToken.take())
    }
}

extension JSONView {
    /// `true` if a job has an object of a store, or its short form.
    var namesObject: Bool { namesObject(in: "source") || namesObject(in: "destination") }

    private func namesObject(in member: String) -> Bool {
        guard let place = self[member] else { return false }
        return !(place["s3"]?.isNull ?? true) || place["url"]?.string.flatMap(ObjectURL.parts) != nil
    }

    /// Returns a job with the address of its object as URL, unless it names a URL. Replaces an `s3` URL by
    /// its object. `pointer`: place of the job.
    func withURLOfObject(at pointer: String) throws(InvalidFields) -> JSONView {
        var job = self
        for member in ["source", "destination"] {
            guard let text = job[member]?["url"]?.string, let (bucket, key) = ObjectURL.parts(of: text),
                job[member]?["s3"]?.isNull ?? true
            else { continue }
            let object = JSON.object([
                JSON.Member("url", .null),
                JSON.Member(
                    "s3",
                    .object([JSON.Member("bucket", .string(bucket)), JSON.Member("key", .string(key))])),
            ])
            job = try job.merged(JSON.object([JSON.Member(member, object)]), at: pointer)
        }
        // The other object of a job that has two is the other end of a copy.
        let own = job["kind"]?.string == JobKind.upload.rawValue ? "destination" : "source"
        guard let object = job[own]?["s3"], !object.isNull, job["request"]?["url"] == nil,
            job["request"]?.isObject ?? true
        else { return job }
        // Decoding reports a value that is no object; the URL only stands in for its address.
        let url = JobSpec.StoreObject.url(of: object) ?? "https://s3.amazonaws.com/"
        let request = JSON.object([JSON.Member("url", .string(url))])
        return try job.merged(JSON.object([JSON.Member("request", request)]), at: pointer)
    }

    private func merged(_ patch: JSON, at pointer: String) throws(InvalidFields) -> JSONView {
        try JSONView(json.merged(with: patch), at: pointer)
    }
}

extension JobSpec.StoreObject {
    /// Returns the address of an object of a body; `nil` if the object has errors.
    fileprivate static func url(of json: JSONView) -> String? {
        let context = FieldContext()
        var object = JobSpec.ObjectDestination()
        FieldDecoder.decode(json, into: &object, at: "#", .new, context)
        return context.errors.isEmpty ? object.object.url?.string : nil
    }
}
