import Glibc

/// An nginx server that speaks TLS with HTTP/2, with one port per `Kind`. End it with `stop()`.
package final class SecureNginx: Sendable {
    package enum Kind: Int, Sendable, CaseIterable {
        /// The certificate is valid for 127.0.0.1 and localhost.
        case valid
        case expired
        case elsewhere
        /// Requires a client certificate of the authority, and answers 400 to a client without one.
        case mutual
        /// Only TLS 1.2, and only TLS 1.3.
        case old, new
    }

    package let root: String
    private let ports: [UInt16]
    private let directory: String
    private let pid: pid_t

    /// `https://127.0.0.1:PORT`
    package func url(_ kind: Kind = .valid) -> String { "https://127.0.0.1:\(port(kind))" }
    package func port(_ kind: Kind) -> UInt16 { ports[kind.rawValue] }

    /// Serves files and `/put/`. `/echo` returns the subject of the client certificate, `Authorization` and
    /// the version of HTTP; `/to?url=…` redirects to `url`.
    package init(_ authority: TestAuthority) throws {
        directory = try TemporaryDirectory.make("secure")
        root = directory + "/root"
        for name in ["", "/put"] { mkdir(root + name, 0o777) }
        chmod(directory, 0o755)
        for name in ["", "/put"] { chmod(root + name, 0o777) }
        ports = try Kind.allCases.map { _ in try FreePort.find() }
        try writeFile(directory + "/ca.pem", Array(authority.certificate.utf8))
        for (name, identity) in [
            ("server", authority.server), ("expired", authority.expired), ("elsewhere", authority.elsewhere),
        ] {
            try writeFile("\(directory)/\(name).pem", Array(identity.certificate.utf8))
            try writeFile("\(directory)/\(name).key", Array(identity.key.utf8))
        }
        let file = directory + "/nginx.conf"
        try writeFile(file, Array(Self.configuration(directory, ports).utf8))
        pid = try ChildProcess.start(["nginx", "-p", directory, "-e", directory + "/error.log", "-c", file])
        guard ports.allSatisfy({ FreePort.waitUntilOpen($0) }) else {
            ChildProcess.end(pid)
            throw TestSupportError("nginx does not listen, see \(directory)/error.log")
        }
    }

    package func stop() {
        kill(pid, SIGTERM)
        ChildProcess.wait(pid)
        TemporaryDirectory.remove(directory)
    }

    package func serve(_ name: String, _ bytes: [UInt8]) throws { try writeFile(root + "/" + name, bytes) }

    private static func configuration(_ directory: String, _ ports: [UInt16]) -> String {
        let servers = Kind.allCases.map { kind in
            let identity = [.expired, .elsewhere].contains(kind) ? "\(kind)" : "server"
            let protocols =
                switch kind {
                case .old: "TLSv1.2"
                case .new: "TLSv1.3"
                default: "TLSv1.2 TLSv1.3"
                }
            return """
                server {
                  listen 127.0.0.1:\(ports[kind.rawValue]) ssl http2; root \(directory)/root;
                  ssl_certificate \(directory)/\(identity).pem;
                  ssl_certificate_key \(directory)/\(identity).key;
                  ssl_protocols \(protocols); ssl_client_certificate \(directory)/ca.pem;
                  ssl_verify_client \(kind == .mutual ? "on" : "optional_no_ca");
                  location = /echo { return 200 "$ssl_client_s_dn|$http_authorization|$server_protocol"; }
                  location = /to { return 302 $arg_url; }
                  location /put/ { dav_methods PUT; client_body_buffer_size 256k; }
                }
                """
        }
        return """
            daemon off; master_process off; pid \(directory)/pid;
            events { worker_connections 4096; }
            http {
              access_log off; client_max_body_size 0; keepalive_requests 1000000;
              default_type application/octet-stream;
              client_body_temp_path \(directory)/body; proxy_temp_path \(directory)/proxy;
              fastcgi_temp_path \(directory)/fastcgi; uwsgi_temp_path \(directory)/uwsgi;
              scgi_temp_path \(directory)/scgi;
              \(servers.joined(separator: "\n"))
            }
            """
    }
}
