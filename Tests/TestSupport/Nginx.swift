import Glibc

/// An nginx server on a free loopback port, with its own temporary directory. End it with `stop()`.
package final class Nginx: Sendable {
    /// Directory that `location /` serves. `PUT` requests (WebDAV) write below its `put` directory.
    package let root: String
    package let port: UInt16
    private let directory: String
    private let pid: pid_t

    /// `http://127.0.0.1:PORT` without a trailing slash.
    package var url: String { "http://127.0.0.1:\(port)" }

    /// Starts nginx and waits until it accepts connections.
    ///
    /// | Path | Response |
    /// |---|---|
    /// | `/…` | the file |
    /// | `/slow/…` | the file at 4 kB/s |
    /// | `/limited/…` | the file at 2 MB/s per connection; the request is in `log` |
    /// | `/gzip/…` | the file, compressed if the client accepts gzip |
    /// | `/put/…` | accepts `PUT` and `DELETE` |
    /// | `/echo-headers` | `Authorization`, `X-Test` and the method of the request |
    /// | `/status/NNN` | 403, 404, 429, 500 or 503 |
    /// | `/redirect/…` | 302 to `/…` |
    package init() throws {
        directory = try TemporaryDirectory.make("nginx")
        root = directory + "/root"
        for name in ["", "/put", "/slow"] { mkdir(root + name, 0o777) }
        // The workers of nginx may run as another user.
        chmod(directory, 0o755)
        for name in ["", "/put", "/slow"] { chmod(root + name, 0o777) }
        port = try FreePort.find()
        let file = directory + "/nginx.conf"
        try writeFile(file, Array(Self.configuration(directory, root, port).utf8))
        pid = try ChildProcess.start(["nginx", "-p", directory, "-e", directory + "/error.log", "-c", file])
        guard FreePort.waitUntilOpen(port) else {
            ChildProcess.end(pid)
            throw TestSupportError("nginx does not listen on \(port), see \(directory)/error.log")
        }
    }

    /// Stops nginx at once and removes its directory.
    package func stop() {
        kill(pid, SIGTERM)
        ChildProcess.wait(pid)
        TemporaryDirectory.remove(directory)
    }

    /// Finished requests for `/limited/…`, with their status and `Range`.
    package var log: [(status: Int, range: ClosedRange<Int>?)] {
        let text = String(decoding: readFile(directory + "/access.log") ?? [], as: UTF8.self)
        return text.split(separator: "\n").map { line in
            let words = line.split(separator: " ")
            let ends =
                words.last?.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) } ?? []
            let range = ends.first.map { $0...(ends.count > 1 ? ends[1] : .max) }
            return (words.first.flatMap { Int($0) } ?? 0, range)
        }
    }

    /// Writes a file below `root`.
    package func serve(_ name: String, _ bytes: [UInt8]) throws { try writeFile(root + "/" + name, bytes) }

    private static func configuration(_ directory: String, _ root: String, _ port: UInt16) -> String {
        let statuses = [403, 404, 429, 500, 503].map { "location = /status/\($0) { return \($0) \"no\"; }" }
        return """
            daemon off; master_process off; pid \(directory)/pid; worker_rlimit_nofile 16384;
            events { worker_connections 8192; }
            http {
              log_format ranges '$status $http_range'; access_log off;
              client_max_body_size 0; keepalive_requests 1000000; keepalive_timeout 1h;
              default_type application/octet-stream;
              types { text/plain txt; image/png png; }
              client_body_temp_path \(directory)/body; proxy_temp_path \(directory)/proxy;
              fastcgi_temp_path \(directory)/fastcgi; uwsgi_temp_path \(directory)/uwsgi;
              scgi_temp_path \(directory)/scgi;
              server {
                listen 127.0.0.1:\(port) backlog=8192; root \(root);
                location /slow/ { alias \(root)/; limit_rate 4k; }
                location /gzip/ { alias \(root)/; gzip on; gzip_types *; gzip_min_length 1; }
                location /limited/ {
                  alias \(root)/; limit_rate 2m; access_log \(directory)/access.log ranges;
                }
                location /put/ {
                  dav_methods PUT DELETE; create_full_put_path on; client_body_buffer_size 256k;
                }
                location = /echo-headers { return 200 "$http_authorization|$http_x_test|$request_method"; }
                location /redirect/ { rewrite ^/redirect/(.*)$ /$1 redirect; }
                \(statuses.joined(separator: "\n"))
              }
            }
            """
    }
}
