import ArgumentParser
import FerryCLI
import FerryCore
import Glibc
import Synchronization
import Sys
import Testing

private let running = #"{"id":"job_a","state":"running","progress":{"bytes_received":1}}"#
private let succeeded =
    #"{"id":"job_a","state":"succeeded","kind":"download","result":{"size":5,"sha256":"ab"},"#
    + #""response":{"status":200,"suggested_filename":"../data.csv"}}"#
private let failed =
    #"{"id":"job_a","state":"failed","error":"#
    + #"{"code":"host_not_found","message":"No such host.","phase":"resolving"}}"#

@Suite("Client commands")
struct ClientCommandTests {
    /// Returns a service with one job that has ended at the second request for it.
    private func service(ends end: String = succeeded, content: String = "hello") throws -> FakeService {
        let looks = Counter()
        return try FakeService { request in
            switch (request.method, request.path) {
            case ("POST", "/v1/jobs"): (201, running)
            case ("GET", "/v1/jobs/job_a/events"):
                (200, "event: snapshot\ndata: {\"job\":\(looks.next() < 2 ? running : end)}\n\n")
            case ("GET", "/v1/jobs/job_a"): (200, end)
            case ("GET", "/v1/jobs/job_a/content"): (200, content)
            case ("POST", "/v1/jobs/job_a/cancel"): (200, #"{"id":"job_a","state":"cancelled"}"#)
            case ("POST", "/v1/jobs/job_a/suspend"): (200, #"{"id":"job_a","state":"suspended"}"#)
            case ("POST", "/v1/jobs/job_a/resume"): (200, #"{"id":"job_a","state":"queued"}"#)
            case ("POST", "/v1/jobs/batch"):
                (201, #"{"data":[{"id":"job_a","state":"queued"}],"next_cursor":null}"#)
            case ("GET", "/readyz"): (200, #"{"ready":true}"#)
            default: (404, #"{"title":"Not found","status":404,"code":"not_found","detail":"No such job."}"#)
            }
        }
    }

    @Test("get writes the file to standard output, and only the file")
    func getToStandardOutput() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(Get.self, ["http://example.com/x", "-o", "-", "--url", service.url, "-H", "A: b"])
        #expect(run.status == 0 && run.out == "hello")
        let body = try #require(service.requests.take().first).body
        #expect(
            body == #"{"kind":"download","request":{"url":"http://example.com/x","#
                + #""header_fields":[{"name":"A","value":"b"}]}}"#)
    }

    @Test("get sends segments and mirrors")
    func getInParts() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(
            Get.self,
            [
                "http://a.example/x", "-o", "-", "--url", service.url, "--segments", "4", "--mirror",
                "http://b.example/x", "--mirror", "http://c.example/x",
            ])
        #expect(run.status == 0)
        let body = try #require(service.requests.take().first).body
        #expect(
            body == #"{"kind":"download","request":{"url":"http://a.example/x"},"segments":4,"#
                + #""mirrors":["http://b.example/x","http://c.example/x"]}"#)
    }

    @Test(
        "get writes complete files and replaces only a file that is named"
    )
    func getToFile() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            let arguments = ["http://example.com/x", "--url", service.url, "-o"]
            #expect(run(Get.self, arguments + ["\(directory)/a"]).status == 0)
            #expect(contents("\(directory)/a") == "hello")
            #expect(run(Get.self, arguments + [directory]).status == 0)
            #expect(contents("\(directory)/data.csv") == "hello")
            write("mine", to: "\(directory)/data.csv")
            let run = run(Get.self, arguments + [directory])
            #expect(run.status == 1 && run.err.contains("File exists"))
            #expect(contents("\(directory)/data.csv") == "mine")
        }
    }

    @Test("a file with another length than the job's result is not saved")
    func getTruncated() throws {
        try withTemporaryDirectory { directory in
            let service = try service(content: "hell")
            defer { service.stop() }
            let run = run(Get.self, ["http://example.com/x", "--url", service.url, "-o", "\(directory)/a"])
            #expect(run.status == 1 && run.err.contains("4 bytes instead of 5"))
            #expect(contents("\(directory)/a") == nil)
        }
    }

    @Test("a failed job exits with status 1 and prints its error")
    func getFailed() throws {
        let service = try service(ends: failed)
        defer { service.stop() }
        let run = run(Get.self, ["http://example.com/x", "--url", service.url, "-o", "-"])
        #expect(run.status == 1 && run.out.isEmpty)
        #expect(run.err.contains("job_a failed: No such host. (host_not_found, while resolving)"))
    }

    @Test("a timeout exits with status 4, an unreachable service with 3")
    func timedOutAndUnreachable() throws {
        let service = try service(ends: running)
        defer { service.stop() }
        let watched = run(Watch.self, ["job_a", "--timeout", "0.3", "--url", service.url])
        #expect(watched.status == 4 && watched.err.contains("ferry watch job_a"))
        let away = try ClosedPort()
        defer { withExtendedLifetime(away) {} }
        #expect(run(Show.self, ["job_a", "--url", away.url]).status == 3)
        #expect(run(Healthcheck.self, ["--url", away.url]).status == 3)
    }

    @Test("put sends a small file, or a file of the service, in one request")
    func put() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            write("hello", to: "\(directory)/small")
            let small = run(Put.self, ["\(directory)/small", "http://example.com/x", "--url", service.url])
            #expect(small.status == 0)
            let body = try #require(service.requests.take().first).body
            #expect(body.contains(#""kind":"upload""#) && body.contains(#""source":{"base64":"aGVsbG8="}"#))
            let stored = run(
                Put.self, ["--stored", "a/b", "http://example.com/x", "--url", service.url, "--no-wait"])
            #expect(stored.status == 0 && stored.out == "job_a\n")
            #expect(try #require(service.requests.take().first).body.contains(#""source":{"path":"a/b"}"#))
        }
    }

    @Test("--after and --deadline apply to get and to all jobs of a submission")
    func schedules() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            let options = [
                "--url", service.url, "--after", "job_x", "--after", "job_y", "--deadline",
                "2026-11-21T22:00:00Z",
            ]
            #expect(
                run(Get.self, ["http://a.example/x", "--no-wait", "--priority", "1"] + options).status == 0)
            let lines =
                #"{"kind":"data"}"# + "\n"
                + ##"{"kind":"data","schedule":{"priority":1,"depends_on":["#/jobs/0"]}}"##
            write(lines, to: "\(directory)/jobs")
            #expect(run(Submit.self, ["\(directory)/jobs"] + options).status == 0)
            let bodies = service.requests.take().filter { $0.method == "POST" }.map { request -> JSON in
                (try? JSON.parse(Array(request.body.utf8))) ?? .null
            }
            let names = { (job: JSON) -> [String] in
                job["schedule"]?["depends_on"]?.array?.compactMap(\.string) ?? []
            }
            let batch = bodies.last?["jobs"]?.array ?? []
            #expect(bodies.first.map(names) == ["job_x", "job_y"] && bodies.count == 2)
            #expect(batch.map(names) == [["job_x", "job_y"], ["#/jobs/0", "job_x", "job_y"]])
            for job in batch + bodies.prefix(1) {
                #expect(job["schedule"]?["deadline_at"]?.string == "2026-11-21T22:00:00Z")
            }
            #expect(batch.last?["schedule"]?["priority"]?.double == 1)
        }
    }

    @Test("submit takes one job, arrays, batches and lines")
    func submit() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            let job = #"{"kind":"data","request":{"url":"http://a/"}}"#
            let file = "\(directory)/jobs"
            for (text, path, body) in [
                (job, "/v1/jobs", job),
                ("[\(job)]", "/v1/jobs/batch", "{\"jobs\":[\(job)]}"),
                ("{\"jobs\":[\(job)]}", "/v1/jobs/batch", "{\"jobs\":[\(job)]}"),
                ("\(job)\r\n\n\(job)\n", "/v1/jobs/batch", "{\"jobs\":[\(job),\(job)]}"),
            ] {
                write(text, to: file)
                let run = run(Submit.self, [file, "--url", service.url, "--idempotency-key", "k1"])
                #expect(run.status == 0 && run.out == "job_a\n")
                let request = try #require(service.requests.take().first)
                #expect(request.path == path && request.body == body)
                #expect(request.header("idempotency-key") == "k1")
            }
            for text in ["", "{", "nope", "7", "{\"a\":1,\n\"b\" 2}"] {
                write(text, to: file)
                #expect(run(Submit.self, [file, "--url", service.url]).status == 2)
            }
        }
    }

    @Test("submit adds a unique key to one job, and refuses it for several")
    func unique() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            let job = #"{"kind":"data","request":{"url":"http://a/"}}"#
            let file = "\(directory)/jobs"
            write(job, to: file)
            let url = ["--url", service.url]
            for (options, rule) in [
                (["--unique", "a b"], #"{"key":"a b"}"#),
                (["--unique", "a", "--unique-for", "60"], #"{"key":"a","for":60}"#),
            ] {
                #expect(run(Submit.self, [file] + options + url).status == 0)
                let request = try #require(service.requests.take().first)
                let sent = try JSON.parse(Array(request.body.utf8))
                #expect(sent["unique"] == (try JSON.parse(Array(rule.utf8))))
                #expect(sent["kind"]?.string == "data")
            }
            #expect(
                run(Submit.self, [file, "--unique", "a", "--group", "g", "--close-group"] + url).status == 0)
            let batch = try JSON.parse(Array(try #require(service.requests.take().first).body.utf8))
            #expect(batch["jobs"]?.array?.first?["unique"]?["key"]?.string == "a")
            write("[\(job)]", to: file)
            #expect(run(Submit.self, [file, "--unique", "a"] + url).status == 2)
        }
    }

    @Test("suspend and resume print the states of the jobs")
    func suspendAndResume() throws {
        let service = try service()
        defer { service.stop() }
        let options = ["job_a", "--url", service.url]
        let (suspended, resumed) = (run(Suspend.self, options), run(Resume.self, options))
        #expect(suspended.status == 0 && suspended.out == "job_a\tsuspended\n")
        #expect(resumed.status == 0 && resumed.out == "job_a\tqueued\n")
    }

    @Test("the key is read from a file and sent only in the Authorization field")
    func key() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            write("  secret-key\n", to: "\(directory)/key")
            let run = run(
                Cancel.self, ["job_a", "--url", service.url + "/", "--key-file", "\(directory)/key"])
            #expect(run.status == 0 && run.out == "job_a\tcancelled\n")
            let request = try #require(service.requests.take().first)
            #expect(request.header("authorization") == "Bearer secret-key")
            #expect(!run.out.contains("secret") && !run.err.contains("secret"))
        }
    }

    @Test("filters become query items, and a list is printed separated by tabs")
    func jobs() throws {
        let list =
            #"{"data":[{"id":"job_b","state":"failed","kind":"data","created_at":"t","#
            + #""request":{"url":"http://a/"},"error":{"code":"timed_out"}}],"#
            + #""next_cursor":"c1"}"#
        let service = try FakeService { _ in (200, list) }
        defer { service.stop() }
        let plain = run(Jobs.self, ["--state", "failed", "-m", "a b=c&d", "-n", "5", "--url", service.url])
        #expect(plain.out == "job_b\tfailed\tdata\tt\t-\thttp://a/\ttimed_out\n")
        #expect(plain.err == "There may be more: --cursor c1\n")
        let request = try #require(service.requests.take().first)
        #expect(request.path == "/v1/jobs?state=failed&metadata.a%20b=c%26d&limit=5")
        #expect(run(Jobs.self, ["--json", "--url", service.url]).out == list + "\n")
        #expect(
            run(Jobs.self, ["--url", service.url], isTerminal: true).out.hasPrefix("JOB    STATE   AGE"))
        _ = service.requests.take()
        let filters = [
            "--error", "timed_out", "--reason", "host_limit,paused", "--no-retried", "--retry-of", "job_c",
            "--finished-after", "t1", "--finished-before", "t2",
        ]
        #expect(run(Jobs.self, filters + ["--url", service.url]).status == 0)
        #expect(
            try #require(service.requests.take().first).path
                == "/v1/jobs?error=timed_out&waiting_reason=host_limit%2Cpaused&finished_after=t1"
                + "&finished_before=t2&retried=false&retry_of=job_c")
    }

    @Test("the table of jobs fits 80 columns, with whole identifiers, reasons, hosts and ends of paths")
    func jobTable() throws {
        let id = "job_01jd6m5k3w8r9x2t7v4b1c0zqh"
        let job = { (state: String, rest: String) in
            #"{"id":"\#(id)","state":"\#(state)","created_at":"2026-01-01T00:00:00Z",\#(rest)}"#
        }
        let url = "https://downloads.customer.example/2026/11/28/exports/part-0001.csv?x=1"
        let jobs = [
            job("failed", #""error":{"code":"unacceptable_status"},"request":{"url":"\#(url)"}"#),
            job(
                "waiting",
                #""waiting_reason":{"code":"retry_backoff"},"error":{"code":"timed_out"},"#
                    + #""request":{"url":"http://a/b"}"#),
            job("running", #""error":{"code":"timed_out"},"request":{"url":"http://a/b"}"#),
        ].joined(separator: ",")
        let service = try FakeService { _ in (200, #"{"data":[\#(jobs)],"next_cursor":null}"#) }
        defer { service.stop() }
        let lines = run(Jobs.self, ["--url", service.url], isTerminal: true).out.split(separator: "\n")
        #expect(lines.count == 4 && lines.allSatisfy { $0.count <= 80 }, "\(lines)")
        #expect(lines.dropFirst().allSatisfy { $0.hasPrefix(id) })
        #expect(lines[1].contains("unacceptable_status  ") && lines[1].hasSuffix("csv"))
        #expect(lines[2].contains("retry_backoff") && lines[2].hasSuffix("  a/b"))
        #expect(lines[3].contains("  -  "), "a running job does not wait")
    }

    @Test("stuck and failures count jobs by host and reason or error, with an example")
    func summaries() throws {
        let groups =
            #"{"value":["https://downloads.a.example:443","timed_out"],"count":12,"example":"job_a"},"#
            + #"{"value":["http://b.example:8080",null],"count":1,"example":"job_b"}"#
        let service = try FakeService { _ in (200, #"{"data":[\#(groups)],"is_exact":false}"#) }
        defer { service.stop() }
        let failures = run(Failures.self, ["--session", "s", "--group", "g", "--url", service.url])
        #expect(
            failures.out == "12\thttps://downloads.a.example:443\ttimed_out\tjob_a\n"
                + "1\thttp://b.example:8080\t-\tjob_b\n")
        #expect(failures.err.contains("There are more jobs"))
        let stuck = run(Stuck.self, ["--url", service.url], isTerminal: true)
        #expect(
            stuck.out.split(separator: "\n") == [
                "JOBS  HOST                 REASON     EXAMPLE",
                "12    downloads.a.example  timed_out  job_a",
                "1     b.example:8080       -          job_b",
            ])
        #expect(
            service.requests.take().map(\.path) == [
                "/v1/jobs/summary?by=host%2Cerror&session=s&group=g&state=failed&retried=false",
                "/v1/jobs/summary?by=host%2Cwaiting_reason&state=waiting%2Cqueued%2Csuspended",
            ])
        #expect(run(Failures.self, ["--state", "failed", "--url", service.url]).status == 2)
    }

    @Test("show prints the beginning of the response, each line below the other, and the retries")
    func showResponse() throws {
        let job =
            #"{"id":"job_a","state":"failed","response":{"status":404,"body_excerpt":"<p>\nNot here\r\n"},"#
            + #""retry_of":"job_b","retried_by":"job_c"}"#
        let service = try FakeService { _ in (200, job) }
        defer { service.stop() }
        #expect(
            run(Show.self, ["job_a", "--url", service.url]).out == """
                job:          job_a
                state:        failed
                status:       404
                retry of:     job_b
                retried by:   job_c
                response:     <p>
                              Not here

                """)
    }

    @Test("a refused request prints the errors of all fields; invalid usage exits with 2")
    func refusal() throws {
        let unauthorized = ##"{"detail":"No valid key.","code":"unauthorized","status":401}"##
        let fault = ##"{"pointer":"#/request/url","code":"x","detail":"Only http."}"##
        let invalid =
            ##"{"detail":"Two faults.","code":"validation_failed","status":422,"errors":[\##(fault)]}"##
        let service = try FakeService { $0.method == "GET" ? (401, unauthorized) : (422, invalid) }
        defer { service.stop() }
        let get = run(Get.self, ["ftp://x", "--url", service.url, "-o", "-"])
        #expect(
            get.status == 2 && get.err.contains("Two faults.")
                && get.err.contains("#/request/url: Only http."))
        let show = run(Show.self, ["job_a", "--url", service.url])
        #expect(show.status == 1 && show.err.contains("FERRY_KEY"))
    }

    @Test("an error of one field is printed once")
    func singleFault() throws {
        let fault = ##"{"pointer":"#/request/url","code":"x","detail":"Only http."}"##
        let invalid =
            ##"{"detail":"#/request/url: Only http.","code":"invalid_fields","status":422,"##
            + ##""errors":[\##(fault)]}"##
        let service = try FakeService { _ in (422, invalid) }
        defer { service.stop() }
        let get = run(Get.self, ["ftp://x", "--url", service.url, "-o", "-"])
        #expect(get.err == "Error: #/request/url: Only http. (invalid_fields 422)\n")
    }

    private static let misuses: [[String]] = [
        ["-o"], [], ["a", "--no-such"], ["a", "-o", "x", "--stored", "y"], ["a", "-o", "x", "--no-wait"],
        ["a", "-o", "-", "--json"], ["a", "-H", "nope"], ["a", "--timeout", "0"], ["a", "--url", "ftp://x"],
        ["a", "--url", "http://u:p@x"],
    ]

    @Test("invalid arguments exit with status 2", arguments: misuses)
    func usage(arguments: [String]) {
        #expect(run(Get.self, arguments).status == 2)
    }

    @Test("text output rounds to thousandths; JSON output is unchanged")
    func fractions() throws {
        let status = #"{"uptime_seconds":23.71583104133606,"round_trip_seconds":0.0001,"free":null}"#
        let service = try FakeService { _ in (200, status) }
        defer { service.stop() }
        let lines = run(Admin.Status.self, ["--url", service.url]).out.split(separator: "\n")
        #expect(lines.map { $0.split(separator: " ").last } == ["23.716", "0.0001", "-"])
        #expect(run(Admin.Status.self, ["--json", "--url", service.url]).out == status + "\n")
    }

    @Test("--help exits with status 0")
    func help() {
        for command in clientCommands {
            #expect(exitStatus(for: CleanExit.helpRequest(command)) == 0)
        }
        #expect(run(Get.self, ["--help"]).status == 0)
    }

    @Test("healthcheck prints ready, or exits with status 1")
    func healthcheck() throws {
        let ready = try service()
        defer { ready.stop() }
        #expect(run(Healthcheck.self, ["--url", ready.url]).out == "ready\n")
        let draining = try FakeService { _ in
            (503, "[+]database ok\n[!]room failed, not required\n[-]not_draining failed\nnot ready\n")
        }
        defer { draining.stop() }
        let named = run(Healthcheck.self, ["--url", draining.url])
        #expect(named.status == 1 && named.err.contains("Failed: not_draining.") && named.out.isEmpty)
        let notReady = run(Healthcheck.self, ["--json", "--url", draining.url])
        #expect(
            notReady.out == #"{"ready":false,"checks":[{"name":"database","state":"ok"},"#
                + #"{"name":"room","state":"warning"},{"name":"not_draining","state":"failed"}]}"# + "\n")
        #expect(
            notReady.status == 1 && draining.requests.wait(milliseconds: 0).last?.path == "/readyz?verbose")
    }

    @Test(
        "admin hosts show finds listed hosts without their scheme and port, else takes the name as it is",
        arguments: [
            ("a.example", ["http://a.example:80", "https://a.example:8443"]),
            ("A.example:8443", ["https://a.example:8443"]), ("[::1]", ["http://[::1]:9"]),
            ("a.example:443", ["a.example:443"]), ("b.example", ["b.example"]),
            ("http://a.example:81", ["http://a.example:81"]), ("a/b", ["a/b"]),
        ])
    func hosts(name: String, shown: [String]) throws {
        let listed = [
            "http://[::1]:9", "http://a.example:80", "https://a.example:8443", "https://b.a.example:1",
        ]
        let service = try FakeService { request in
            guard request.path.contains("limit=") else { return (200, #"{"host":"shown"}"#) }
            let second = request.path.contains("cursor=")
            let data = (second ? listed.dropFirst(2) : listed.prefix(2)).map { #"{"host":"\#($0)"}"# }
            let next = second ? "null" : #""c""#
            return (200, #"{"data":[\#(data.joined(separator: ","))],"next_cursor":\#(next)}"#)
        }
        defer { service.stop() }
        let run = run(Admin.self, ["hosts", "show", name, "--json", "--url", service.url])
        #expect(run.out == String(repeating: #"{"host":"shown"}"# + "\n", count: shown.count))
        let paths = service.requests.take().map(\.path).filter { !$0.contains("limit=") }
        #expect(paths == shown.map { "/v1/admin/hosts/\(percentEncoded($0))" })
    }

    @Test("admin status prints all values with their paths")
    func status() throws {
        let service = try FakeService { _ in
            (200, #"{"version":"1","jobs":{"running":3},"nodes":[{"id":"nod_a","draining":false}]}"#)
        }
        defer { service.stop() }
        let run = run(Admin.self, ["status", "--url", service.url])
        let lines = run.out.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(
            lines == [
                ["version:", "1"], ["jobs.running:", "3"], ["nodes.0.id:", "nod_a"],
                ["nodes.0.draining:", "false"],
            ])
    }
}

final class Counter: Sendable {
    private let value = Mutex(0)
    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
