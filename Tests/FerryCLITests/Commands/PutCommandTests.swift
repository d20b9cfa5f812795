import FerryCLI
import FerryCore
import Glibc
import Synchronization
import Sys
import Testing

@Suite("Uploads of local files")
struct PutCommandTests {
    private static let target = "http://example.com/x"
    /// A file that is staged.
    private static let large = String(repeating: "0123456789", count: 60_000)

    private func put(_ service: FakeService, _ arguments: String...) -> Run {
        run(Put.self, arguments + ["--url", service.url])
    }

    /// Returns methods and paths without the events of jobs.
    private func steps(_ requests: [FakeService.Request]) -> [String] {
        requests.filter { !$0.path.hasSuffix("/events") }.map { "\($0.method) \($0.path)" }
    }

    private func name(_ requests: [FakeService.Request]) throws -> String {
        let path = try #require(requests.first { $0.path.hasPrefix("/v1/uploads/put-") }?.path)
        return String(path.dropFirst("/v1/uploads/".count))
    }

    @Test("a large file is staged, submitted with a key, and removed after the success of the command")
    func large() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service()
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            let run = put(service, "\(directory)/a", Self.target)
            #expect(run.status == 0 && run.out.isEmpty && run.err == "job_1: 5 B sent, answered with 200.\n")
            let requests = service.requests.take()
            let name = try name(requests)
            let path = "/v1/uploads/\(name)"
            #expect(
                steps(requests) == [
                    "HEAD \(path)", "PUT \(path)", "POST /v1/jobs", "GET /v1/jobs/job_1",
                    "DELETE /v1/uploads/upl_1",
                ])
            try #require(requests.count > 2)
            #expect(requests[1].body == Self.large && requests[1].header("upload-complete") == "?1")
            #expect(requests[1].header("content-type") == nil)
            #expect(requests[2].body.contains(#""source":{"upload":"\#(name)"}"#))
            #expect(requests[2].header("idempotency-key")?.hasPrefix("put-") == true)
            // The user wants it to be sent again.
            #expect(put(service, "\(directory)/a", Self.target).err.hasPrefix("job_2: "))
        }
    }

    @Test("an incomplete upload continues at the offset that the service names")
    func continues() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let begun = Counter()
            let service = try staging.service { request in
                guard request.method == "HEAD", begun.next() == 1 else { return nil }
                let name = request.path.split(separator: "/")[2]
                let upload = FakeStaging.Upload(id: "upl_9", body: String(Self.large.prefix(250_000)))
                staging.state.withLock { $0.uploads[String(name)] = upload }
                return nil
            }
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            #expect(put(service, "\(directory)/a", Self.target, "--no-wait").out == "job_1\n")
            let patch = try #require(service.requests.take().first { $0.method == "PATCH" })
            #expect(patch.header("upload-offset") == "250000" && patch.header("upload-complete") == "?1")
            #expect(patch.header("content-type") == "application/partial-upload")
            #expect(patch.body == String(Self.large.dropFirst(250_000)))
            #expect(staging.state.withLock { $0.uploads.values.first?.body } == Self.large)
        }
    }

    @Test("after a lost response and a stale offset, only the rest is sent")
    func interrupted() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let count = Counter()
            let service = try staging.service { request in
                guard request.method == "PUT" || request.method == "PATCH" else { return nil }
                let name = String(request.path.split(separator: "/")[2])
                switch count.next() {
                case 1:
                    // A part has arrived, and the connection breaks.
                    staging.state.withLock {
                        $0.uploads[name] = .init(id: "upl_1", body: String(Self.large.prefix(100_000)))
                    }
                    return .init(status: 0)
                case 2:
                    // The first request has added bytes since HEAD.
                    staging.state.withLock {
                        $0.uploads[name] = .init(id: "upl_1", body: String(Self.large.prefix(200_000)))
                    }
                    return nil
                case 3:
                    // The upload is complete, and its response is lost.
                    _ = staging.answer(request)
                    return .init(status: 0)
                default: return nil
                }
            }
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            #expect(put(service, "\(directory)/a", Self.target).status == 0)
            let requests = service.requests.take()
            #expect(
                steps(requests).prefix(6).map { $0.prefix { $0 != " " } }
                    == ["HEAD", "PUT", "HEAD", "PATCH", "PATCH", "HEAD"])
            let patches = requests.filter { $0.method == "PATCH" }
            #expect(patches.map { $0.header("upload-offset") } == ["100000", "200000"])
            #expect(patches.last?.body == String(Self.large.dropFirst(200_000)))
        }
    }

    @Test("a repeated command awaits the job that an interrupted one has submitted, and reports it once")
    func repeated() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service()
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            let arguments = ["\(directory)/a", Self.target, "--url", service.url]
            // The command ends at its timeout, as if it was killed.
            staging.state.withLock { $0.end = "running" }
            #expect(run(Put.self, arguments + ["--timeout", "0.2"]).status == 4)
            staging.state.withLock { $0.states["job_1"] = "succeeded" }
            _ = service.requests.take()
            #expect(run(Put.self, arguments).err.hasPrefix("job_1: "))
            #expect(!service.requests.take().contains { ["PUT", "PATCH"].contains($0.method) })
            staging.state.withLock { $0.end = "failed" }
            #expect(run(Put.self, arguments).err.contains("job_2 failed: Status 500."))
            // The bytes of a failed job are kept, and the next run submits another job.
            staging.state.withLock { $0.end = "succeeded" }
            _ = service.requests.take()
            #expect(run(Put.self, arguments).err.hasPrefix("job_3: "))
            #expect(!service.requests.take().contains { ["PUT", "PATCH"].contains($0.method) })
            #expect(staging.state.withLock { $0.uploads.isEmpty })
        }
    }

    @Test("with --no-wait, a repeated command prints the unfinished job, and sends a finished one again")
    func repeatedWithoutWaiting() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service()
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            staging.state.withLock { $0.end = "running" }
            let outputs = (0..<3).map { number in
                if number == 2 { staging.state.withLock { $0.states["job_1"] = "succeeded" } }
                return put(service, "\(directory)/a", Self.target, "--no-wait").out
            }
            #expect(outputs == ["job_1\n", "job_1\n", "job_2\n"])
            #expect(staging.state.withLock { $0.uploadCount } == 1)
        }
    }

    @Test("a changed file, and another URL, begin anew")
    func names() throws {
        try withTemporaryDirectory { directory in
            let service = try FakeStaging().service()
            defer { service.stop() }
            var names: Set<String> = []
            for (text, url) in [
                (Self.large, Self.target), (Self.large + "1", Self.target), (Self.large, Self.target + "y"),
            ] {
                write(text, to: "\(directory)/a")
                for _ in 0..<2 {
                    #expect(put(service, "\(directory)/a", url, "--no-wait").status == 0)
                    names.insert(try name(service.requests.take()))
                }
            }
            #expect(names.count == 3)
        }
    }

    @Test(
        "a file that becomes shorter or longer while it is sent fails, and its upload is removed",
        arguments: [300_000, 700_000])
    func changed(size: Int) throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let path = "\(directory)/a"
            let service = try staging.service { request in
                if request.method == "HEAD" { truncate(path, size) }
                return nil
            }
            defer { service.stop() }
            write(Self.large, to: path)
            let run = put(service, path, Self.target)
            #expect(run.status == 1 && run.err.contains("\(path) changed while it was sent"))
            let requests = service.requests.take()
            #expect(requests.last?.method == "DELETE" && !requests.contains { $0.method == "POST" })
            #expect(staging.state.withLock { $0.uploads.isEmpty })
        }
    }

    @Test("a service that restarts or is overloaded is asked again", arguments: [502, 503, 429])
    func away(status: Int) throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let (uploads, jobs) = (Counter(), Counter())
            let service = try staging.service { request in
                let isFirst =
                    request.method == "PUT" && uploads.next() == 1
                    || request.method == "POST" && jobs.next() == 1
                return isFirst ? .init(status: status, body: #"{"code":"overloaded"}"#) : nil
            }
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            let run = put(service, "\(directory)/a", Self.target, "--idempotency-key", "mine")
            #expect(run.status == 0, "\(run)")
            let requests = service.requests.take()
            #expect(requests.filter { $0.method == "PUT" }.count == 2)
            #expect(
                requests.filter { $0.method == "POST" }.map { $0.header("idempotency-key") }
                    == ["mine", "mine"])
        }
    }

    @Test("several files are sent to URLs with their names, and failures do not stop the others")
    func several() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service { request in
                guard request.method == "PUT", request.body.hasPrefix("too large") else { return nil }
                return .init(
                    status: 413,
                    body: #"{"code":"body_too_large","detail":"An upload has at most 9 bytes.","status":413}"#
                )
            }
            defer { service.stop() }
            for (name, text) in [("a b", "a"), ("large", Self.large), ("huge", "too large" + Self.large)] {
                write(text, to: "\(directory)/\(name)")
            }
            let files = ["a b", "none", "large", "huge", "."].map { "\(directory)/\($0)" }
            let run = run(
                Put.self, files + ["http://example.com/d/", "--no-wait", "--url", service.url])
            let lines = run.out.split(separator: "\n").map { $0.split(separator: "\t").map(String.init) }
            #expect(lines.map { $0.last } == [files[0], files[2]], "\(run)")
            #expect(run.status == 1 && run.err.contains("\(files[1]): No such file"))
            #expect(run.err.contains("\(files[3]) (585.9 KiB) is refused: An upload has at most 9 bytes."))
            #expect(run.err.contains("\(files[4]): Is a directory"))
            let bodies = service.requests.take().filter { $0.method == "POST" }.map(\.body)
            let urls = try Set(
                bodies.map { try JSON.parse(Array($0.utf8))["request"]?["url"]?.string ?? "" })
            #expect(urls == ["http://example.com/d/a%20b", "http://example.com/d/large"])
        }
    }

    @Test("results are printed in the order of the files, and uploads stay until all files are sent")
    func order() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service()
            defer { service.stop() }
            let files = (0..<6).map { "\(directory)/\($0)" }
            for file in files { write(Self.large, to: file) }
            let failing = ["\(directory)/none"]
            let options = ["http://example.com/", "--json", "--parallel", "3", "--url", service.url]
            let first = run(Put.self, files + failing + options)
            #expect(first.status == 1 && first.out.split(separator: "\n").count == 6)
            #expect(staging.state.withLock { $0.uploads.count } == 6)
            let second = run(Put.self, files + options)
            // The same jobs, each the one of its file.
            #expect(second.status == 0 && second.out == first.out)
            #expect(staging.state.withLock { $0.uploads.isEmpty && $0.jobs.count == 6 })
        }
    }

    @Test("a pipe of unknown length is sent in pieces, and a lost response costs no byte")
    func pipe() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let count = Counter()
            let service = try staging.service { request in
                guard request.method == "PATCH", count.next() == 1 else { return nil }
                _ = staging.answer(request)
                return .init(status: 0)
            }
            defer { service.stop() }
            let path = "\(directory)/pipe"
            try #require(mkfifo(path, 0o600) == 0)
            let text = String(repeating: "0123456789abcdef", count: 9 << 16)
            let writer = Thread(name: "writer") { write(text, to: path) }
            defer { writer.join() }
            staging.state.withLock { $0.end = "running" }
            let run = put(service, path, Self.target, "--no-wait")
            #expect(run.out == "job_1\n", "\(run)")
            let requests = service.requests.take()
            let pieces = requests.filter { $0.method == "PUT" || $0.method == "PATCH" }
            #expect(pieces.map { $0.body.utf8.count } == [4 << 20, 4 << 20, 1 << 20])
            #expect(pieces.map { $0.header("upload-complete") } == ["?0", "?0", "?1"])
            #expect(staging.state.withLock { $0.uploads.values.first?.body } == text)
        }
    }

    @Test("an expired upload of a pipe fails, because its bytes cannot be read again")
    func expiredPipe() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service { request in
                if request.method == "PATCH" { staging.state.withLock { $0.uploads = [:] } }
                return nil
            }
            defer { service.stop() }
            let path = "\(directory)/pipe"
            try #require(mkfifo(path, 0o600) == 0)
            let text = String(repeating: "x", count: 5 << 20)
            let writer = Thread(name: "writer") { write(text, to: path) }
            defer { writer.join() }
            let run = put(service, path, Self.target)
            #expect(run.status == 1 && run.err.contains("does not have the first bytes any more"))
        }
    }

    @Test("an upload that another command sends is left to it")
    func superseded() throws {
        try withTemporaryDirectory { directory in
            let service = try FakeStaging().service { request in
                request.method == "PUT" ? .init(status: 409, body: #"{"code":"upload_superseded"}"#) : nil
            }
            defer { service.stop() }
            write(Self.large, to: "\(directory)/a")
            let run = put(service, "\(directory)/a", Self.target)
            #expect(run.status == 1 && run.err.contains("Another command sends this file"))
            #expect(service.requests.take().count == 2)
        }
    }

    @Test("a service that has never answered is not waited for")
    func unreachable() throws {
        try withTemporaryDirectory { directory in
            let away = try ClosedPort()
            defer { withExtendedLifetime(away) {} }
            for (name, text) in [("small", "x"), ("large", Self.large)] {
                write(text, to: "\(directory)/\(name)")
                let run = run(Put.self, ["\(directory)/\(name)", Self.target, "--url", away.url])
                #expect(run.status == 3, "\(run)")
            }
        }
    }

    @Test("the progress of several files has a line for each on a terminal")
    func display() throws {
        try withTemporaryDirectory { directory in
            let staging = FakeStaging()
            let service = try staging.service()
            defer { service.stop() }
            for name in ["first", "second"] { write(Self.large, to: "\(directory)/\(name)") }
            let files = ["first", "second"].map { "\(directory)/\($0)" }
            let run = run(
                Put.self, files + ["http://example.com/", "--url", service.url], isTerminal: true)
            #expect(run.status == 0, "\(run)")
            for name in ["first", "second"] {
                #expect(run.err.contains("\r\u{1B}[K\(name)  ["), "\(run.err)")
                #expect(run.err.contains("/\(name): 5 B sent, answered with 200 (job_"))
            }
        }
    }

    @Test(
        "wrong combinations of files and URLs exit with status 2",
        arguments: [
            ["a", "b", "http://example.com/x"], ["-", "a", "http://example.com/"], ["a", "nonsense"],
            ["a/x", "b/x", "http://example.com/"], ["a", "a", "http://example.com/", "--field", "f"],
            ["a", "b", "http://example.com/", "--idempotency-key", "k"],
            ["a", "http://example.com/", "--parallel", "0"],
        ])
    func misuse(arguments: [String]) {
        #expect(run(Put.self, arguments + ["--url", "http://127.0.0.1:1"]).status == 2)
    }
}
