import FerryCore
import FerryEngine
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .onOwnThread) struct FormTests {
    /// One part as a server reads it.
    private struct Received: Equatable {
        let head: [String]
        let body: [UInt8]
    }

    private static func with(_ body: (ScriptedOrigin, Signal<[UInt8]>, Fixture) throws -> Void) throws {
        let bodies = Signal<[UInt8]>()
        let origin = try ScriptedOrigin.answering { _, body in
            bodies.fire(body)
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try body(origin, bodies, fixture)
    }

    /// Takes a body apart at the boundary that its request names (RFC 2046 §5.1).
    private static func parts(_ body: [UInt8], of request: ScriptedOrigin.Request) throws -> [Received] {
        let type = try #require(request.header("content-type"))
        let prefix = "multipart/form-data; boundary="
        #expect(type.hasPrefix(prefix))
        #expect(request.header("content-length") == "\(body.count)")
        let boundary = Array("\r\n--\(type.dropFirst(prefix.count))".utf8)
        let pieces = split(Array("\r\n".utf8) + body, at: boundary)
        #expect(pieces.first == [] && pieces.last == Array("--\r\n".utf8))
        return try pieces.dropFirst().dropLast().map { piece in
            let halves = split(piece, at: Array("\r\n\r\n".utf8))
            let head = String(decoding: try #require(halves.first), as: UTF8.self)
            return Received(
                head: head.split(separator: "\r\n").map(String.init),
                body: Array(halves.dropFirst().joined(separator: Array("\r\n\r\n".utf8))))
        }
    }

    private static func split(_ bytes: [UInt8], at mark: [UInt8]) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var rest = bytes[...]
        while let range = rest.firstRange(of: mark) {
            pieces.append(Array(rest[..<range.lowerBound]))
            rest = rest[range.upperBound...]
        }
        return pieces + [Array(rest)]
    }

    @Test("fields and files arrive as RFC 7578 says, names as browsers send them, a large file streamed")
    func multipart() throws {
        try Self.with { origin, bodies, fixture in
            let file = patternBytes(3_000_000)
            try writeFile(fixture.root + "/large", file)
            let left = patternBytes(1_000)
            let job = fixture.addJob(
                TransferResult(
                    size: 1_000, sha256: sha256(left), body: left,
                    verified: .length),
                response: TransferResponse(
                    status: 200, url: "http://a.example/", headers: [], mimeType: "image/png",
                    suggestedFilename: "kept.png", expectedContentLength: nil))
            let result = try #require(
                fixture.run(.data, origin.url) {
                    $0.spec.request.method = "POST"
                    $0.payload = Array("eins\u{0}\r\n--".utf8)
                    let text = JobSpec.Source.inline(.init(form: .text, byteCount: 4))
                    let bytes = JobSpec.Source.inline(.init(form: .base64, byteCount: 5))
                    $0.spec.request.body = .init(
                        form: .multipart, byteCount: 9,
                        parts: [
                            .init(name: "täg \"a\"\r\nb", source: text),
                            .init(name: "file", source: .path("large"), fileName: "größe\".bin"),
                            .init(name: "bytes", source: bytes, contentType: "a/b"),
                            .init(name: "job", source: .job(job)),
                        ])
                })
            #expect(result.success?.size == 0, "\(result.outcome)")
            let request = try #require(origin.requests.first)
            let parts = try Self.parts(try #require(bodies.wait().first), of: request)
            #expect(
                parts.map(\.head) == [
                    [#"Content-Disposition: form-data; name="täg %22a%22%0D%0Ab""#],
                    [#"Content-Disposition: form-data; name="file"; filename="größe%22.bin""#],
                    [#"Content-Disposition: form-data; name="bytes""#, "Content-Type: a/b"],
                    [
                        #"Content-Disposition: form-data; name="job"; filename="kept.png""#,
                        "Content-Type: image/png",
                    ],
                ])
            #expect(parts[0].body == Array("eins".utf8) && parts[2].body == Array("\u{0}\r\n--".utf8))
            #expect(parts[1].body == file && parts[3].body == left)
            #expect(result.bytesSent == Int64(request.header("content-length") ?? "") ?? -1)
        }
    }

    @Test("an upload in a form reports its file only, and the form is sent again after a redirect")
    func uploadForm() throws {
        let bodies = Signal<[UInt8]>()
        let origin = try ScriptedOrigin.answering { request, body in
            bodies.fire(body)
            let head = request.path == "/end" ? "200 OK" : "308 x\r\nLocation: /end"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let file = patternBytes(2_500_000)
        try writeFile(fixture.root + "/large", file)
        let result = try #require(
            fixture.run(.upload, origin.url) {
                $0.spec.request.method = "POST"
                $0.payload = [0x31]
                $0.spec.source = .form([
                    .init(name: "a", source: .inline(.init(form: .text, byteCount: 1))),
                    .init(name: "f", source: .path("large"), fileName: "x", contentType: "a/b"),
                ])
                $0.spec.integrity.sha256 = sha256(file)
            })
        #expect(result.success?.size == 2_500_000 && result.success?.sha256 == sha256(file), "\(result)")
        let received = bodies.wait(for: 2)
        #expect(received.count == 2 && received.first == received.last)
        let parts = try Self.parts(received[1], of: origin.requests[1])
        #expect(parts.map(\.body) == [[0x31], file])
    }

    @Test("no two forms have the same boundary")
    func boundaries() throws {
        try Self.with { origin, _, fixture in
            for _ in 0..<2 {
                _ = fixture.run(.data, origin.url) {
                    $0.spec.request.method = "POST"
                    $0.payload = [1]
                    let part = JobSpec.Part(name: "a", source: .inline(.init(form: .text, byteCount: 1)))
                    $0.spec.request.body = .init(form: .multipart, byteCount: 1, parts: [part])
                }
            }
            let types = origin.requests.compactMap { $0.header("content-type") }
            #expect(types.count == 2 && Set(types).count == 2)
            // 128 bits in hexadecimal.
            #expect(types.allSatisfy { $0.split(separator: "-").last?.count == 32 })
        }
    }

    @Test("another job's result is sent on, wherever it is stored")
    func jobs() throws {
        try Self.with { origin, bodies, fixture in
            let bytes = patternBytes(1_500_000)
            let result = { (path: String?, body: [UInt8]?) in
                TransferResult(
                    location: path.map { .namedFile(path: $0) } ?? (body == nil ? .managedFile : nil),
                    size: Int64(body?.count ?? bytes.count), sha256: sha256(body ?? bytes), body: body,
                    verified: .length)
            }
            try writeFile(fixture.root + "/there", bytes)
            let kept = fixture.addJob(result(nil, nil))
            mkdir(fixture.directory + "/results", 0o755)
            let keptPath = fixture.directory + "/results/" + ManagedFiles.path(for: kept)
            mkdir(String(keptPath[..<(keptPath.lastIndex(of: "/") ?? keptPath.endIndex)]), 0o755)
            try writeFile(keptPath, bytes)
            for (job, expected) in [
                (fixture.addJob(result("there", nil)), bytes), (kept, bytes),
                (fixture.addJob(result(nil, [1, 2, 3])), [1, 2, 3]),
            ] {
                let sent = try #require(fixture.run(.upload, origin.url) { $0.spec.source = .job(job) })
                #expect(sent.success?.sha256 == sha256(expected), "\(sent.outcome)")
                #expect(bodies.wait().first == expected)
            }
        }
    }

    @Test(
        "a job without a result, unfinished, or of another tenant is refused as a source with its reason")
    func noSource() throws {
        try Self.with { origin, _, fixture in
            let body = TransferResult(
                size: 1, sha256: sha256([1]), body: [1], verified: .length)
            var nothing = body
            nothing.body = nil
            var file = body
            (file.body, file.location) = (nil, .namedFile(path: "gone"))
            var changed = file
            (changed.location, changed.size) = (.namedFile(path: "there"), 9)
            try writeFile(fixture.root + "/there", [1, 2])
            for (job, words) in [
                (fixture.addJob(body, state: .running), "not finished yet: it is running"),
                (fixture.addJob(body, state: .failed), "not succeeded: it is failed"),
                (fixture.addJob(body, tenant: "other"), "does not exist"),
                (fixture.addJob(nothing), "left no bytes"), (fixture.addJob(file), "no readable file"),
                (fixture.addJob(changed), "no longer the one"),
            ] {
                let result = fixture.run(.upload, origin.url) { $0.spec.source = .job(job) }
                let error = try #require(result?.failure)
                #expect(error.message.contains(words), "\(error)")
                #expect(!error.isRetryable)
                #expect(error.code == (words == "no longer the one" ? .sourceChanged : .sourceNotFound))
            }
            #expect(origin.requests.isEmpty)
        }
    }

    @Test("a file on another node sends the job there, or is retried if that node is gone")
    func otherNode() throws {
        let (own, other) = (NodeID(high: 1, low: 1), NodeID(high: 2, low: 2))
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture { $0.node = own }
        defer {
            fixture.stop()
            origin.stop()
        }
        let kept = TransferResult(
            location: .managedFile, size: 1, sha256: sha256([1]), verified: .length)
        var named = kept
        named.location = .namedFile(path: "shared")
        let run = { (job: JobID, home: NodeID?) in
            fixture.engine.begin([
                fixture.attempt(.upload, origin.url, home: home) { $0.spec.source = .job(job) }
            ])
            return try #require(fixture.sink.arrived.wait().first)
        }
        for file in [kept, named] {
            let there = fixture.addJob(file, node: other)
            let given = try run(there, nil)
            #expect(given.isReleased && given.home == other)
            let waits = try run(there, other)
            #expect(waits.failure?.code == .storageFailed && waits.failure?.isRetryable == true)
            // It is that of another file that this node is the only one.
            #expect(try run(there, own).failure?.code == .sourceNotFound)
            // Its own files are nowhere else.
            #expect(try run(fixture.addJob(file, node: own), nil).failure?.code == .sourceNotFound)
        }
        #expect(origin.requests.isEmpty)
        // Where the disk is shared any node has it.
        try writeFile(fixture.root + "/shared", [1])
        #expect(try run(fixture.addJob(named, node: other), nil).success?.sha256 == sha256([1]))
    }

    /// A job that sends what `job` has left: as it is, or as a part of a form.
    private static func send(_ job: JobID, inForm: Bool, _ draft: inout Draft) {
        guard inForm else {
            draft.spec.source = .job(job)
            return
        }
        draft.spec.request.method = "POST"
        draft.spec.request.body = .init(
            form: .multipart, byteCount: 0, parts: [.init(name: "a", source: .job(job))])
    }

    @Test(
        "a job's file with other bytes of the same length fails before anything is sent",
        arguments: [true, false])
    func swapped(inForm: Bool) throws {
        try Self.with { origin, bodies, fixture in
            // Some that are hashed at once, and some that take several slices.
            for bytes in [[1], patternBytes(20_000_000)] as [[UInt8]] {
                var result = TransferResult(
                    location: .namedFile(path: "there"), size: Int64(bytes.count), sha256: sha256(bytes),
                    verified: .length)
                // Of the file that was published, which is gone.
                result.file = FileIdentity(inode: 1, modified: 2)
                let job = fixture.addJob(result)
                let run = {
                    fixture.run(inForm ? .data : .upload, origin.url) { Self.send(job, inForm: inForm, &$0) }
                }
                try writeFile(
                    fixture.root + "/there", Array(bytes.dropLast()) + [bytes[bytes.count - 1] ^ 1])
                let sentCount = origin.requests.count
                let other = run()
                #expect(other?.failure?.code == .sourceChanged && other?.failure?.isRetryable == false)
                #expect(origin.requests.count == sentCount)
                // As a backup brings it back.
                try writeFile(fixture.root + "/there", bytes)
                #expect(run()?.success != nil)
                #expect(bodies.wait().first?.count ?? 0 >= bytes.count)
            }
        }
    }

    @Test(
        "comparing a large file does not delay the end of the job",
        arguments: [AttemptStop.cancel, .suspend, nil])
    func hugeFile(stop: AttemptStop?) throws {
        try Self.with { origin, _, fixture in
            try writeFile(fixture.root + "/huge", [])
            // All of it a hole: hashing it would take hours.
            let size: Int64 = 1 << 40
            try #require(truncate(fixture.root + "/huge", off_t(size)) == 0)
            var result = TransferResult(
                location: .namedFile(path: "huge"), size: size, sha256: sha256([]), verified: .length)
            result.file = FileIdentity(inode: 1, modified: 2)
            let source = fixture.addJob(result)
            let attempt = fixture.attempt(.upload, origin.url) {
                $0.spec.source = .job(source)
                if stop == nil { $0.spec.schedule.timeoutForResource = 1 }
            }
            fixture.engine.begin([attempt])
            if let stop { fixture.engine.stop(attempt.job, stop) }
            let ended = try #require(fixture.sink.arrived.wait().first)
            switch stop {
            case .cancel: #expect(ended.isCancelled)
            case .suspend: #expect(ended.isSuspended)
            default: #expect(ended.failure?.code == .resourceTimeout)
            }
            #expect(origin.requests.isEmpty)
        }
    }
}
