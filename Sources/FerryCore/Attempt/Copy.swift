// The two ends of a copy between servers.

extension Attempt {
    /// The two requests of a copy between servers, as a download and an upload of their own; `nil` for other
    /// jobs. Each has the job's rules for retries, redirects, timeouts, speed and its proxy. Of the TLS
    /// settings only the authorities and the versions hold for the other server.
    public var copy: (source: Attempt, target: Attempt)? {
        // The URL was accepted at the submission; else the row is damaged, and the attempt fails.
        guard self.spec.isCopy, let spec = self.spec.ofOtherEnd() else { return nil }
        let url = spec.request.webURL
        let attempt = Attempt(
            job: job, number: number, failedAttemptCount: failedAttemptCount, revision: revision,
            tenant: tenant, createdAt: createdAt, startedAt: startedAt, spec: spec, storedSpec: storedSpec,
            secrets: secrets.ofOtherServer, payload: nil, origin: url.origin,
            scopePath: RequestScope.path(of: url, credentials: nil), traceparent: traceparent,
            retryOf: retryOf, isCancelRequested: isCancelRequested, home: home,
            nextRequest: spec.kind == .upload ? nextRequest : nil, isOtherEnd: true,
            session: session?.with(spec))
        return spec.kind == .upload ? (self, attempt) : (attempt, self)
    }

    /// Whether it is one of the two ends of a copy between servers.
    public var isEndOfCopy: Bool { isOtherEnd || spec.isCopy }
}

extension JobSpec {
    /// Returns the spec of the request to the other server, which `request` of this spec is not about; `nil`
    /// if its URL is damaged.
    fileprivate func ofOtherEnd() -> JobSpec? {
        var spec = self
        let isTarget = kind == .download
        spec.kind = isTarget ? .upload : .download
        (spec.source, spec.destination) = (nil, nil)
        let server = otherServer
        guard let url = server?.url ?? otherObject?.url?.string else { return nil }
        var request = RequestSpec()
        // `nil` stands for any damage.
        guard (try? request.setURL(url)) != nil else { return nil }
        request.method = server?.method ?? (isTarget ? "PUT" : "GET")
        request.headers = server?.headers ?? []
        request.timeoutForRequest = self.request.timeoutForRequest
        request.handlesCookies = self.request.handlesCookies
        request.boxedMainDocument = self.request.boxedMainDocument
        var connection = self.request.connection ?? .standard
        connection.authentication = server?.authentication
        connection.tls?.clientCertificate = Secret()
        connection.tls?.clientKey = Secret()
        connection.tls?.pins = []
        request.connection = connection
        spec.request = request
        spec.accept = Acceptance()
        (spec.onChallenge, spec.onURLExpired) = (.fail, .fail)
        if spec.redirects.policy == .ask { spec.redirects.policy = .follow }
        spec.answers = nil
        if server == nil {
            // The object stays where it was.
            if isTarget { spec.destination = destination } else { spec.source = source }
        } else if isTarget {
            spec.request.idempotencyKey = self.request.idempotencyKey
            if destination?.ifExists == .fail { spec.request.headers.append(Pair("If-None-Match", "*")) }
        }
        return spec
    }
}

extension JobSecrets {
    fileprivate var ofOtherServer: JobSecrets {
        var secrets = JobSecrets(headers: otherServer?.headers ?? [])
        var connection = self.connection ?? ConnectionSecrets()
        connection.password = otherServer?.password
        connection.token = otherServer?.token
        (connection.clientCertificate, connection.clientKey) = (nil, nil)
        connection.secretAccessKey = otherServer?.secretAccessKey
        connection.sessionToken = otherServer?.sessionToken
        secrets.connection = connection
        return secrets
    }
}
