extension JSON {
    /// Returns the result of a JSON merge patch (RFC 7396): members replace those of the same name, and null
    /// removes one.
    public func merged(with patch: JSON) -> JSON {
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

extension JobRequest {
    /// Returns this job after a merge patch, validated like a submission. Throws all errors at once.
    /// `isAnswer`: the patch is that of an answer, which may also replace the method and the body.
    /// `mayMoveHost`: as in `FieldContext`. `session`: the job's session; `refusal`: the egress policy's.
    public func merging(
        _ patch: JSONView, isAnswer: Bool = false, node: NodeAbilities = NodeAbilities(),
        session: SessionRecord? = nil, mayMoveHost: Bool = false, refusal: (EndpointAddress) -> String?
    ) throws(InvalidFields) -> JobRequest {
        let (draft, errors) = withoutActuallyEscaping(refusal) { refusal in
            let context = FieldContext(node: node, defaults: session, refusal: refusal)
            context.kind = spec.kind
            context.isAnswer = isAnswer
            context.mayMoveHost = mayMoveHost
            var draft = self
            draft.merge(patch, context)
            return (draft, context.errors)
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        return draft
    }

    private mutating func merge(_ patch: JSONView, _ context: FieldContext) {
        let before = self
        FieldDecoder.decode(patch, into: &spec, at: "#", .patch, context)
        if before.spec.isCopy, spec.kind == .download, patch["destination"] != nil {
            context.errors.add(
                "#/destination", "not_supported",
                "This cannot be changed after the submission; cancel the job and submit another one.")
        }
        // Replacing was chosen for the file that the client named, not for a name that the server chooses.
        if before.spec.destination?.isDirectory == false, spec.destination?.isDirectory == true,
            spec.destination?.ifExists == .replace, patch["destination"]?["if_exists"] == nil
        {
            spec.destination?.ifExists = .rename
        }
        // The session may have become a background session since the job was accepted.
        if spec.redirects.policy != before.spec.redirects.policy {
            spec.checkBackgroundRedirects(context, at: "#")
        }
        var given = ConnectionSecrets()
        if let request = patch["request"] { given = mergeRequest(request, before, context) }
        checkCredentials(before, given, context)
    }

    /// Updates what depends on the request's fields. Returns the secrets of the connection that the patch
    /// gives.
    private mutating func mergeRequest(
        _ patch: JSONView, _ before: JobRequest, _ context: FieldContext
    ) -> ConnectionSecrets {
        var changed = Set((patch["headers"]?.members ?? []).map { $0.name.lowercased() })
        if patch["header_fields"] != nil {
            changed.formUnion(spec.request.headers.map { $0.name.lowercased() })
        }
        // These fields are the job's own from now on, not the session's.
        spec.request.additionalHeaders?.names.removeAll { changed.contains($0) }
        let known = before.secrets.headers.filter { !changed.contains($0.name.lowercased()) }
        secrets.headers = spec.request.headers.takeSecrets().filled(from: known)
        var rules = spec.request.connection ?? .standard
        let given = rules.takeSecrets()
        spec.request.connection = rules
        secrets.connection = given.filled(from: before.secrets.connection, for: rules)
        if patch["headers"] != nil || patch["header_fields"] != nil { checkHeaders(patch, context) }
        spec.answers?.start = nil
        if patch["body"] != nil { replacePayload(spec.request.body == nil ? nil : context.payload) }
        let (old, new) = (before.spec.request, spec.request)
        // No bytes of the former request belong to another method or body.
        guard new.method == old.method, patch["body"] == nil else {
            spec.request.original = nil
            return given
        }
        let isOther = new.identity != old.identity
        // A job that resumes without a validator starts anew: nothing would show that the new link has
        // another file.
        guard isOther, old.original == nil, !spec.retry.resumesWithoutValidator else { return given }
        spec.request.original = OriginalRequest(url: old.url, headers: old.headers)
        return given
    }

    /// Reports header fields that another field of the job determines.
    private func checkHeaders(_ patch: JSONView, _ context: FieldContext) {
        let determined = DeterminedHeaders.of(spec)
        for (index, header) in spec.request.headers.enumerated() {
            guard determined.contains(header.name.lowercased()) else { continue }
            let place =
                patch["header_fields"] == nil
                ? "headers/\(pointerStep(header.name))" : "header_fields/\(index)"
            context.errors.add(
                "#/request/\(place)", "invalid_combination",
                "Another field of the job sets this header field.")
        }
    }

    /// A client that may change a job may not read its credentials, so they must not go to other servers. Nor
    /// may it send the `Host` of an admin there. `given`: the secrets that the patch gives.
    private func checkCredentials(
        _ before: JobRequest, _ given: ConnectionSecrets, _ context: FieldContext
    ) {
        let (rules, old) = (spec.request.connection, before.spec.request.connection)
        let isOtherProxy = rules?.proxy.map { $0.url != old?.proxy?.url } ?? false
        if isOtherProxy, rules?.proxy?.password.isSet == true, given.proxyPassword == nil {
            context.errors.add(
                "#/request/proxy/password", "required", "Another proxy needs credentials of its own.")
        }
        // Only admins choose the address that gets a `Host` (`HeaderRules.refusal(ofHost:mayNameHost:)`).
        if spec.request.hasHeader("host"), !context.mayMoveHost {
            checkReceiver(
                before, isOtherProxy, context,
                "The job has a Host that an admin chose for its own server; for another one, give null.",
                "The proxy would get the Host that an admin chose; with another proxy, give null.")
        }
        guard keepsCredentials(of: before, given) else { return }
        checkReceiver(
            before, isOtherProxy, context,
            "The job has credentials for its own server; for another one, give others or null.",
            "The proxy could read the job's credentials; with another proxy, give them again or null.")
        if let authorities = given.authorities, authorities != before.secrets.connection?.authorities {
            context.errors.add(
                "#/request/tls/ca", "invalid_combination",
                "The job's credentials are for a server of other authorities; give them again or null.")
        }
        if spec.redirects.sendsCredentialsAcrossOrigins, !before.spec.redirects.sendsCredentialsAcrossOrigins
        {
            context.errors.add(
                "#/redirects/send_credentials_across_origins", "invalid_combination",
                "The job has credentials; only a submission can allow sending them to other origins.")
        }
    }

    /// Reports that another server, or another proxy outside a tunnel, would get the header fields of
    /// `before`.
    private func checkReceiver(
        _ before: JobRequest, _ isOtherProxy: Bool, _ context: FieldContext, _ otherServer: String,
        _ otherProxy: String
    ) {
        if !spec.request.webURL.isSameOrigin(as: before.spec.request.webURL) {
            context.errors.add("#/request/url", "invalid_combination", otherServer)
        }
        if isOtherProxy, spec.request.webURL.scheme == .http {
            context.errors.add("#/request/proxy", "invalid_combination", otherProxy)
        }
    }
}

extension JobRequest {
    /// Returns `true` if nothing differs except the order of members without order. Compares bytes, because
    /// `==` considers equivalent Unicode sequences equal (é as one or two code points).
    public func isIdentical(to other: JobRequest) -> Bool {
        secrets.isIdentical(to: other.secrets)
            && spec.inOrder.encodeStored() == other.spec.inOrder.encodeStored()
    }

    /// Returns `true` if only fields differ that may change while the job runs: also its secrets, which are
    /// those of the request.
    public func differsOnlyWhileRunning(from other: JobRequest) -> Bool {
        spec.differsOnlyWhileRunning(from: other.spec)
    }
}

extension JobSecrets {
    /// Like `JobRequest.isIdentical(to:)`.
    public func isIdentical(to other: JobSecrets) -> Bool { inOrder.encode() == other.inOrder.encode() }

    private var inOrder: JobSecrets {
        var secrets = self
        secrets.headers = headers.fieldsInOrder
        secrets.webhookHeaders = webhookHeaders.fieldsInOrder
        return secrets
    }
}

extension SessionConfiguration {
    /// Like `JobRequest.isIdentical(to:)`.
    public func isIdentical(to other: SessionConfiguration) -> Bool {
        inOrder.encodeStored() == other.inOrder.encodeStored()
    }

    private var inOrder: SessionConfiguration {
        var configuration = self
        configuration.metadata = metadata.inOrder
        configuration.headers = headers.fieldsInOrder
        if let webhook { configuration.webhook?.headers = webhook.headers.fieldsInOrder }
        return configuration
    }
}

extension [JobSpec.Pair] {
    /// Sorted by name, because members of an object have no order (RFC 8259 §4). Lines of the same name keep
    /// theirs: `sorted` is stable.
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
    public func differsOnlyWhileRunning(from other: JobSpec) -> Bool {
        var other = other
        FieldCopy.copy(from: self, to: &other) { $0.change == .always }
        // These follow from fields that may change.
        other.request.original = request.original
        other.request.additionalHeaders = request.additionalHeaders
        other.answers?.start = answers?.start
        return inOrder.encodeStored() == other.inOrder.encodeStored()
    }
}

extension JobSpec.RequestSpec {
    /// The fields that identify the bytes of the response, as JSON.
    fileprivate var identity: [UInt8] {
        var request = self
        request.headers = headers.fieldsInOrder
        return IdentityWriter.text(of: request)
    }
}

extension JobRequest {
    /// Returns `true` if the request still sends credentials that `before` had. `given`: the secrets that the
    /// patch gives.
    fileprivate func keepsCredentials(of before: JobRequest, _ given: ConnectionSecrets) -> Bool {
        let rules = spec.request.connection
        return secrets.headers.contains { before.secrets.headers.contains($0) }
            || spec.storeObject?.credential != nil
            || rules?.authentication != nil && given.password == nil && given.token == nil
            || rules?.tls?.clientCertificate.isSet == true && given.clientCertificate == nil
    }
}
