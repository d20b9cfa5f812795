import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Events of hosts", .onOwnThread)
struct HostEventTests {
    @Test("a receiver is told once that a host cannot be reached, and once that it answers again")
    func outage() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let endpoint = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"\#(receiver.url)","events":["host.unreachable","host.recovered"]}"#)
        try #require(endpoint["id"]?.string != nil, "\(endpoint)")
        let port = try FreePort.find()
        let url = "http://127.0.0.1:\(port)"
        let job =
            #"{"kind":"data","request":{"url":"\#(url)/"},"schedule":{"waits_for_connectivity":true}}"#
        let jobs = Array(repeating: job, count: 5).joined(separator: ",")
        let ids = try ferry.submitBatch(#"{"jobs":[\#(jobs)]}"#)
        let lost = try #require(receiver.deliveries.wait().first).json
        #expect(lost["type"]?.string == "host.unreachable", "\(lost)")
        let data = lost["data"]
        #expect(data?["host"]?.string == url && data?["waiting_jobs"]?.integer == 5, "\(lost)")
        #expect(data?["sequence"]?.integer == 1 && data?["session"]?.isNull == true, "\(lost)")
        #expect(data?["job"]?.isNull == true && data?["detail"]?.string?.isEmpty == false, "\(lost)")
        let origin = try ScriptedOrigin(port: port) { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") else { return }
            }
        }
        defer { origin.stop() }
        let found = try #require(receiver.deliveries.wait().first).json
        #expect(found["type"]?.string == "host.recovered" && found["data"]?["host"]?.string == url)
        for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
        let events = try ferry.json("GET", "/v1/events?type=host.unreachable,host.recovered")["data"]?.array
        #expect(events?.count == 2, "\(events ?? [])")
        #expect(receiver.deliveries.wait(seconds: 0).isEmpty)
    }
}
