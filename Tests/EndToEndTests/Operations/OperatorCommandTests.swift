import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Commands for deliveries, changes and windows", .onOwnThread)
struct OperatorCommandTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func run(
        _ arguments: String..., input: String = "", of ferry: FerryProcess? = nil
    ) throws -> Program.Result {
        try Program.run(
            [Program.ferry] + arguments,
            environment: ["FERRY_URL": (ferry ?? self.ferry).url, "FERRY_KEY": adminKey], input: input)
    }

    @Test("a delivery is listed, shown with its tries, and sent again")
    func deliveries() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let job = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"webhook":{"url":"\#(receiver.url)","#
                + #""events":["job.succeeded"]}}"#)
        #expect(receiver.deliveries.wait().count == 1)
        var columns: [String] = []
        // Endpoints of other tests get the event as well.
        let isAccepted = becomes {
            let line = try run("deliveries", job).lines.first { $0.contains(receiver.url) }
            columns = line?.split(separator: "\t").map(String.init) ?? []
            return columns.dropFirst().prefix(4) == ["job.succeeded", "accepted", "1", "204"]
        }
        #expect(isAccepted, "\(columns)")
        let id = try #require(columns.first)
        let shown = try run("deliveries", "show", id)
        #expect(shown.status == 0 && shown.lines.last?.contains("  204  ") == true, "\(shown)")
        let again = try run("redeliver", id)
        #expect(again.status == 0 && again.output == "\(id)\tpending\n", "\(again)")
        #expect(receiver.deliveries.wait().count == 1)
    }

    @Test("a waiting job is changed, and deleted after its end")
    func change() throws {
        let job = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:9/"},"#
                + #""schedule":{"earliest_begin_at":"2999-01-01T00:00:00Z"}}"#)
        let changed = try run("change", job, "--priority", "0.9", "--description", "later")
        #expect(changed.status == 0 && changed.output == "\(job)\twaiting\n", "\(changed)")
        let patched = try run("change", job, "-", input: #"{"metadata":{"team":"night"}}"#)
        #expect(patched.status == 0, "\(patched)")
        let shown = try ferry.json("GET", "/v1/jobs/\(job)")
        #expect(shown["schedule"]?["priority"]?.double == 0.9 && shown["description"]?.string == "later")
        #expect(shown["metadata"]?["team"]?.string == "night")
        #expect(try run("delete", job).status == 1, "it has not ended")
        #expect(try run("cancel", job).status == 0)
        #expect(try run("delete", job).status == 0)
        #expect(try ferry.call("GET", "/v1/jobs/\(job)").status == 404)
    }

    @Test("windows are changed by a merge patch and shown")
    func windows() throws {
        // Other tests change the windows of the shared node.
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { withExtendedLifetime(database) { ferry.remove() } }
        let patch = #"{"windows":[{"name":"night","cron":"0 0 29 2 *","duration":60}]}"#
        let set = try run("admin", "windows", "set", "-", input: patch, of: ferry)
        #expect(set.status == 0, "\(set)")
        let shown = try run("admin", "windows", "--json", of: ferry)
        #expect(try JSON.parse(Array(shown.output.utf8))["windows"]?.array?.count == 1, "\(shown)")
        let unset = try run("admin", "windows", "set", "-", input: #"{"windows":[]}"#, of: ferry)
        #expect(unset.status == 0, "\(unset)")
        #expect(try run("admin", "windows", "--json", of: ferry).output == "{\"windows\":[]}\n")
    }
}
