import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Streams and requests between nodes, by tenant", .onOwnThread)
struct StreamTenantTests {
    @Test("followers of a suspended job use no thread, and leave as many to another tenant")
    func followers() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let body = #"{"kind":"data","request":{"url":"\#(nginx.url)/file"},"suspended":true}"#
        let viewer = try ferry.makeKey(role: "viewer", tenant: "default")
        let stranger = try ferry.makeKey(role: "client", tenant: "other")
        let (held, others) = (try ferry.submit(body), try ferry.submit(body, key: stranger))
        let threadCount = ferry.threadCount
        var clients: [FollowClient] = []
        while clients.count < Limits.contentFollowerCountMax {
            let client = try FollowClient(ferry, held, key: viewer)
            guard client.status == 200 else {
                #expect(client.status == 429 && client.head.contains("Retry-After: "), "\(client.head)")
                break
            }
            clients.append(client)
        }
        #expect(clients.count == Limits.contentFollowerCountMax / 2)
        // Some threads begin with the first job.
        #expect(ferry.threadCount < threadCount + 10)
        let metrics = try ferry.call("GET", "/metrics").text
        #expect(metrics.contains("\nferry_content_followers \(clients.count)\n"))
        let other = try FollowClient(ferry, others, key: stranger)
        #expect(other.status == 200)
        #expect(try ferry.call("POST", "/v1/jobs/\(others)/resume", "{}", key: stranger).status == 200)
        #expect(other.rest() == [1, 2, 3] && other.trailers != nil)
    }

    @Test("a tenant's requests to another node leave as many to another tenant")
    func forwarded() throws {
        let database = try TestDatabase()
        let common = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all nodes, long enough",
        ]
        let worker = try FerryProcess(common.merging(["FERRY_ROLES": "worker"]) { $1 }, advertises: true)
        defer { worker.remove() }
        let front = try FerryProcess(common.merging(["FERRY_ROLES": "api"]) { $1 }, advertises: true)
        defer { front.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let stranger = try front.makeKey(role: "client", tenant: "other")
        var ids: [String] = []
        for key in [adminKey, stranger] {
            let body = #"{"kind":"download","request":{"url":"\#(origin.url)/f/1"}}"#
            ids.append(try front.submit(body, key: key))
            _ = origin.stopped.wait()
        }
        let ownFirst = try FollowClient(front, ids[0])
        #expect(ownFirst.bytes(10_000).count == 10_000)
        var clients = [ownFirst]
        while clients.count < Limits.nodeRequestCountMax {
            let client = try FollowClient(front, ids[0])
            guard client.status == 200 else {
                #expect(client.status == 429 && client.head.contains("Retry-After: "), "\(client.head)")
                break
            }
            clients.append(client)
        }
        #expect(clients.count == Limits.nodeRequestCountMax / 2)
        let metrics = try front.call("GET", "/metrics").text
        #expect(metrics.contains("\nferry_forwarded_requests \(clients.count)\n"))
        let other = try FollowClient(front, ids[1], key: stranger)
        #expect(other.bytes(10_000) == Array(HalfwayOrigin.bytes(1)[..<10_000]))
        origin.open()
        #expect(other.rest() == HalfwayOrigin.bytes(1))
    }

    @Test(
        "streams of a revoked key end at once on the node that revokes it, and within seconds on another",
        arguments: [true, false])
    func revoked(here: Bool) throws {
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
        ]
        let first = try FerryProcess(settings, advertises: true)
        defer { first.remove() }
        let front = settings.merging(["FERRY_ROLES": "api"]) { $1 }
        let second = here ? nil : try FerryProcess(front, advertises: true)
        defer { second?.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let created = try first.json(
            "POST", "/v1/admin/keys", #"{"name":"leaked","role":"viewer","tenant":"default"}"#)
        let (key, id) = (try #require(created["key"]?.string), try #require(created["id"]?.string))
        let node = second ?? first
        #expect(becomes { try node.call("GET", "/v1/jobs", key: key).status == 200 })
        let job = try first.submit(#"{"kind":"download","request":{"url":"\#(origin.url)/f/1"}}"#)
        _ = origin.stopped.wait()
        // The origin sends one byte a second, so that only the revocation can end these.
        let events = try EventListener(node, "/v1/events", key: key)
        defer { events.stop() }
        let ofJob = try EventListener(node, "/v1/jobs/\(job)/events", key: key)
        defer { ofJob.stop() }
        let content = try FollowClient(node, job, key: key)
        #expect(content.bytes(10_000).count == 10_000 && !ofJob.messages.wait().isEmpty)
        #expect(try first.call("DELETE", "/v1/admin/keys/\(id)").status == 204)
        #expect(events.ended.wait().count == 1 && ofJob.ended.wait().count == 1)
        #expect(content.rest().count < HalfwayOrigin.byteCount && content.trailers == nil)
        #expect(try node.call("GET", "/v1/jobs", key: key).status == 401)
        origin.open()
        #expect(try first.finished(job)["state"]?.string == "succeeded")
    }
}
