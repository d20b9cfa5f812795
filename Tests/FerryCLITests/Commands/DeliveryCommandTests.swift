import FerryCLI
import FerryCore
import Sys
import Testing

@Suite("deliveries and redeliver")
struct DeliveryCommandTests {
    private let pending =
        #"{"id":"dlv_a","event":"evt_a","type":"job.failed","job":"job_a","webhook":"whk_a","#
        + #""url":"http://a/","state":"pending","occurred_at":"2026-11-29T01:00:00Z","#
        + #""next_try_at":"2026-11-29T02:00:00Z","#
        + #""waiting_reason":{"code":"receiver_paused","detail":"The receiver has failed.","#
        + #""next_check_at":"2026-11-29T03:00:00Z"},"tries":["#
        + #"{"number":1,"started_at":"2026-11-29T01:00:01Z","duration":0.25,"status":503,"error":"status"},"#
        + #"{"number":2,"started_at":"2026-11-29T01:00:09Z","duration":10,"status":null,"#
        + #""error":"timed_out"}]}"#

    private func service() throws -> FakeService {
        try FakeService { [pending] request in
            switch (request.method, request.path) {
            case ("GET", "/v1/deliveries/dlv_a"): (200, pending)
            case ("POST", "/v1/deliveries/dlv_a/redeliver"): (202, #"{"id":"dlv_a","state":"pending"}"#)
            case ("GET", let path) where path.contains("/deliveries?limit="):
                (200, #"{"data":[\#(pending)],"next_cursor":null}"#)
            default: (404, #"{"status":404,"code":"not_found","detail":"No such delivery."}"#)
            }
        }
    }

    @Test("deliveries lists those of a job or an endpoint with the last outcome and the next try")
    func list() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(Deliveries.self, ["job_a", "--url", service.url])
        #expect(
            run.out == "dlv_a\tjob.failed\treceiver_paused\t2\ttimed_out\t2026-11-29T03:00:00Z\thttp://a/\n")
        let filtered = FerryCLITests.run(
            Deliveries.self,
            ["whk_a", "--state", "given_up", "--type", "job.failed", "-n", "7", "--url", service.url])
        #expect(filtered.status == 0)
        #expect(
            service.requests.take().map(\.path) == [
                "/v1/jobs/job_a/deliveries?limit=50",
                "/v1/webhooks/whk_a/deliveries?limit=7&state=given_up&type=job.failed",
            ])
        let refused = FerryCLITests.run(
            Deliveries.self, ["job_a", "--state", "pending", "--url", service.url])
        #expect(refused.status == 2 && refused.err.contains("--state and --type"))
        #expect(service.requests.take().isEmpty)
    }

    @Test("deliveries show prints each try")
    func show() throws {
        let service = try service()
        defer { service.stop() }
        let lines = run(Deliveries.self, ["show", "dlv_a", "--url", service.url]).out.split(separator: "\n")
        #expect(lines.contains("waits:      The receiver has failed."))
        #expect(
            lines.suffix(2) == [
                "try 1:      2026-11-29T01:00:01Z  503  0.25 s",
                "try 2:      2026-11-29T01:00:09Z  timed_out  10 s",
            ])
    }

    @Test("redeliver sends each delivery again and names those that do not exist")
    func redeliver() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(Redeliver.self, ["dlv_a", "dlv_b", "--url", service.url])
        #expect(run.out == "dlv_a\tpending\n" && run.status == 1)
        #expect(run.err.contains("dlv_b: No such delivery."))
    }
}
