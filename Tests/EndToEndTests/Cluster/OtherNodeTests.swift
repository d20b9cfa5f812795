import Curl
import FerryCore
import Glibc
import OpenSSL
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Jobs of other nodes", .onOwnThread)
struct OtherNodeTests {
    private static let secret = "one key for all nodes, long enough"

    /// A node that runs the jobs and one that only serves the API, on one database.
    private struct Cluster {
        let database: TestDatabase
        let worker: FerryProcess
        let front: FerryProcess

        init(workerAdvertises: Bool = true) throws {
            database = try TestDatabase()
            let common = ["FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": secret]
            worker = try FerryProcess(
                common.merging(["FERRY_ROLES": "worker"]) { $1 }, advertises: workerAdvertises)
            front = try FerryProcess(common.merging(["FERRY_ROLES": "api,webhooks"]) { $1 }, advertises: true)
        }

        func remove() {
            front.remove()
            worker.remove()
        }
    }

    private func download(_ url: String) -> String {
        #"{"kind":"download","request":{"url":"\#(url)"}}"#
    }

    /// Downloads a file without a destination and returns the path of its content in the API.
    private func content(_ cluster: Cluster, _ nginx: Nginx, _ bytes: [UInt8]) throws -> String {
        try nginx.serve("file", bytes)
        let job = try cluster.front.run(download(nginx.url + "/file"))
        try #require(job["state"]?.string == "succeeded", "\(job)")
        return try #require(job["result"]?["content_url"]?.string)
    }

    @Test("progress, attempts and live events of a running job are the same on every node")
    func running() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let (worker, front) = (cluster.worker, cluster.front)
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let stream = try EventListener(front, "/v1/events")
        defer { stream.stop() }
        let id = try front.submit(download(origin.url + "/f/1"))
        _ = origin.stopped.wait()
        var job = JSON.null
        #expect(
            becomes {
                job = try front.json("GET", "/v1/jobs/\(id)")
                return job["progress"]?["bytes_received"]?.integer ?? 0 >= 10_000
            }, "\(job)")
        #expect(job["state"]?.string == "running" && job["progress"]?["unavailable"] == nil)
        #expect(job["progress"]?["bytes_expected_to_receive"]?.integer == 20_000)
        let listed = try #require(try front.json("GET", "/v1/jobs")["data"]?.array?.first)
        #expect(listed["progress"]?["bytes_received"]?.integer ?? 0 >= 10_000, "\(listed)")
        let nodes = try front.json("GET", "/v1/admin/nodes")["data"]?.array ?? []
        let owner = nodes.first { $0["id"] == job["node"] }
        #expect(owner?["worker"]?.bool == true && owner?["url"]?.string == worker.url, "\(nodes)")
        #expect(try front.json("GET", "/v1/admin/status")["nodes"]?.array?.first?["url"]?.string != nil)
        let attempts = try front.json("GET", "/v1/jobs/\(id)/attempts")["data"]?.array ?? []
        let transaction = attempts.first?["transactions"]?.array?.first
        #expect(transaction?["response"]?["status"]?.integer == 200, "\(attempts)")

        // The snapshot of a job's stream, and the progress of both kinds of streams.
        let own = try EventListener(front, "/v1/jobs/\(id)/events")
        defer { own.stop() }
        let messages = own.messages.wait(for: 2)
        #expect(messages[0].event == "snapshot")
        #expect(messages[0].data["job"]?["progress"]?["bytes_received"]?.integer ?? 0 >= 10_000)
        #expect(messages[1].event == "progress" && messages[1].data["job"]?.string == id)
        #expect(messages[1].data["progress"]?["bytes_received"]?.integer ?? 0 >= 10_000)
        var seen: [EventListener.Message] = []
        #expect(
            becomes {
                seen += stream.messages.wait(seconds: 1)
                return seen.contains { $0.event == "progress" && $0.data["job"]?.string == id }
            })
        origin.open()
        #expect(try front.finished(id)["state"]?.string == "succeeded")
        #expect(own.ended.wait().count == 1)
    }

    @Test("content of another node has ranges, conditions and HEAD as on its own node")
    func content() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(3_000_000, seed: 4)
        let path = try content(cluster, nginx, bytes)
        let front = cluster.front
        let whole = try front.call("GET", path)
        #expect(whole.status == 200 && whole.body == bytes)
        #expect(whole.header("content-length") == "3000000" && whole.header("x-ferry-node") == nil)
        #expect(whole.values(of: "date").count == 1 && whole.values(of: "x-request-id").count == 1)
        let tag = try #require(whole.header("etag"))
        let part = try front.call("GET", path, headers: ["Range": "bytes=1000000-1999999", "If-Range": tag])
        #expect(part.status == 206 && part.body == Array(bytes[1_000_000..<2_000_000]))
        #expect(part.header("content-range") == "bytes 1000000-1999999/3000000")
        #expect(try front.call("GET", path, headers: ["Range": "bytes=5000000-"]).status == 416)
        let head = try front.call("HEAD", path)
        #expect(head.status == 200 && head.body.isEmpty && head.header("content-length") == "3000000")
        #expect(try front.call("GET", path, headers: ["If-None-Match": tag]).status == 304)
        #expect(try front.call("GET", path, headers: ["If-Match": "\"x\""]).status == 412)
        let stranger = try front.makeKey(role: "client", tenant: "other")
        #expect(try front.call("GET", path, key: stranger).status == 404)
        let viewer = try front.makeKey(role: "viewer", tenant: "default")
        #expect(try front.call("GET", path, key: viewer).body == bytes)
        #expect(try front.call("GET", path + "?junk=1").json["code"]?.string == "invalid_parameter")
    }

    @Test("content of a killed or stopped node is 503 node_unavailable with its last heartbeat")
    func away() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let path = try content(cluster, nginx, patternBytes(50_000))
        let (worker, front) = (cluster.worker, cluster.front)
        let node = try #require(
            try front.json("GET", "/v1/admin/nodes")["data"]?.array?.first { $0["worker"]?.bool == true }?[
                "id"])
        func expectUnavailable(_ words: String) throws {
            let response = try front.call("GET", path)
            let problem = try response.json
            #expect(response.status == 503 && problem["code"]?.string == "node_unavailable", "\(problem)")
            #expect(problem["node"] == node && response.header("retry-after") != nil)
            let heartbeat = try #require(problem["heartbeat_at"]?.string)
            #expect(Timestamp(rfc3339: heartbeat) != nil)
            let detail = try #require(problem["detail"]?.string)
            #expect(detail.contains(words) && detail.contains(heartbeat), "\(detail)")
        }
        worker.kill9()
        try expectUnavailable("does not answer")
        try worker.start()
        #expect(becomes { try front.call("GET", path).status == 200 })
        #expect(worker.terminate() == 0)
        // A heartbeat of the other node finds it gone.
        #expect(becomes { try front.call("GET", path).json["detail"]?.string?.contains("has left") == true })
        try expectUnavailable("has left")
    }

    @Test("while its node is away, a running job shows that its progress is not known")
    func lost() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let front = cluster.front
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let id = try front.submit(download(origin.url + "/f/1"))
        _ = origin.stopped.wait()
        cluster.worker.send(SIGSTOP)
        defer { cluster.worker.send(SIGCONT) }
        var job = JSON.null
        let isShown = becomes {
            job = try front.json("GET", "/v1/jobs/\(id)")
            return job["progress"]?["unavailable"] != nil
        }
        #expect(isShown, "\(job)")
        let unavailable = job["progress"]?["unavailable"]
        #expect(unavailable?["code"]?.string == "node_unavailable" && unavailable?["node"] == job["node"])
        #expect(unavailable?["heartbeat_at"]?.string != nil, "\(job)")
    }

    @Test("without FERRY_NODE_URL the error names the setting")
    func withoutAddress() throws {
        let cluster = try Cluster(workerAdvertises: false)
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let path = try content(cluster, nginx, patternBytes(1_000))
        let response = try cluster.front.call("GET", path)
        #expect(response.status == 503 && response.text.contains("FERRY_NODE_URL"), "\(response.text)")
        #expect(try response.json["code"]?.string == "node_unavailable")
    }

    /// Makes a scripted origin the node that has the content of all jobs.
    private func replaceNode(_ cluster: Cluster, by url: String) throws -> NodeID {
        let text = "01920000-0000-7000-0000-000000000001"
        var connection = try Connection(url: cluster.database.url)
        // Its heartbeat stays young while the test runs.
        try connection.execute(
            script: """
                INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker,
                    url)
                VALUES ('\(text)', 'scripted', '0', now(), now() + interval '1 hour', 0, false, false,
                    '\(url)');
                UPDATE finished_jobs SET node = '\(text)'
                """)
        return NodeID(high: 0x0192_0000_0000_7000, low: 1)
    }

    @Test("a response of another service is rejected; the node's trailers and failures reach the client")
    func scripted() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let path = try content(cluster, nginx, patternBytes(1_000))
        let id = NodeID(high: 0x0192_0000_0000_7000, low: 1)
        let count = Counter()
        let origin = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                let node = "X-Ferry-Node: \(id)\r\n"
                let chunked = "HTTP/1.1 200 OK\r\n\(node)Transfer-Encoding: chunked\r\n"
                switch count.next() {
                case 0: connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                case 1: connection.send("HTTP/1.1 401 No\r\n\(node)Content-Length: 0\r\n\r\n")
                case 2:
                    connection.send(
                        chunked + "Trailer: X-End\r\nX-Ferry-Trailer: X-End: good\r\n\r\n"
                            + "2\r\nok\r\n0\r\nX-End: good\r\n\r\n")
                default:
                    connection.send(chunked + "X-Ferry-Trailer: X-End: good\r\n\r\n2\r\nok\r\n")
                    return
                }
            }
        }
        defer { origin.stop() }
        #expect(try replaceNode(cluster, by: origin.url) == id)
        func problem() throws -> String { try cluster.front.call("GET", path).json["detail"]?.string ?? "" }
        #expect(try problem().contains("is not what answers"))
        #expect(try problem().contains("refuses requests of this node"))
        let sent = try #require(origin.requests.last)
        let authorization = sent.header("authorization") ?? ""
        #expect(authorization.hasPrefix("Ferry-Node time=") && !authorization.contains(adminKey))
        let complete = try raw(cluster.front, path)
        #expect(complete.contains("\r\nTrailer: X-End\r\n"), "\(complete)")
        #expect(complete.hasSuffix("2\r\nok\r\n0\r\nX-End: good\r\n\r\n"), "\(complete)")
        let broken = try raw(cluster.front, path)
        #expect(broken.contains("2\r\nok\r\n") && !broken.contains("X-End: good"), "\(broken)")
        #expect(!broken.hasSuffix("0\r\n\r\n"), "\(broken)")
    }

    /// Returns the bytes of a response until the server closes the connection.
    private func raw(_ ferry: FerryProcess, _ path: String) throws -> String {
        let socket = try EventListener.connected(to: ferry.port)
        defer { close(socket) }
        let request = Array(
            ("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                + "Authorization: Bearer \(adminKey)\r\n\r\n").utf8)
        #expect(send(socket, request, request.count, Int32(MSG_NOSIGNAL)) == request.count)
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { return String(decoding: all, as: UTF8.self) }
            all += buffer[..<count]
        }
    }

    @Test("content of a job on another node is followed while it arrives, up to its trailer or its failure")
    func followed() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let front = cluster.front
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let id = try front.submit(download(origin.url + "/f/1"))
        _ = origin.stopped.wait()
        #expect(becomes { try front.json("GET", "/v1/jobs/\(id)")["state"]?.string == "running" })
        let whole = HalfwayOrigin.bytes(1)
        let client = try FollowClient(front, id)
        #expect(client.status == 200 && client.bytes(10_000) == Array(whole[..<10_000]))
        origin.open()
        #expect(client.rest() == whole)
        #expect(client.trailers?.contains("X-Ferry-State: succeeded") == true)

        let second = try HalfwayOrigin(free: 0)
        defer { second.stop() }
        let cancelled = try front.submit(download(second.url + "/f/2"))
        _ = second.stopped.wait()
        #expect(becomes { try front.json("GET", "/v1/jobs/\(cancelled)")["state"]?.string == "running" })
        let other = try FollowClient(front, cancelled)
        #expect(other.bytes(10_000).count == 10_000)
        #expect(try front.call("POST", "/v1/jobs/\(cancelled)/cancel").status == 200)
        _ = other.rest()
        #expect(other.trailers == nil)
    }

    @Test("if a node dies while it sends content, the client's response is cut off")
    func cut() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        // More than all buffers on the way.
        let path = try content(cluster, nginx, patternBytes(48_000_000))
        let socket = try EventListener.connected(to: cluster.front.port)
        defer { close(socket) }
        let request = Array(
            "GET \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(adminKey)\r\n\r\n".utf8)
        #expect(send(socket, request, request.count, Int32(MSG_NOSIGNAL)) == request.count)
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let first = recv(socket, &buffer, buffer.count, 0)
        #expect(String(decoding: buffer.prefix(max(0, first)), as: UTF8.self).hasPrefix("HTTP/1.1 200"))
        cluster.worker.kill9()
        var count = first
        while true {
            let more = recv(socket, &buffer, buffer.count, 0)
            guard more > 0 else { break }
            count += more
        }
        #expect(count < 48_000_000, "\(count)")
    }

    @Test("a node refuses requests that no node has signed for it, that are old, or that are repeated")
    func signatures() throws {
        let cluster = try Cluster()
        defer { cluster.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(5_000)
        let path = try content(cluster, nginx, bytes)
        let (worker, front) = (cluster.worker, cluster.front)
        let nodes = try front.json("GET", "/v1/admin/nodes")["data"]?.array ?? []
        let own = try #require(nodes.first { $0["worker"]?.bool == true }?["id"]?.string)
        let other = try #require(nodes.first { $0["worker"]?.bool == false }?["id"]?.string)
        func authorization(
            _ target: String, method: String = "GET", to node: String? = nil, age: Int64 = 0,
            secret: String = OtherNodeTests.secret
        ) -> [String: String] {
            let key = SecretBox(key: Array(secret.utf8)).key(for: "ferry requests between nodes 1")
            let nonce = hexEncoded(randomBytes(16))
            let members =
                "time=\(wallMicroseconds() - age * 1_000_000), nonce=\(nonce), from=\(other), "
                + "to=\(node ?? own), role=viewer, tenant=default"
            let code = hmacSHA256(key: key, message: Array("\(method) \(target)\n\(members)".utf8))
            return ["Authorization": "Ferry-Node \(members), signature=\(hexEncoded(code))"]
        }
        func call(_ headers: [String: String], _ target: String? = nil, _ method: String = "GET") throws
            -> BufferedRequest.Response
        { try worker.call(method, target ?? path, headers: headers, key: "") }
        func expectRefused(_ headers: [String: String], _ words: String) throws {
            let response = try call(headers)
            #expect(response.status == 401 && response.text.contains(words), "\(response.text)")
            #expect(try response.json["code"]?.string == "node_request_refused")
            #expect(response.header("x-ferry-node") == own)
        }
        let valid = authorization(path)
        #expect(try call(valid).body == bytes)
        try expectRefused(valid, "came before")
        try expectRefused(authorization(path, secret: "another key of the same length"), "signature")
        try expectRefused(authorization(path + "?x"), "signature")
        try expectRefused(authorization(path, to: other), "this is \(own)")
        try expectRefused(authorization(path, age: 40), "30 s")
        try expectRefused(authorization(path, age: -40), "30 s")
        // A signature opens nothing but what nodes need of each other, and the client's key nothing here.
        let jobs = "/v1/jobs"
        #expect(try call(authorization(jobs), jobs).json["code"]?.string == "node_request_refused")
        let drain = "/v1/admin/nodes/\(own)/drain"
        let order = try call(authorization(drain, method: "POST"), drain, "POST")
        #expect(order.status == 401, "\(order.text)")
        let progress = "/v1/node/progress"
        #expect(try call(authorization(progress), progress).json["data"]?.array?.isEmpty == true)
        #expect(try worker.call("GET", progress).status == 404)
        #expect(try front.call("GET", progress).status == 404)
        #expect(try worker.call("GET", path).status == 404)
    }
}
