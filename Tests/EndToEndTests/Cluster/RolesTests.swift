import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Roles of nodes, and polling instead of LISTEN", .onOwnThread)
struct RolesTests {
    private static let secret = "one key for all nodes, long enough"

    private func node(_ roles: String, _ url: String, _ more: [String: String] = [:]) throws -> FerryProcess {
        let settings = ["FERRY_ROLES": roles, "FERRY_DATABASE_URL": url, "FERRY_SECRET_KEY": Self.secret]
        return try FerryProcess(settings.merging(more) { $1 })
    }

    private func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }

    @Test("three processes with one role each finish a job and its delivery; each does only its role's work")
    func singleRoles() throws {
        let database = try TestDatabase()
        let origin = try origin()
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let api = try node("api", database.url)
        defer { api.remove() }
        let id = try api.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"a"},"#
                + #""webhook":{"url":"\#(receiver.url)"}}"#)
        let isWaiting = becomes {
            try api.json("GET", "/v1/jobs/\(id)")["waiting_reason"]?["code"] == .string("no_worker")
        }
        #expect(isWaiting)

        let worker = try node("worker", database.url)
        defer { worker.remove() }
        #expect(try api.finished(id)["state"] == .string("succeeded"))
        #expect(readFile(worker.files + "/a") == Array("ok".utf8))
        let refused = try worker.call("POST", "/v1/jobs", "{}")
        #expect(refused.status == 404 && refused.text.contains("FERRY_ROLES"))
        #expect(try worker.call("GET", "/metrics").status == 200)
        let path = "/v1/jobs/\(id)/deliveries"
        // The relay creates the delivery after the job's end was committed.
        var pending: JSON?
        #expect(
            becomes {
                pending = try api.json("GET", path)["data"]?.array?.first
                return pending != nil
            })
        #expect(pending?["state"] == .string("pending") && pending?["tries"]?.array?.isEmpty == true)

        let webhooks = try node("webhooks", database.url)
        defer { webhooks.remove() }
        #expect(receiver.deliveries.wait(for: 1, seconds: 60).first?.job?["id"] == .string(id))
        #expect(becomes { try api.json("GET", path)["data"]?.array?.first?["state"] == .string("accepted") })
        #expect(worker.terminate() == 0)
        let later = try api.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
        let waits = becomes {
            try api.json("GET", "/v1/jobs/\(later)")["waiting_reason"]?["code"] == .string("no_worker")
        }
        #expect(waits, "neither the API nor the sender of webhooks transfers")
        #expect(webhooks.terminate() == 0 && api.terminate() == 0)
    }

    @Test("a process runs with any two roles", arguments: ["api,worker", "api,webhooks", "worker,webhooks"])
    func pairs(_ roles: String) throws {
        let database = try TestDatabase()
        let ferry = try node(roles, database.url)
        defer { ferry.remove() }
        let status = try ferry.call("GET", "/v1/jobs").status
        #expect(status == (roles.contains("api") ? 200 : 404))
        #expect(ferry.terminate() == 0)
    }

    @Test(
        "without LISTEN, nodes find jobs, cancellations and operator settings by polling",
        arguments: ["on", "off"])
    func polling(_ notify: String) throws {
        let database = try TestDatabase()
        let pooler = try RefusingPooler(before: database)
        defer { pooler.stop() }
        let settings = ["FERRY_NOTIFY": notify]
        let api = try node("api", pooler.url, settings)
        defer { api.remove() }
        let worker = try node("worker,webhooks", pooler.url, settings)
        defer { worker.remove() }
        let refusals = pooler.refused.wait(for: 2, seconds: notify == "on" ? 60 : 0.1).count
        #expect(notify == "on" ? refusals >= 2 : refusals == 0)
        let origin = try origin()
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let begun = Signal<Void>()
        let endless = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            begun.fire(())
            _ = connection.waitUntilClosed()
        }
        defer { endless.stop() }
        let id = try api.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"webhook":{"url":"\#(receiver.url)"}}"#)
        #expect(try api.finished(id)["state"] == .string("succeeded"))
        #expect(receiver.deliveries.wait(for: 1, seconds: 60).count == 1)
        let running = try api.submit(#"{"kind":"data","request":{"url":"\#(endless.url)/"}}"#)
        #expect(begun.wait(seconds: 60).count == 1)
        #expect(try api.call("POST", "/v1/jobs/\(running)/cancel", "{}").status == 200)
        #expect(try api.finished(running)["state"] == .string("cancelled"))
        #expect(try api.call("POST", "/v1/admin/pause", "{}").status == 200)
        #expect(becomes { try worker.call("GET", "/metrics").text.contains("\nferry_paused 1\n") })
    }
}
