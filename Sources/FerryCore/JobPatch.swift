extension JSON {
    /// RFC 7396: the members of the patch take the place of those of the same name; null removes one.
    package func merged(with patch: JSON) -> JSON {
        guard case .object(let changes) = patch else { return patch }
        var members = self.members ?? []
        for change in changes {
            let place = members.firstIndex { $0.name == change.name }
            if change.value.isNull {
                if let place { members.remove(at: place) }
                continue
            }
            let before = place.map { members[$0].value } ?? .null
            let after = JSON.Member(change.name, before.merged(with: change.value))
            if let place { members[place] = after } else { members.append(after) }
        }
        return .object(members)
    }
}

extension JobSpec {
    /// This spec after a merge patch, found right as in a submission; every complaint is thrown at once.
    /// `session` is the job's; `refusal`: the egress policy's.
    package func merging(
        _ patch: JSON, node: NodeAbilities = NodeAbilities(), session: SessionRecord? = nil,
        refusal: (WebURL) -> String?
    ) throws(InvalidFields) -> JobSpec {
        let complaints = Complaints()
        let spec = withoutActuallyEscaping(refusal) { refusal in
            // Resume data cannot be changed, so none is read.
            var decoding = JobDecoding(
                complaints: complaints, node: node, refusal: refusal, openResumeData: { _ in nil })
            decoding.session = session
            return decoding.patched(self, patch)
        }
        guard complaints.isEmpty else { throw InvalidFields(complaints.errors) }
        return spec
    }

    /// Whether nothing is different but what may change while the job runs.
    package func differsOnlyWhileRunning(from other: JobSpec) -> Bool {
        var other = other
        other.description = description
        other.metadata = metadata
        other.bytesPerSecondMax = bytesPerSecondMax
        other.schedule.priority = schedule.priority
        return self == other
    }
}

extension JobSpec.RequestSpec {
    /// Whether something that is sealed goes out with the request.
    fileprivate var hasCredentials: Bool {
        headers.contains { HeaderRules.isSecret($0.name) } || connection?.authentication != nil
            || connection?.tls != nil
    }
}

extension JobDecoding {
    /// Members of a job that cannot be changed once it was accepted.
    private static let fixed: Set<String> = [
        "kind", "session", "mirrors", "source", "resume_data", "on_challenge", "segments", "webhook",
    ]

    fileprivate func patched(_ spec: JobSpec, _ patch: JSON) -> JobSpec {
        guard var fields = FieldReader(patch, at: "#", complaints),
            let shown = try? JSON.parse(spec.encode()),
            var merged = FieldReader(shown.merged(with: patch), at: "#", complaints)
        else { return spec }
        var result = spec
        for member in fields.all(countMax: Limits.patchMemberCountMax) {
            switch member.name {
            case "description":
                result.description = text(
                    &merged, "description", byteCountMax: Limits.descriptionByteCountMax)
            case "metadata": result.metadata = metadata(&merged)
            case "request": patchRequest(&result, member.value)
            case "destination": result.destination = destination(&merged, spec.kind)
            case "integrity": result.integrity = integrity(&merged)
            case "redirects": result.redirects = redirects(&merged)
            case "accept": result.accept = acceptance(&merged)
            case "schedule":
                result.schedule = schedule(&merged)
                if result.schedule.dependsOn != spec.schedule.dependsOn { refuse("#/schedule/depends_on") }
            case "network": result.bytesPerSecondMax = network(&merged)
            case "retry": result.retry = retry(&merged, spec.kind)
            case let name where Self.fixed.contains(name): refuse(fields.pointer(name))
            case let name: fields.complain(name, "unknown_field", "There is no field of this name here.")
            }
        }
        keepCredentials(from: spec, to: result)
        checkBackground(result, at: "#")
        return result
    }

    /// Whoever may change a job may not read its credentials: they are not taken to other servers.
    private func keepCredentials(from before: JobSpec, to after: JobSpec) {
        guard before.request.hasCredentials else { return }
        let isSameOrigin =
            (try? WebURL.parse(after.request.url).isSameOrigin(as: WebURL.parse(before.request.url))) ?? true
        if !isSameOrigin {
            complaints.add(
                "#/request/url", "invalid_combination",
                "The job has credentials for its own server; for another one, submit another job.")
        }
        if after.redirects.sendsCredentialsAcrossOrigins, !before.redirects.sendsCredentialsAcrossOrigins {
            complaints.add(
                "#/redirects/send_credentials_across_origins", "invalid_combination",
                "The job has credentials; that they may leave their server is said at the submission.")
        }
    }

    /// Of the request only what has neither secrets nor bytes beside it.
    private func patchRequest(_ spec: inout JobSpec, _ patch: JSON) {
        guard var fields = FieldReader(patch, at: "#/request", complaints) else { return }
        for member in fields.all(countMax: Limits.patchMemberCountMax) {
            switch member.name {
            case "url": if let url = url(&fields, "url") { spec.request.url = url.string }
            case "timeout_for_request":
                spec.request.timeoutForRequest =
                    member.value.isNull
                    ? standardTimeoutForRequest
                    : fields.number(member.name, in: 1...604_800) ?? standardTimeoutForRequest
            default: refuse(fields.pointer(member.name))
            }
        }
    }

    private func refuse(_ pointer: String) {
        complaints.add(
            pointer, "not_supported",
            "This cannot be changed after the submission; cancel the job and submit another one.")
    }
}
