import FerryCLI
import Testing

@Suite("Timeouts of waiting commands")
struct WaitOptionsTests {
    private static let nowhere = "http://a.example/"

    @Test(
        "an invalid timeout is a usage error",
        arguments: ["nan", "inf", "-inf", "-5", "0", "1.1e9", "1e300", "soon", ""])
    func noTime(seconds: String) {
        let timeout = "--timeout=\(seconds)"
        for refused in [
            run(Get.self, [Self.nowhere, "-o", "-", timeout]),
            run(Put.self, ["--stored", "a", Self.nowhere, timeout]),
            run(Submit.self, ["/dev/null", "--wait", timeout]),
            run(Watch.self, ["job_a", timeout]), run(Watch.self, ["job_a", "--timeout", seconds]),
            run(Retry.self, ["job_a", "--wait", timeout]),
        ] {
            #expect(refused.status == 2 && refused.err.contains("--timeout"), "\(refused)")
        }
    }

    @Test("a timeout without waiting is a usage error")
    func nothingWaits() {
        for refused in [
            run(Get.self, [Self.nowhere, "--no-wait", "--timeout", "5"]),
            run(Put.self, ["--stored", "a", Self.nowhere, "--no-wait", "--timeout", "5"]),
            run(Submit.self, ["/dev/null", "--timeout", "5"]), run(Retry.self, ["job_a", "--timeout", "5"]),
        ] {
            #expect(refused.status == 2 && refused.err.contains("--timeout needs --wait"), "\(refused)")
        }
    }

    @Test("a timeout of decades is accepted")
    func decades() throws {
        let job = #"{"id":"job_a","state":"succeeded"}"#
        let service = try FakeService { request in
            request.path.hasSuffix("/events") ? (204, "") : (200, job)
        }
        defer { service.stop() }
        let watched = run(Watch.self, ["job_a", "--timeout", "1e9", "--url", service.url])
        #expect(watched.status == 0 && watched.out == "job_a\tsucceeded\n", "\(watched)")
    }
}
