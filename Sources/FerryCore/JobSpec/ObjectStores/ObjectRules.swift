// Rules of jobs whose address is an object of a store.

extension JobSpec {
    /// The object whose address is the job's URL; `nil` if it names none.
    public var storeObject: StoreObject? {
        if case .object(let source)? = source { return source.value.object }
        return isSentToStore ? destination?.object?.object : nil
    }

    /// `true` if the job's upload goes to an object of a store.
    public var isSentToStore: Bool { destination?.isObject ?? false }

    /// Changes the key of the job's object.
    mutating func setObjectKey(_ key: String) {
        if case .object(let boxed)? = source {
            var object = boxed.value
            object.object.key = key
            source = .object(Boxed(object))
        } else if var object = destination?.object {
            object.object.key = key
            destination?.object = object
        }
    }

    /// Moves the texts of the credential's secrets out of the spec; `nil` if it has none.
    mutating func takeStoreCredential() -> (secretAccessKey: String?, sessionToken: String?)? {
        if case .object(let boxed)? = source, boxed.value.object.credential != nil {
            var object = boxed.value
            defer { source = .object(Boxed(object)) }
            return object.object.takeSecrets()
        }
        guard isSentToStore, var object = destination?.object, object.object.credential != nil else {
            return nil
        }
        defer { destination?.object = object }
        return object.object.takeSecrets()
    }

    /// Reports combinations that a request to a store cannot have.
    func checkObject(_ fields: FieldDecoder) {
        if fields.mode == .patch, kind == .upload, fields.has("destination") {
            fields.fail(
                "destination", "not_supported",
                "This cannot be changed after the submission; cancel the job and submit another one.")
        }
        guard let object = storeObject else { return }
        func refuse(_ steps: String, _ detail: String) { fields.fail(steps, "invalid_combination", detail) }
        let member = kind == .upload ? "destination/s3" : "source/s3"
        guard let url = object.url else {
            return fields.fail(
                member, "invalid_value", "Bucket, endpoint and addressing together make no valid URL.")
        }
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
        if onURLExpired == .ask {
            refuse("on_url_expired", "The address of an object does not expire.")
        }
        if asksOnChallenge { refuse("on_challenge", "A store sends no challenges.") }
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
    fileprivate mutating func takeSecrets() -> (secretAccessKey: String?, sessionToken: String?) {
        (credential?.secretAccessKey.take(), credential?.sessionToken.take())
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
        let members = [job["source"], job["destination"]].compactMap { $0?["s3"] }
        guard let object = members.first(where: { !$0.isNull }), job["request"]?["url"] == nil,
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
