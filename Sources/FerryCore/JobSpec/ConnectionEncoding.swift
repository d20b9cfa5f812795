extension ConnectionRules {
    /// Writes the members of `request` with their effective values; `{"set": true}` stands for secrets.
    func write(into writer: inout JSONWriter) {
        writer.member("http_version", httpVersion.rawValue)
        writer.name("proxy")
        if let proxy { proxy.write(into: &writer) } else { writer.null() }
        writer.name("auth")
        if let authentication { authentication.write(into: &writer) } else { writer.null() }
        writer.name("tls")
        if let tls { tls.write(into: &writer) } else { writer.null() }
    }

    /// Writes the members that differ from their default.
    func store(into writer: inout JSONWriter) {
        if httpVersion != .auto { writer.member("http_version", httpVersion.rawValue) }
        if let proxy {
            writer.name("proxy")
            proxy.write(into: &writer)
        }
        if let authentication {
            writer.name("auth")
            authentication.write(into: &writer)
        }
        if let tls {
            writer.name("tls")
            tls.write(into: &writer)
        }
    }

    /// Reads the stored `request`; `nil` if it has none of these members.
    init?(_ request: StoredObject) throws(StoredJSONError) {
        if let name = request.string("http_version") {
            httpVersion = try request.need(HTTPVersion(rawValue: name), "http_version")
        }
        authentication = try request.object("auth").map(Authentication.init)
        tls = try request.object("tls").map(TLS.init)
        proxy = try request.object("proxy").map(Proxy.init)
        if self == .standard { return nil }
    }
}

extension ConnectionRules.Authentication {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("type", scheme.rawValue)
        writer.memberOrNull("user", user)
        writer.secret("password", isSet: scheme != .bearer)
        writer.secret("token", isSet: scheme == .bearer)
        writer.endObject()
    }

    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        scheme = try stored.need(stored.string("type").flatMap(Scheme.init), "auth")
        user = stored.string("user")
    }
}

extension ConnectionRules.TLS {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.secret("ca", isSet: hasAuthorities)
        writer.secret("client_certificate", isSet: hasClientCertificate)
        writer.secret("client_key", isSet: hasClientCertificate)
        writer.strings("pins", pins)
        writer.member("minimum_version", versionMin.rawValue)
        writer.memberOrNull("maximum_version", versionMax?.rawValue)
        writer.endObject()
    }

    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        hasAuthorities = stored.object("ca") != nil
        hasClientCertificate = stored.object("client_certificate") != nil
        pins = stored.strings("pins")
        versionMin = try stored.need(stored.string("minimum_version").flatMap(Version.init), "tls")
        if let name = stored.string("maximum_version") {
            versionMax = try stored.need(Version(rawValue: name), "tls")
        }
    }
}

extension ConnectionRules.Proxy {
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("url", url.string)
        writer.memberOrNull("user", user)
        writer.secret("password", isSet: user != nil)
        writer.member("type", scheme.rawValue)
        writer.secret("ca", isSet: hasAuthorities)
        writer.strings("no_proxy", bypass.entries)
        writer.endObject()
    }

    init(_ stored: StoredObject) throws(StoredJSONError) {
        // Validated at the submission; otherwise the row is damaged.
        url = try stored.need(stored.string("url").flatMap { try? ProxyURL($0) }, "proxy")
        user = stored.string("user")
        if let name = stored.string("type") {
            scheme = try stored.need(ConnectionRules.Authentication.Scheme(rawValue: name), "proxy")
        }
        bypass = ProxyBypass(stored.strings("no_proxy"))
        hasAuthorities = stored.object("ca") != nil
    }
}

extension ConnectionSecrets {
    /// Writes the members that have a value, for encryption.
    func write(into writer: inout JSONWriter) {
        for (name, path) in Self.members {
            if let value = self[keyPath: path] { writer.member(name, value) }
        }
    }

    /// Reads the decrypted object.
    init(_ stored: StoredObject) {
        for (name, path) in Self.members { self[keyPath: path] = stored.string(name) }
    }

    private static var members: [(String, WritableKeyPath<Self, String?>)] {
        [
            ("password", \.password), ("token", \.token), ("ca", \.authorities),
            ("client_certificate", \.clientCertificate), ("client_key", \.clientKey),
            ("proxy_password", \.proxyPassword), ("proxy_ca", \.proxyAuthorities),
        ]
    }
}

extension JSONWriter {
    fileprivate mutating func secret(_ name: String, isSet: Bool) {
        self.name(name)
        if isSet { raw(setMark) } else { null() }
    }

    mutating func strings(_ name: String, _ values: [String]) {
        self.name(name)
        beginArray()
        for value in values { self.value(value) }
        endArray()
    }
}
