import Glibc
import Sys
import TestSupport

/// nginx with `deploy/nginx.conf` on a free loopback port, in front of a server on `upstream`.
final class FerryProxy: Sendable {
    let port: UInt16
    private let directory: String
    private let pid: pid_t

    /// Starts nginx and waits until it accepts connections. Timeouts for clients are shortened to a second.
    init(upstream: UInt16) throws {
        directory = try TemporaryDirectory.make("ferryproxy")
        port = try FreePort.find()
        let repository = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        guard let source = readFile("/\(repository)/deploy/nginx.conf") else {
            throw TestSupportError("deploy/nginx.conf is not there")
        }
        var text = String(decoding: source, as: UTF8.self)
        for (name, here) in [
            ("server ferry:8080", "server 127.0.0.1:\(upstream)"),
            ("listen 8080", "listen 127.0.0.1:\(port)"),
            ("/tmp/", "\(directory)/"), ("/dev/stdout", "\(directory)/access.log"),
            ("error_log stderr warn", "error_log \(directory)/error.log warn"),
            ("client_header_timeout 15s", "client_header_timeout 1s"),
            ("client_body_timeout 30s", "client_body_timeout 1s"),
        ] {
            guard text.contains(name) else { throw TestSupportError("deploy/nginx.conf has no \(name)") }
            text.replace(name, with: here)
        }
        let file = directory + "/nginx.conf"
        try writeFile(file, Array(text.utf8))
        pid = try ChildProcess.start([
            "nginx", "-p", directory, "-e", directory + "/error.log", "-c", file, "-g",
            "daemon off; master_process off;",
        ])
        guard FreePort.waitUntilOpen(port) else {
            ChildProcess.end(pid)
            throw TestSupportError("nginx does not listen on \(port), see \(directory)/error.log")
        }
    }

    /// Stops nginx at once and removes its directory.
    func stop() {
        ChildProcess.end(pid)
        TemporaryDirectory.remove(directory)
    }
}
