import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Uploads that continue where they broke off, with a server that breaks connections.
@Suite(.serialized, .onOwnThread) struct ResumableUploadTests {
    private static let bytes = patternBytes(3_000_000)

    private static func with(
        _ rules: UploadOrigin.Rules = UploadOrigin.Rules(),
        _ body: (UploadOrigin, Fixture, UploadNotes) throws -> Void
    ) throws {
        let origin = try UploadOrigin(rules)
        let notes = UploadNotes()
        let fixture = try Fixture { $0.marker = notes }
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", bytes)
        try body(origin, fixture, notes)
    }

    private static func source(_ mode: JobSpec.ResumableUploads = .auto, _ method: String = "PUT")
        -> (inout Draft) -> Void
    {
        { draft in
            draft.spec.source = .path("source")
            draft.spec.request.method = method
            draft.spec.request.resumableUploads = mode
        }
    }

    private static func expectWhole(_ result: AttemptResult?, _ origin: UploadOrigin) {
        #expect(result?.success?.sha256 == sha256(bytes) && result?.success?.size == Int64(bytes.count))
        #expect(result?.bytesSent == Int64(bytes.count))
        #expect(origin.completed == [bytes])
    }

    @Test(
        "an upload continues at the offset that the server tells, in one attempt", arguments: ["PUT", "POST"])
    func cuts(method: String) throws {
        for cut in [0, 1, 65_536, 1_500_000, 2_999_999] {
            var rules = UploadOrigin.Rules()
            rules.fates = [.cut(cut)]
            try Self.with(rules) { origin, fixture, notes in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(.auto, method))
                Self.expectWhole(result, origin)
                #expect(result?.response?.status == 201)
                #expect(origin.methods == [method, "HEAD", "PATCH"])
                #expect(origin.requests.last?.header("upload-offset") == String(cut))
                #expect(origin.requests[0].header("upload-length") == "3000000")
                #expect(origin.requests[0].header("upload-complete") == "?1")
                #expect(notes.all.count == 1 && notes.next != nil)
                #expect(result?.trace?.transactions.count == 3)
                #expect(fixture.sink.resumed.wait(seconds: 0).isEmpty)
            }
        }
    }

    @Test("another node continues the upload of an attempt that has ended")
    func otherNode() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(1_000_000)] + [UploadOrigin.Fate](repeating: .cut(10), count: 9)
        try Self.with(rules) { origin, fixture, notes in
            let first = try #require(fixture.run(.upload, origin.url + "/target", Self.source(.auto, "POST")))
            #expect(first.failure?.isRetryable == true, "\(first.outcome)")
            // The second time, hardly a byte has arrived since the first one.
            #expect(origin.methods.prefix(5) == ["POST", "HEAD", "PATCH", "HEAD", "PATCH"])
            #expect(origin.methods.filter { $0 == "HEAD" }.count == 2)
            origin.set(fates: [])
            let offset = try #require(origin.unfinished.first)
            let other = try Fixture(at: fixture.directory) { $0.marker = notes }
            defer { other.engine.stop() }
            other.engine.begin([
                other.attempt(
                    .upload, origin.url + "/target", job: first.attempt.job, number: 2, next: notes.next,
                    Self.source(.auto, "POST"))
            ])
            let second = other.sink.arrived.wait().first
            Self.expectWhole(second, origin)
            #expect(other.sink.resumed.wait() == [offset])
            #expect(origin.methods.suffix(2) == ["HEAD", "PATCH"])
            #expect(notes.markCount == 1, "no request is sent that must not be sent twice")
        }
    }

    @Test("a suspended upload continues with the next attempt")
    func suspension() throws {
        let began = Signal<Void>()
        let goOn = Signal<Void>()
        let received = Mutex<[UInt8]>([])
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                switch request.method {
                case "PUT":
                    connection.send(
                        "HTTP/1.1 104 x\r\nUpload-Draft-Interop-Version: 6\r\nLocation: /u\r\n\r\n"
                            + "HTTP/1.1 100 Continue\r\n\r\n")
                    received.withLock { $0 = connection.read(100_000) }
                    began.fire(())
                    _ = goOn.wait()
                    return
                case "HEAD":
                    connection.send("HTTP/1.1 204 x\r\nUpload-Offset: 100000\r\nUpload-Complete: ?0\r\n\r\n")
                default:
                    if request.header("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
                    let rest = connection.readBody(of: request)
                    received.withLock { $0 += rest }
                    connection.send("HTTP/1.1 200 x\r\nUpload-Complete: ?1\r\nContent-Length: 0\r\n\r\n")
                }
            }
        }
        let notes = UploadNotes()
        let fixture = try Fixture { $0.marker = notes }
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", Self.bytes)
        let attempt = fixture.attempt(.upload, origin.url, Self.source())
        fixture.engine.begin([attempt])
        #expect(!began.wait().isEmpty)
        fixture.engine.stop(attempt.job, .suspend)
        #expect(fixture.sink.arrived.wait().first?.isSuspended == true)
        goOn.fire(())
        fixture.engine.begin([
            fixture.attempt(
                .upload, origin.url, job: attempt.job, number: 2, next: notes.next, Self.source())
        ])
        let second = fixture.sink.arrived.wait().last
        #expect(second?.success?.sha256 == sha256(Self.bytes), "\(String(describing: second?.outcome))")
        #expect(received.withLock { $0 } == Self.bytes)
        #expect(fixture.sink.resumed.wait() == [100_000])
    }

    @Test("another job continues the upload of one that was cancelled")
    func resumeData() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(1_000_000)] + [UploadOrigin.Fate](repeating: .cut(10), count: 9)
        rules.versions = ["6", "8"]
        try Self.with(rules) { origin, fixture, _ in
            let first = try #require(fixture.run(.upload, origin.url + "/target", Self.source()))
            let upload = try #require(first.upload)
            #expect(first.leavesBytes && first.failure != nil)
            origin.set(fates: [])
            let offset = try #require(origin.unfinished.first)
            let point = ResumePoint(
                tenant: "tenant", job: first.attempt.job, url: origin.url + "/target", location: .managedFile,
                upload: upload)
            #expect(ResumePoint(json: point.encode()) == point)
            let second = fixture.run(.upload, origin.url + "/target") { draft in
                Self.source()(&draft)
                draft.secrets.resumePoint = point
            }
            Self.expectWhole(second, origin)
            #expect(second?.upload == nil && fixture.sink.resumed.wait() == [offset])
        }
    }

    @Test("an upload whose last response is lost is complete")
    func lostResponse() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.silent]
        try Self.with(rules) { origin, fixture, _ in
            let result = fixture.run(.upload, origin.url + "/target", Self.source())
            Self.expectWhole(result, origin)
            #expect(origin.methods == ["PUT", "HEAD"])
        }
    }

    @Test("a server that has more bytes than were sent has another upload: it is removed, and created again")
    func moreThanSent() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(100)]
        rules.answers = [
            ("HEAD", "HTTP/1.1 204 x\r\nUpload-Offset: 3000001\r\nUpload-Complete: ?0\r\n\r\n")
        ]
        try Self.with(rules) { origin, fixture, notes in
            let result = fixture.run(.upload, origin.url + "/target", Self.source())
            Self.expectWhole(result, origin)
            #expect(origin.methods == ["PUT", "HEAD", "DELETE", "PUT"])
            #expect(notes.all.map { $0?.url } == [origin.url + "/u/1", nil, origin.url + "/u/2"])
        }
    }

    @Test("an upload that the server has lost begins again, unless it may have been complete and is no PUT")
    func lost() throws {
        try Self.with { origin, fixture, notes in
            origin.set(fates: [.cut(100)])
            let upload = ResumableUpload(
                dialect: .ietf, target: "https://example.org/a", url: origin.url + "/u/9",
                keepsCredentials: true,
                byteCount: Int64(Self.bytes.count), body: "x")
            // Another body: the server is not asked.
            fixture.engine.begin([
                fixture.attempt(
                    .upload, origin.url + "/target", number: 2, next: .upload(upload), Self.source(.never))
            ])
            #expect(fixture.sink.arrived.wait().first?.failure?.isRetryable == true)
            #expect(fixture.sink.resumed.wait() == [0])
            #expect(origin.requests[0].header("upload-complete") == nil)
        }
        for (method, isWhole) in [("PUT", true), ("POST", false), ("POST", true)] {
            var rules = UploadOrigin.Rules()
            rules.fates = [isWhole ? .silent : .cut(0)]
            rules.answers = [("HEAD", "HTTP/1.1 404 x\r\n\r\n")]
            // The head of a response to HEAD has no body.
            try Self.with(rules) { origin, fixture, notes in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(.auto, method))
                if method == "POST", isWhole {
                    #expect(result?.failure?.code == .unacceptableStatus)
                    #expect(result?.failure?.isRetryable == false && origin.methods == ["POST", "HEAD"])
                } else {
                    #expect(result?.success?.sha256 == sha256(Self.bytes))
                    #expect(origin.methods == [method, "HEAD", method])
                    #expect(notes.markCount == (method == "POST" ? 2 : 0), "the second POST is noted as well")
                }
            }
        }
    }

    @Test("a redirect, a conflict and a limit are followed")
    func appendAnswers() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(1_000_000)]
        rules.appendByteCountMax = 700_000
        rules.answers = [
            ("HEAD", "HTTP/1.1 204 x\r\nUpload-Offset: 999\r\nUpload-Complete: ?0\r\n\r\n"),
            ("PATCH", "HTTP/1.1 307 x\r\nLocation: /u/1?again\r\nContent-Length: 0\r\n\r\n"),
            (
                "PATCH",
                "HTTP/1.1 409 x\r\nUpload-Offset: 1000000\r\nUpload-Complete: ?0\r\nContent-Length: 0\r\n\r\n"
            ),
        ]
        try Self.with(rules) { origin, fixture, _ in
            let result = fixture.run(.upload, origin.url + "/target", Self.source())
            Self.expectWhole(result, origin)
            #expect(
                origin.methods == ["PUT", "HEAD", "PATCH", "PATCH", "PATCH", "PATCH", "PATCH", "PATCH"])
            #expect(
                origin.requests[3].path == "/u/1?again" && origin.requests[3].header("upload-offset") == "999"
            )
            let offsets = origin.requests.suffix(4).map { $0.header("upload-offset") }
            #expect(offsets == ["1000000", "1000000", "1700000", "2400000"])
            #expect(
                origin.requests.suffix(3).map { $0.header("upload-complete") } == ["?0", "?0", "?1"])
        }
    }

    @Test("a target that rejects the whole body ends the upload, and is not asked about it again")
    func rejected() throws {
        var rules = UploadOrigin.Rules()
        let answer = "HTTP/1.1 503 x\r\nUpload-Complete: ?1\r\nContent-Length: 0\r\n\r\n"
        rules.fates = [.cut(1_000_000), .answer(answer)]
        for method in ["PUT", "POST"] {
            try Self.with(rules) { origin, fixture, notes in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(.auto, method))
                #expect(result?.failure?.code == .unacceptableStatus)
                #expect(result?.failure?.isRetryable == (method == "PUT"))
                #expect(notes.all.count == 2 && notes.next == nil)
            }
        }
    }

    @Test("a source that has changed since is sent from its first byte")
    func changedSource() throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(1_000_000)] + [UploadOrigin.Fate](repeating: .cut(10), count: 9)
        rules.versions = ["6", "8"]
        try Self.with(rules) { origin, fixture, notes in
            let first = try #require(fixture.run(.upload, origin.url + "/target", Self.source()))
            #expect(first.failure != nil && notes.next != nil)
            origin.set(fates: [])
            let changed = patternBytes(Self.bytes.count, seed: 7)
            try writeFile(fixture.root + "/source", changed)
            fixture.engine.begin([
                fixture.attempt(
                    .upload, origin.url + "/target", job: first.attempt.job, number: 2, next: notes.next,
                    Self.source())
            ])
            #expect(fixture.sink.arrived.wait().last?.success?.sha256 == sha256(changed))
            #expect(fixture.sink.resumed.wait() == [0] && origin.completed == [changed])
            #expect(origin.requests.last?.header("upload-draft-interop-version") == "8")
        }
    }
}
