// The parts of a request that determine how its server is reached: http_version, auth, tls, proxy.

/// Abilities of the node that reads a job. By default, it can read no certificates.
package struct NodeAbilities: Sendable {
    /// Returns why a PEM text of certificates is invalid, as a sentence, or `nil` if it is valid.
    package var certificateError: @Sendable (_ pem: String) -> String?
    /// Returns why a PEM text with a private key is invalid or does not belong to the first certificate, or
    /// `nil` if it is valid.
    package var keyError: @Sendable (_ pem: String, _ certificate: String?) -> String?
    /// `true` if libcurl supports HTTP/3.
    package var hasHTTP3: Bool
    /// `true` if libcurl supports NTLM.
    package var hasNTLM = false
    /// Members of `integrity` that libcrypto cannot compute.
    package var missingDigests: Set<String> = []
    /// Seconds for which Ferry keeps finished jobs, which is the largest retention of a session.
    package var retentionSeconds = 604_800.0

    package init(
        hasHTTP3: Bool = false,
        certificateError: @escaping @Sendable (String) -> String? = { _ in
            "This node cannot read certificates."
        },
        keyError: @escaping @Sendable (String, String?) -> String? = { _, _ in
            "This node cannot read keys."
        }
    ) {
        self.hasHTTP3 = hasHTTP3
        self.certificateError = certificateError
        self.keyError = keyError
    }
}

extension JobDecoding {
    /// `headers`: the header fields of the request itself.
    func connection(
        _ fields: inout FieldReader, _ url: WebURL?, _ headers: [JobSpec.Pair]
    ) -> (rules: ConnectionRules, secrets: ConnectionSecrets) {
        var rules = ConnectionRules()
        var secrets = ConnectionSecrets()
        rules.proxy = proxy(&fields, &secrets)
        if !fields.has("proxy"), let session, let proxy = session.configuration.proxy {
            rules.proxy = proxy
            // The policy may have become stricter since the session was configured.
            if let reason = refusal(proxy.url.place) { fields.addError("proxy", "blocked_address", reason) }
            secrets.proxyPassword = session.secrets.connection?.proxyPassword
            secrets.proxyAuthorities = session.secrets.connection?.proxyAuthorities
        }
        rules.authentication = authentication(&fields, headers, &secrets)
        rules.tls = tls(&fields, url, &secrets) ?? sessionTLS(url)
        rules.httpVersion = httpVersion(&fields, url, rules.proxy)
        if rules.authentication?.scheme == .ntlm, [.http2, .http3].contains(rules.httpVersion) {
            fields.addError(
                "http_version", "invalid_combination", "NTLM authenticates a connection and needs HTTP/1.1.")
        }
        return (rules, secrets)
    }

    private func httpVersion(
        _ fields: inout FieldReader, _ url: WebURL?, _ proxy: ConnectionRules.Proxy?
    ) -> ConnectionRules.HTTPVersion {
        let version = fields.choice("http_version", ConnectionRules.HTTPVersion.self) ?? .auto
        guard version == .http3 else { return version }
        if !node.hasHTTP3 {
            fields.addError("http_version", "not_supported", "The libcurl of this node has no HTTP/3.")
        } else if url?.scheme == .http {
            fields.addError("http_version", "invalid_combination", "HTTP/3 needs an https URL.")
        } else if proxy != nil {
            fields.addError("http_version", "invalid_combination", "HTTP/3 cannot be used with a proxy.")
        }
        return version
    }

    // MARK: auth

    private func authentication(
        _ fields: inout FieldReader, _ headers: [JobSpec.Pair], _ secrets: inout ConnectionSecrets
    ) -> ConnectionRules.Authentication? {
        guard var object = fields.object("auth", isNullable: true) else { return nil }
        if headers.contains(where: { $0.name.lowercased() == "authorization" }) {
            errors.add(
                object.path, "invalid_combination", "Send either this or an Authorization header, not both.")
        }
        if !object.has("type") {
            object.addError("type", "required", "Name the type: basic, digest, bearer or ntlm.")
        }
        let scheme = object.choice("type", ConnectionRules.Authentication.Scheme.self)
        let user = user(&object)
        secrets.password = password(&object)
        secrets.token = object.string("token", byteCounts: 1...Limits.tokenByteCountMax, isNullable: true)
        if let token = secrets.token, !token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) {
            object.addError("token", "invalid_value", "A token is visible ASCII without spaces.")
        }
        if let scheme { check(scheme, &object) }
        object.finish()
        return scheme.map { ConnectionRules.Authentication($0, user: user) }
    }

    private func check(_ scheme: ConnectionRules.Authentication.Scheme, _ object: inout FieldReader) {
        checkSupport(of: scheme, &object)
        let needed = scheme == .bearer ? ["token"] : ["user", "password"]
        for name in ["user", "password", "token"] {
            let isThere = object.value(name).map { !$0.isNull } ?? false
            if needed.contains(name), !isThere {
                object.addError(name, "required", "The type \(scheme.rawValue) needs a \(name).")
            } else if !needed.contains(name), isThere {
                object.addError(
                    name, "invalid_combination", "The type \(scheme.rawValue) has no \(name).")
            }
        }
    }

    private func checkSupport(
        of scheme: ConnectionRules.Authentication.Scheme, _ object: inout FieldReader
    ) {
        if scheme == .ntlm, !node.hasNTLM {
            object.addError("type", "not_supported", "The libcurl of this node has no NTLM.")
        }
    }

    /// RFC 7617 §2: no colon, no control characters.
    private func user(_ object: inout FieldReader) -> String? {
        let user = object.string("user", byteCounts: 1...Limits.userByteCountMax, isNullable: true)
        if let user, user.utf8.contains(UInt8(ascii: ":")) || hasControls(user) {
            object.addError("user", "invalid_value", "A user's name has no colon and no control characters.")
        }
        return user
    }

    private func password(_ object: inout FieldReader) -> String? {
        let password = object.string(
            "password", byteCounts: 0...Limits.passwordByteCountMax, isNullable: true)
        if let password, hasControls(password) {
            object.addError("password", "invalid_value", "A password has no control characters.")
        }
        return password
    }

    private func hasControls(_ text: String) -> Bool { text.utf8.contains { $0 < 0x20 || $0 == 0x7F } }

    // MARK: tls

    /// Returns the session's TLS settings for a job without any; `nil` if they are the default.
    private func sessionTLS(_ url: WebURL?) -> ConnectionRules.TLS? {
        guard let session = session?.configuration, url?.scheme == .https else { return nil }
        var tls = ConnectionRules.TLS()
        tls.versionMin = session.tlsVersionMin
        tls.versionMax = session.tlsVersionMax
        return tls == ConnectionRules.TLS() ? nil : tls
    }

    private func tls(
        _ fields: inout FieldReader, _ url: WebURL?, _ secrets: inout ConnectionSecrets
    ) -> ConnectionRules.TLS? {
        guard var object = fields.object("tls", isNullable: true) else { return nil }
        if url?.scheme == .http {
            errors.add(object.path, "invalid_combination", "TLS settings need an https URL.")
        }
        var tls = ConnectionRules.TLS()
        secrets.authorities = certificates(&object, "ca")
        tls.hasAuthorities = secrets.authorities != nil
        secrets.clientCertificate = certificates(&object, "client_certificate")
        secrets.clientKey = clientKey(&object, secrets.clientCertificate)
        tls.hasClientCertificate = secrets.clientCertificate != nil
        tls.pins = pins(&object)
        let session = session?.configuration
        tls.versionMin =
            object.choice("minimum_version", ConnectionRules.TLS.Version.self) ?? session?.tlsVersionMin
            ?? .v12
        tls.versionMax = session?.tlsVersionMax
        if let value = object.value("maximum_version") {
            tls.versionMax =
                value.isNull ? nil : object.choice("maximum_version", ConnectionRules.TLS.Version.self)
        }
        if let most = tls.versionMax, most.rawValue < tls.versionMin.rawValue {
            object.addError(
                "maximum_version", "invalid_combination", "This must not be below minimum_version.")
        }
        object.finish()
        return tls
    }

    private func certificates(_ object: inout FieldReader, _ name: String) -> String? {
        guard let pem = object.string(name, byteCounts: 1...Limits.pemByteCountMax, isNullable: true) else {
            return nil
        }
        if let error = node.certificateError(pem) {
            object.addError(name, "invalid_value", error)
        }
        return pem
    }

    private func clientKey(_ object: inout FieldReader, _ certificate: String?) -> String? {
        let isNamed = object.value("client_certificate").map { !$0.isNull } ?? false
        guard let pem = object.string("client_key", byteCounts: 1...Limits.pemByteCountMax, isNullable: true)
        else {
            if isNamed, object.value("client_key")?.isNull ?? true {
                object.addError("client_key", "required", "A client certificate needs its key.")
            }
            return nil
        }
        if !isNamed {
            object.addError("client_certificate", "required", "A client key needs its certificate.")
        } else if let error = node.keyError(pem, certificate) {
            object.addError("client_key", "invalid_value", error)
        }
        return pem
    }

    private func pins(_ object: inout FieldReader) -> [String] {
        let pins = object.strings("pins", countMax: Limits.pinCountMax, byteCountMax: 64) ?? []
        for (index, pin) in pins.enumerated() {
            let prefix = "sha256//"
            guard pin.hasPrefix(prefix), Base64.decode(String(pin.dropFirst(prefix.count)))?.count == 32
            else {
                errors.add(
                    "\(object.pointer("pins"))/\(index)", "invalid_value",
                    "A pin is sha256// and the base64 of the SHA-256 of a public key.")
                continue
            }
        }
        return pins
    }

    // MARK: proxy

    func proxy(
        _ fields: inout FieldReader, _ secrets: inout ConnectionSecrets
    ) -> ConnectionRules.Proxy? {
        guard var object = fields.object("proxy", isNullable: true) else { return nil }
        if !object.has("url") { object.addError("url", "required", "A proxy needs a url.") }
        let url = proxyURL(&object)
        let user = user(&object)
        secrets.proxyPassword = password(&object)
        let hasPassword = object.value("password").map { !$0.isNull } ?? false
        if user == nil, hasPassword, object.value("user")?.isNull ?? true {
            object.addError("user", "required", "A password needs a user.")
        } else if user != nil, !hasPassword {
            object.addError("password", "required", "A user needs a password.")
        }
        let scheme = proxyScheme(&object, url)
        secrets.proxyAuthorities = certificates(&object, "ca")
        if secrets.proxyAuthorities != nil, let url, url.scheme != .https {
            object.addError("ca", "invalid_combination", "Only an https proxy has a certificate.")
        }
        let entries =
            object.strings("no_proxy", countMax: Limits.proxyBypassCountMax, byteCountMax: 255) ?? []
        for (index, entry) in entries.enumerated() where !ProxyBypass.isEntry(entry) {
            errors.add(
                "\(object.pointer("no_proxy"))/\(index)", "invalid_value",
                "This must be a host's name, an address, a network such as 10.0.0.0/8, or *.")
        }
        object.finish()
        guard let url else { return nil }
        var proxy = ConnectionRules.Proxy(
            url: url, user: user, bypass: ProxyBypass(entries),
            hasAuthorities: secrets.proxyAuthorities != nil)
        proxy.scheme = scheme
        return proxy
    }

    private func proxyScheme(
        _ object: inout FieldReader, _ url: ProxyURL?
    ) -> ConnectionRules.Authentication.Scheme {
        guard let type = object.choice("type", ProxyAuthenticationType.self) else { return .basic }
        let scheme = type.scheme
        checkSupport(of: scheme, &object)
        if scheme != .basic, url?.scheme == .socks5 {
            object.addError("type", "invalid_combination", "A SOCKS5 proxy has no types of authentication.")
        }
        return scheme
    }

    private func proxyURL(_ object: inout FieldReader) -> ProxyURL? {
        guard let text = object.string("url", byteCounts: 1...Limits.urlByteCountMax) else { return nil }
        do throws(ProxyURL.Failure) {
            let url = try ProxyURL(text)
            if let reason = refusal(url.place) { object.addError("url", "blocked_address", reason) }
            return url
        } catch {
            object.addError("url", "invalid_value", error.message)
            return nil
        }
    }
}

private enum ProxyAuthenticationType: String, CaseIterable {
    case basic, digest, ntlm

    var scheme: ConnectionRules.Authentication.Scheme {
        switch self {
        case .basic: .basic
        case .digest: .digest
        case .ntlm: .ntlm
        }
    }
}
