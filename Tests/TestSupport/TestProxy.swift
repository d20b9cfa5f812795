import Glibc

/// A proxy on a free loopback port: tinyproxy(8) for HTTP, microsocks(1) for SOCKS5. Credentials are `user`
/// and `secret`. End it with `stop()`.
package final class TestProxy: Sendable {
    package enum Kind: String, Sendable { case http, socks5 }

    package let port: UInt16
    private let kind: Kind
    private let directory: String
    private let pid: pid_t

    package var url: String { "\(kind.rawValue)://127.0.0.1:\(port)" }

    package init(_ kind: Kind, asksForCredentials: Bool = false) throws {
        self.kind = kind
        directory = try TemporaryDirectory.make("proxy")
        port = try FreePort.find()
        var words: [String]
        switch kind {
        case .http:
            let lines = [
                "Port \(port)", "Listen 127.0.0.1", "Timeout 60", "MaxClients 200", "Allow 127.0.0.1",
                "LogFile \"\(directory)/log\"", "LogLevel Connect",
                asksForCredentials ? "BasicAuth user secret" : "",
            ]
            try writeFile(directory + "/conf", Array(lines.joined(separator: "\n").utf8))
            words = ["tinyproxy", "-d", "-c", directory + "/conf"]
        case .socks5:
            words = ["microsocks", "-i", "127.0.0.1", "-p", "\(port)"]
            if asksForCredentials { words += ["-u", "user", "-P", "secret"] }
        }
        pid = try ChildProcess.start(words)
        guard FreePort.waitUntilOpen(port) else {
            ChildProcess.end(pid)
            throw TestSupportError("\(words[0]) does not listen on \(port)")
        }
    }

    /// Requests that tinyproxy has received, one per line, such as `CONNECT host:port HTTP/1.1`.
    package var requests: [String] {
        let log = String(decoding: readFile(directory + "/log") ?? [], as: UTF8.self)
        return log.split(separator: "\n").compactMap { line in
            line.firstRange(of: "Request (file descriptor ").flatMap { range in
                line[range.upperBound...].firstRange(of: "): ").map { String(line[$0.upperBound...]) }
            }
        }
    }

    package func stop() {
        ChildProcess.end(pid)
        TemporaryDirectory.remove(directory)
    }
}
