import ArgumentParser
import FerryCLI
import FerryCore
import Glibc
import Synchronization
import Sys
import Testing

@Suite("Webhook commands")
struct WebhookCommandTests {
    private func service() throws -> FakeService {
        try FakeService { request in
            switch (request.method, request.path) {
            case ("GET", "/v1/webhooks"), ("GET", "/v1/webhooks?limit=500"):
                (
                    200,
                    #"{"data":[{"id":"whk_a","url":"http://a/","events":["*"],"disabled_reason":null,"#
                        + #""failing_since":null},{"id":"whk_b","url":"http://b/","events":["job.failed"],"#
                        + #""disabled_reason":{"code":"gone"},"failing_since":null}],"next_cursor":null}"#
                )
            case ("POST", "/v1/webhooks"), ("POST", "/v1/webhooks/whk_a/rotate_secret"):
                (201, #"{"id":"whk_a","secret":"whsec_x","public_key":"whpk_y"}"#)
            case ("POST", "/v1/webhooks/whk_a/test"):
                (200, #"{"state":"accepted","tries":[{"status":204,"error":null}]}"#)
            case ("POST", "/v1/webhooks/whk_b/test"):
                (200, #"{"state":"given_up","tries":[{"status":null,"error":"timed_out"}]}"#)
            case ("POST", "/v1/webhooks/whk_a/replay"): (200, #"{"redelivered":3}"#)
            case ("PATCH", "/v1/webhooks/whk_a"): (200, #"{"enabled":true}"#)
            case ("DELETE", "/v1/webhooks/whk_a"): (204, "")
            default: (404, #"{"status":404,"code":"not_found","detail":"No such endpoint."}"#)
            }
        }
    }

    private func ran(_ arguments: [String], _ service: FakeService) -> Run {
        run(Webhooks.self, arguments + ["--url", service.url])
    }

    @Test("list shows endpoints with their condition")
    func list() throws {
        let service = try service()
        defer { service.stop() }
        let run = ran(["list"], service)
        #expect(run.status == 0 && run.out.contains("whk_a") && run.out.contains("disabled: gone"))
    }

    @Test("create sends all options and shows the secret")
    func create() throws {
        let service = try service()
        defer { service.stop() }
        let run = ran(
            [
                "create", "http://a/", "--event", "job.failed", "--session", "s", "--metadata", "team=a=b",
                "--ordered",
            ], service)
        #expect(run.status == 0 && run.out.contains("whsec_x") && run.out.contains("whpk_y"))
        let body = try #require(service.requests.take().first).body
        #expect(
            body
                == #"{"url":"http://a/","events":["job.failed"],"session":"s","metadata":{"team":"a=b"},"#
                + #""ordered":true}"#)
        #expect(ran(["create", "http://a/", "--metadata", "x"], service).status == 2)
    }

    @Test("create sends the authorities and pins of the receiver")
    func receiverTLS() throws {
        let service = try service()
        defer { service.stop() }
        try withTemporaryDirectory { directory in
            let path = directory + "/ca.pem"
            let file = try #require(fopen(path, "w"))
            fputs("PEM\n", file)
            fclose(file)
            let run = ran(["create", "https://a/", "--ca-file", path, "--pin", "sha256//x"], service)
            #expect(run.status == 0)
        }
        let body = try #require(service.requests.take().first).body
        #expect(body == #"{"url":"https://a/","tls":{"ca":"PEM\n","pins":["sha256//x"]}}"#)
    }

    @Test("test fails if the receiver does not accept; other commands print their result")
    func commands() throws {
        let service = try service()
        defer { service.stop() }
        #expect(ran(["test", "whk_a"], service).out == "accepted: status 204\n")
        let refused = ran(["test", "whk_b"], service)
        #expect(refused.status == 1 && refused.err.contains("timed_out"))
        #expect(ran(["rotate", "whk_a", "--overlap", "60"], service).out.contains("whsec_x"))
        #expect(
            ran(["replay", "whk_a", "--since", "2026-11-21T00:00:00Z", "--only-failed"], service).out
                == "redelivered: 3\n")
        #expect(ran(["enable", "whk_a"], service).out == "enabled\n")
        #expect(ran(["delete", "whk_a"], service).status == 0)
        #expect(ran(["delete", "whk_c"], service).status == 1)
        let bodies = service.requests.take().map(\.body)
        #expect(bodies.contains(#"{"overlap_seconds":60}"#))
        #expect(bodies.contains(#"{"since":"2026-11-21T00:00:00Z","only":"failed"}"#))
    }
}
