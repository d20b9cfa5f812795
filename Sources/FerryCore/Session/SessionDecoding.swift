// The body of PUT /v1/sessions/{identifier}, and its effect on jobs that name no value themselves.

extension SessionDraft {
    /// Reads and validates a session's configuration. Throws all errors at once. `refusal`: the egress
    /// policy's; `seal`: encrypts secrets.
    package init(
        _ json: JSON, node: NodeAbilities = NodeAbilities(), refusal: (WebURL) -> String?,
        seal: ([UInt8]) -> [UInt8]
    ) throws(InvalidFields) {
        let errors = ValidationErrors()
        let read = withoutActuallyEscaping(refusal) { refusal in
            JobDecoding(errors: errors, node: node, refusal: refusal, openResumeData: { _ in nil })
                .session(json)
        }
        guard errors.isEmpty, let read else { throw InvalidFields(errors.all) }
        self.init(
            configuration: read.configuration, secrets: read.secrets,
            sealedSecrets: read.secrets.isEmpty ? nil : seal(read.secrets.encode()))
    }
}

extension JobDecoding {
    /// Header fields that belong to a single request.
    private static let ownHeaders: Set<String> = [
        "content-type", "content-encoding", "range", "if-range", "if-match", "if-none-match",
        "if-modified-since", "if-unmodified-since",
    ]

    fileprivate func session(_ json: JSON) -> (configuration: SessionConfiguration, secrets: JobSecrets)? {
        guard var fields = FieldReader(json, at: "#", errors) else { return nil }
        var session = SessionConfiguration()
        session.kind =
            fields.choice("kind", SessionConfiguration.Kind.self, later: ["ephemeral"]) ?? .standard
        session.description = text(&fields, "description", byteCountMax: Limits.descriptionByteCountMax)
        session.metadata = metadata(&fields)
        sessionSharing(&fields, &session)
        sessionDefaults(&fields, &session)
        let (headers, values) = headers(&fields, "http_additional_headers")
        session.headers = headers
        for header in headers where Self.ownHeaders.contains(header.name.lowercased()) {
            errors.add(
                "\(fields.pointer("http_additional_headers"))/\(pointerStep(header.name))", "invalid_value",
                "This header field belongs to a single request.")
        }
        session.headerOrigins = headerOrigins(&fields)
        var secrets = JobSecrets(headers: values)
        var connection = ConnectionSecrets()
        session.proxy = proxy(&fields, &connection)
        secrets.connection = connection
        sessionTLS(&fields, &session)
        fields.finish()
        return (session, secrets)
    }

    private func headerOrigins(_ fields: inout FieldReader) -> [OriginPattern]? {
        let name = "http_additional_headers_origins"
        guard let value = fields.value(name), !value.isNull,
            let values = fields.array(name, countMax: Limits.additionalHeaderOriginCountMax)
        else { return nil }
        var origins: [OriginPattern] = []
        for (index, value) in values.enumerated() {
            let place = "\(fields.pointer(name))/\(index)"
            guard let text = value.string else {
                errors.addWrongType(place, "a string", value)
                continue
            }
            do throws(OriginPattern.Failure) {
                let origin = try OriginPattern(text)
                if origins.contains(origin) {
                    errors.add(place, "duplicate", "This origin occurs twice.")
                } else {
                    origins.append(origin)
                }
            } catch {
                errors.add(place, "invalid_value", error.message)
            }
        }
        return origins
    }

    private func sessionSharing(_ fields: inout FieldReader, _ session: inout SessionConfiguration) {
        session.weight = fields.number("weight", in: 0.01...1_000) ?? 1
        if fields.has("http_maximum_connections_per_host") {
            session.connectionsPerHostMax = fields.integer(
                "http_maximum_connections_per_host", in: 1...10_000, isNullable: true
            ).map(Int.init)
        }
        session.bytesPerSecondMax = fields.integer(
            "max_bytes_per_second", in: 1...Self.byteCountMax, isNullable: true)
        if let retention = fields.value("retention"), !retention.isNull {
            session.retention = fields.number("retention", in: 1...node.retentionSeconds)
        }
        session.acknowledgement = acknowledgement(&fields)
        session.sendsLaunchEvents = fields.bool("sends_launch_events") ?? true
    }

    private func sessionDefaults(_ fields: inout FieldReader, _ session: inout SessionConfiguration) {
        let standard = SessionConfiguration()
        session.timeoutForRequest =
            fields.number("timeout_for_request", in: 1...604_800) ?? standard.timeoutForRequest
        session.timeoutForResource =
            fields.number("timeout_for_resource", in: 1...31_536_000) ?? standard.timeoutForResource
        session.priority = fields.number("priority", in: 0...1) ?? standard.priority
        session.networkServiceType =
            fields.choice(
                "network_service_type", JobSpec.NetworkServiceType.self,
                later: laterNetworkServiceTypes) ?? .standard
        session.isDiscretionary = fields.bool("discretionary") ?? false
        session.waitsForConnectivity = fields.bool("waits_for_connectivity") ?? true
    }

    private func sessionTLS(_ fields: inout FieldReader, _ session: inout SessionConfiguration) {
        let versions = ConnectionRules.TLS.Version.self
        session.tlsVersionMin = fields.choice("tls_minimum_version", versions) ?? .v12
        if fields.value("tls_maximum_version")?.isNull == false {
            session.tlsVersionMax = fields.choice("tls_maximum_version", versions)
        }
        if let most = session.tlsVersionMax, most.rawValue < session.tlsVersionMin.rawValue {
            fields.addError(
                "tls_maximum_version", "invalid_combination", "This must not be below tls_minimum_version.")
        }
    }

    // MARK: A job of the session

    /// Default schedule of a job.
    var standardSchedule: JobSpec.Schedule {
        var schedule = JobSpec.Schedule.standard
        guard let session = session?.configuration else { return schedule }
        schedule.priority = session.priority
        schedule.timeoutForResource = session.timeoutForResource
        schedule.networkServiceType = session.networkServiceType
        schedule.waitsForConnectivity = session.waitsForConnectivity
        schedule.isDiscretionary =
            session.isDiscretionary && session.networkServiceType != .responsiveData
        return schedule
    }

    var standardRetry: JobSpec.RetryRules {
        var rules = JobSpec.RetryRules.standard
        if session?.configuration.kind == .background { rules.attemptCountMax = Limits.jobAttemptCountMax }
        return rules
    }

    var standardTimeoutForRequest: Double { session?.configuration.timeoutForRequest ?? 60 }

    /// Returns the request's header fields with those of the session that it does not name itself.
    func withSessionHeaders(
        _ own: (shown: [JobSpec.Pair], secret: [JobSpec.Pair]), leavingOut others: Set<String>,
        at path: String
    ) -> (shown: [JobSpec.Pair], secret: [JobSpec.Pair]) {
        guard let session, !session.configuration.headers.isEmpty else { return own }
        let isAdded = isAdded(to: own.shown, leavingOut: others)
        let all = (
            shown: own.shown + session.configuration.headers.filter(isAdded),
            secret: own.secret + session.secrets.headers.filter(isAdded)
        )
        let values = all.shown.map(\.value) + all.secret.map(\.value)
        let byteCount = (all.shown.map(\.name) + values).reduce(0) { $0 + $1.utf8.count }
        if all.shown.count > Limits.headerCountMax || byteCount > Limits.headerByteCountMax {
            errors.add(
                path, "too_many",
                "With those of the session, there are more than \(Limits.headerCountMax) header fields or "
                    + "\(Limits.headerByteCountMax) bytes.")
        }
        return all
    }

    /// Returns a filter for the session's header fields that the request does not name itself.
    private func isAdded(
        to own: [JobSpec.Pair], leavingOut others: Set<String>
    ) -> (JobSpec.Pair) -> Bool {
        let names = others.union(own.map { $0.name.lowercased() })
        return { !names.contains($0.name.lowercased()) }
    }

    /// Returns the origins for the fields that `withSessionHeaders` adds, or `nil` for all origins.
    /// `namesProxy`: `true` if the job names its proxy itself.
    func additionalHeaders(
        _ own: [JobSpec.Pair], leavingOut others: Set<String>, namesProxy: Bool
    ) -> AdditionalHeaders? {
        guard let session, let origins = session.configuration.headerOrigins else { return nil }
        let added = session.configuration.headers.filter(isAdded(to: own, leavingOut: others))
        guard !added.isEmpty else { return nil }
        return AdditionalHeaders(
            names: added.map { $0.name.lowercased() }, origins: origins, trustsProxy: !namesProxy)
    }

    /// Reports violations of the rules of background sessions.
    func checkBackground(_ spec: JobSpec, at prefix: String) {
        guard session?.configuration.kind == .background else { return }
        var isInline = false
        if case .inline = spec.source { isInline = true }
        if case .form(let parts) = spec.source, case .inline = parts.last?.source { isInline = true }
        if isInline {
            errors.add(
                "\(prefix)/source", "invalid_combination",
                "An upload of a background session needs a source with path or job.")
        }
        checkBackgroundRedirects(spec, at: prefix)
    }

    func checkBackgroundRedirects(_ spec: JobSpec, at prefix: String) {
        guard session?.configuration.kind == .background, spec.redirects.policy != .follow else { return }
        errors.add(
            "\(prefix)/redirects/policy", "invalid_combination",
            "In a background session redirects are followed.")
    }
}
