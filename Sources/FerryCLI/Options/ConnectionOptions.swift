import ArgumentParser
import FerryCore

/// Options for authentication, certificates and proxy. Secrets are read from files, so that they do not
/// appear in process lists.
struct ConnectionOptions: ParsableArguments {
    @Option(name: .long, help: "User for Basic authentication; needs --password-file.")
    var user: String?

    @Option(name: .long, help: "File with the password; - is standard input.")
    var passwordFile: String?

    @Flag(name: .long, help: "Use Digest instead of Basic authentication; needs --user.")
    var digest = false

    @Option(name: .long, help: "File with a bearer token; - is standard input.")
    var tokenFile: String?

    @Option(name: .long, help: "PEM file with the authorities to trust instead of the system's.")
    var caFile: String?

    @Option(name: .long, help: "PEM file with a client certificate; needs --cert-key-file.")
    var certFile: String?

    @Option(name: .long, help: "PEM file with the private key of the client certificate.")
    var certKeyFile: String?

    @Option(
        name: .long,
        help: ArgumentHelp("Public key the server must have; repeatable (any).", valueName: "sha256//base64"))
    var pin: [String] = []

    @Option(name: .long, help: "Proxy: an http, https or socks5 URL with a port.")
    var proxy: String?

    @Option(name: .long, help: "User for the proxy; needs --proxy-password-file.")
    var proxyUser: String?

    @Option(name: .long, help: "File with the password for the proxy; - is standard input.")
    var proxyPasswordFile: String?

    @Option(name: .long, help: "Version of HTTP: auto, 1.1, 2 or 3.")
    var httpVersion: String?

    mutating func validate() throws {
        if user != nil, passwordFile == nil { throw ValidationError("--user needs --password-file.") }
        if user == nil, passwordFile != nil || digest {
            throw ValidationError("--password-file and --digest need --user.")
        }
        if user != nil, tokenFile != nil {
            throw ValidationError("--user and --token-file cannot be used together.")
        }
        if (certFile == nil) != (certKeyFile == nil) {
            throw ValidationError("--cert-file and --cert-key-file need each other.")
        }
        if proxy == nil, proxyUser != nil { throw ValidationError("--proxy-user needs --proxy.") }
        if (proxyUser == nil) != (proxyPasswordFile == nil) {
            throw ValidationError("--proxy-user and --proxy-password-file need each other.")
        }
        if inputCount > 1 { throw ValidationError("Only one secret can be read from standard input.") }
    }

    /// Number of secrets that are read from standard input.
    var inputCount: Int { [passwordFile, tokenFile, proxyPasswordFile].count { $0 == "-" } }

    /// Writes the members of `request` that the options set.
    func write(into writer: inout JSONWriter) throws(ClientFailure) {
        if let httpVersion { writer.member("http_version", httpVersion) }
        if let user, let passwordFile {
            let password = try LocalFile.readSecret(passwordFile)
            writer.member(
                "auth",
                .object([
                    .init("type", .string(digest ? "digest" : "basic")), .init("user", .string(user)),
                    .init("password", .string(password)),
                ]))
        } else if let tokenFile {
            let token = try LocalFile.readSecret(tokenFile)
            writer.member(
                "auth", .object([.init("type", .string("bearer")), .init("token", .string(token))]))
        }
        try writeTLS(into: &writer)
        try writeProxy(into: &writer)
    }

    private func writeTLS(into writer: inout JSONWriter) throws(ClientFailure) {
        var members: [JSON.Member] = []
        for (name, path) in [("ca", caFile), ("client_certificate", certFile), ("client_key", certKeyFile)] {
            if let path { members.append(.init(name, .string(try LocalFile.readPEM(path)))) }
        }
        if !pin.isEmpty { members.append(.init("pins", .array(pin.map { .string($0) }))) }
        if !members.isEmpty { writer.member("tls", .object(members)) }
    }

    private func writeProxy(into writer: inout JSONWriter) throws(ClientFailure) {
        guard let proxy else { return }
        var members = [JSON.Member("url", .string(proxy))]
        if let proxyUser, let proxyPasswordFile {
            members.append(.init("user", .string(proxyUser)))
            members.append(.init("password", .string(try LocalFile.readSecret(proxyPasswordFile))))
        }
        writer.member("proxy", .object(members))
    }
}
