extension JSON {
    /// Returns the result of a JSON merge patch (RFC 7396): members replace those of the same name, and null
    /// removes one.
    package func merged(with patch: JSON) -> JSON {
        guard case .object(let changes) = patch else { return patch }
        var members: [JSON.Member?] = self.members ?? []
        var places: [ByteKey: Int] = [:]
        for (place, member) in members.enumerated() { if let member { places[ByteKey(member.name)] = place } }
        for change in changes {
            let key = ByteKey(change.name)
            let place = places[key]
            if change.value.isNull {
                if let place { members[place] = nil }
                places[key] = nil
                continue
            }
            let before = place.flatMap { members[$0]?.value } ?? .null
            let after = JSON.Member(change.name, before.merged(with: change.value))
            if let place {
                members[place] = after
            } else {
                places[key] = members.count
                members.append(after)
            }
        }
        return .object(members.compactMap(\.self))
    }
}

extension JobDraft {
    /// Returns this job after a merge patch, validated like a submission. Throws all errors at once.
    /// `session`: the job's session; `refusal`: the egress policy's.
    package func merging(
        _ patch: JSON, node: NodeAbilities = NodeAbilities(), session: SessionRecord? = nil,
        refusal: (WebURL) -> String?
    ) throws(InvalidFields) -> JobDraft {
        let errors = ValidationErrors()
        let draft = withoutActuallyEscaping(refusal) { refusal in
            // Resume data cannot be changed, so none is read.
            var decoding = JobDecoding(
                errors: errors, node: node, refusal: refusal, openResumeData: { _ in nil })
            decoding.session = session
            return decoding.patched(self, patch)
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        return draft
    }
}

extension JobDraft {
    /// Returns `true` if nothing differs except the order of members without order. Compares bytes, because
    /// `==` considers equivalent Unicode sequences equal (é as one or two code points).
    package func isIdentical(to other: JobDraft) -> Bool {
        secrets.isIdentical(to: other.secrets)
            && spec.inOrder.encodeStored() == other.spec.inOrder.encodeStored()
    }

    /// Returns `true` if only fields differ that may change while the job runs.
    package func differsOnlyWhileRunning(from other: JobDraft) -> Bool {
        secrets.isIdentical(to: other.secrets) && spec.differsOnlyWhileRunning(from: other.spec)
    }
}

extension JobSecrets {
    /// Like `JobDraft.isIdentical(to:)`.
    package func isIdentical(to other: JobSecrets) -> Bool { inOrder.encode() == other.inOrder.encode() }

    private var inOrder: JobSecrets {
        var secrets = self
        secrets.headers = headers.fieldsInOrder
        return secrets
    }
}

extension SessionConfiguration {
    /// Like `JobDraft.isIdentical(to:)`.
    package func isIdentical(to other: SessionConfiguration) -> Bool {
        inOrder.encodeStored() == other.inOrder.encodeStored()
    }

    private var inOrder: SessionConfiguration {
        var configuration = self
        configuration.metadata = metadata.inOrder
        configuration.headers = headers.fieldsInOrder
        return configuration
    }
}

extension [JobSpec.Pair] {
    /// Sorted by name, because members of an object have no order (RFC 8259 §4); names are unique.
    fileprivate var inOrder: Self { sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) } }

    /// Like `inOrder`, with lower-case names, because field names are case-insensitive (RFC 9110 §5.1).
    fileprivate var fieldsInOrder: Self { map { JobSpec.Pair($0.name.lowercased(), $0.value) }.inOrder }
}

extension JobSpec {
    fileprivate var inOrder: JobSpec {
        var spec = self
        spec.metadata = metadata.inOrder
        spec.request.headers = request.headers.fieldsInOrder
        return spec
    }

    /// Returns `true` if only fields differ that may change while the job runs.
    package func differsOnlyWhileRunning(from other: JobSpec) -> Bool {
        var other = other
        other.description = description
        other.metadata = metadata
        other.bytesPerSecondMax = bytesPerSecondMax
        other.schedule.priority = schedule.priority
        return inOrder.encodeStored() == other.inOrder.encodeStored()
    }
}

extension JobDraft {
    /// Returns `true` if the request still sends credentials that `before` had.
    fileprivate func keepsCredentials(of before: JobDraft) -> Bool {
        secrets.headers.contains { before.secrets.headers.contains($0) }
            || spec.request.connection?.authentication != nil
            || spec.request.connection?.tls?.hasClientCertificate == true
    }
}

extension JobDecoding {
    /// Members of a job that cannot change after acceptance.
    private static let fixed: Set<String> = [
        "kind", "session", "mirrors", "source", "resume_data", "segments", "webhook",
        "acknowledgement",
    ]

    fileprivate func patched(_ draft: JobDraft, _ patch: JSON) -> JobDraft {
        let spec = draft.spec
        guard var fields = FieldReader(patch, at: "#", errors),
            // Our own encoding; the reader below returns the draft unchanged should it fail.
            let shown = try? JSON.parse(spec.encode()),
            var merged = FieldReader(shown.merged(with: patch), at: "#", errors, mergedWith: patch)
        else { return draft }
        var result = draft
        for member in fields.all(countMax: Limits.patchMemberCountMax) {
            if patchRule(&result.spec, member, &merged) { continue }
            switch member.name {
            case "request": patchRequest(&result, member.value)
            case let name where Self.fixed.contains(name): refuse(fields.pointer(name))
            case let name: fields.addError(name, "unknown_field", "There is no field of this name here.")
            }
        }
        checkQuestions(
            &merged, result.spec.asksOnChallenge, result.spec.redirects, result.spec.retry,
            result.spec.request)
        keepCredentials(from: draft, to: result)
        // The session may have become a background session since the job was accepted.
        if result.spec.redirects.policy != spec.redirects.policy {
            checkBackgroundRedirects(result.spec, at: "#")
        }
        checkSize(result.spec, at: "#")
        return result
    }

    /// Applies a member that is read as in a submission. Returns `false` for other members.
    private func patchRule(
        _ spec: inout JobSpec, _ member: JSON.Member, _ merged: inout FieldReader
    ) -> Bool {
        switch member.name {
        case "description":
            spec.description = text(
                &merged, "description", byteCountMax: Limits.descriptionByteCountMax)
        case "metadata": spec.metadata = metadata(&merged)
        case "destination":
            let before = spec.destination
            spec.destination = destination(&merged, spec.kind)
            // Replacing was chosen for the file that the client named, not for a name that the server
            // chooses.
            if before?.isDirectory == false, spec.destination?.isDirectory == true,
                spec.destination?.ifExists == .replace, member.value["if_exists"] == nil
            {
                spec.destination?.ifExists = .rename
            }
        case "integrity": spec.integrity = integrity(&merged)
        case "redirects": spec.redirects = redirects(&merged)
        case "accept": spec.accept = acceptance(&merged, spec.kind)
        case "on_challenge": spec.asksOnChallenge = asksOnChallenge(&merged)
        case "questions": spec.questions = questions(&merged)
        case "schedule":
            let before = spec.schedule.dependsOn
            spec.schedule = schedule(&merged)
            if spec.schedule.dependsOn != before { refuse("#/schedule/depends_on") }
        case "network": spec.bytesPerSecondMax = network(&merged)
        case "retry": spec.retry = retry(&merged, spec.kind)
        default: return false
        }
        return true
    }

    /// A client that may change a job may not read its credentials, so they must not go to other servers.
    private func keepCredentials(from before: JobDraft, to after: JobDraft) {
        guard after.keepsCredentials(of: before) else { return }
        let (old, new) = (before.spec.request.url, after.spec.request.url)
        // Both URLs were validated before; one that is not a URL has been reported already.
        let isSameOrigin = (try? WebURL.parse(new).isSameOrigin(as: WebURL.parse(old))) ?? true
        if !isSameOrigin {
            errors.add(
                "#/request/url", "invalid_combination",
                "The job has credentials for its own server; for another one, submit another job.")
        }
        if after.spec.redirects.sendsCredentialsAcrossOrigins,
            !before.spec.redirects.sendsCredentialsAcrossOrigins
        {
            errors.add(
                "#/redirects/send_credentials_across_origins", "invalid_combination",
                "The job has credentials; only a submission can allow sending them to other origins.")
        }
    }

    /// Applies the members of the request that have no bytes stored beside it.
    private func patchRequest(_ draft: inout JobDraft, _ patch: JSON) {
        guard var fields = FieldReader(patch, at: "#/request", errors) else { return }
        let before = draft.spec.request
        for member in fields.all(countMax: Limits.patchMemberCountMax) {
            switch member.name {
            case "url": patchURL(&draft, &fields)
            case "headers": patchHeaders(&draft, member.value)
            case "timeout_for_request":
                draft.spec.request.timeoutForRequest =
                    member.value.isNull
                    ? standardTimeoutForRequest
                    : fields.number(member.name, in: 1...604_800) ?? standardTimeoutForRequest
            default: refuse(fields.pointer(member.name))
            }
        }
        draft.spec.answers?.start = nil
        let after = draft.spec.request
        let isOther =
            after.url != before.url || after.headers.fieldsInOrder != before.headers.fieldsInOrder
        // A job that resumes without a validator starts anew: nothing would show that the new link has
        // another file.
        guard isOther, before.original == nil, !draft.spec.retry.resumesWithoutValidator else { return }
        draft.spec.request.original = OriginalRequest(url: before.url, headers: before.headers)
    }

    private func patchURL(_ draft: inout JobDraft, _ fields: inout FieldReader) {
        guard let url = url(&fields, "url") else { return }
        if url.scheme == .http, draft.spec.request.connection?.tls != nil {
            fields.addError("url", "invalid_combination", "The job's TLS settings need an https URL.")
        }
        draft.spec.request.url = url.string
    }

    /// Merges header fields by case-insensitive name; null removes a field.
    private func patchHeaders(_ draft: inout JobDraft, _ patch: JSON) {
        var changes = FieldReader(patch.isNull ? .object([]) : patch, at: "#/request/headers", errors)
        var merged: [JSON.Member] = []
        for header in patch.isNull ? [] : draft.spec.request.headers {
            let secret = draft.secrets.headers.first { $0.name.lowercased() == header.name.lowercased() }
            merged.append(JSON.Member(header.name, .string(secret?.value ?? header.value)))
        }
        for change in changes?.all(countMax: Limits.headerCountMax) ?? [] {
            merged.removeAll { $0.name.lowercased() == change.name.lowercased() }
            // The field is the job's own from now on, not the session's.
            draft.spec.request.additionalHeaders?.names.removeAll { $0 == change.name.lowercased() }
            if !change.value.isNull { merged.append(change) }
        }
        guard
            var fields = FieldReader(.object([.init("headers", .object(merged))]), at: "#/request", errors)
        else { return }
        let read = headers(&fields, "headers")
        draft.spec.request.headers = read.shown
        draft.secrets.headers = read.secret
        checkHeaders(of: draft.spec)
    }

    /// Reports header fields that another field of the job determines.
    private func checkHeaders(of spec: JobSpec) {
        let isInParts = spec.segmentCountMax > 1 || !spec.mirrors.isEmpty
        for header in spec.request.headers {
            let isTaken =
                switch header.name.lowercased() {
                case "accept-encoding": spec.request.acceptEncoding != .identity
                case "authorization": spec.request.connection?.authentication != nil
                case "range", "if-range": isInParts
                default: false
                }
            guard isTaken else { continue }
            errors.add(
                "#/request/headers/\(pointerStep(header.name))", "invalid_combination",
                "Another field of the job sets this header field.")
        }
        checkContentType(
            DecodedRequest(spec: spec.request, payload: nil, secrets: JobSecrets(), origin: ""), spec.source,
            at: "#")
    }

    private func refuse(_ pointer: String) {
        errors.add(
            pointer, "not_supported",
            "This cannot be changed after the submission; cancel the job and submit another one.")
    }
}
