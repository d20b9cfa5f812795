import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// The choice of a protocol for an upload: what is sent, what a server must speak, and which addresses it may
/// name.
@Suite(.serialized, .onOwnThread) struct UploadProtocolTests {
    private static let bytes = patternBytes(1_200_000)

    private static func with(
        _ rules: UploadOrigin.Rules = UploadOrigin.Rules(), _ body: (UploadOrigin, Fixture) throws -> Void
    ) throws {
        let origin = try UploadOrigin(rules)
        let fixture = try Fixture { $0.marker = UploadNotes() }
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", bytes)
        try body(origin, fixture)
    }

    private static func source(
        _ mode: JobSpec.ResumableUploads, _ method: String,
        _ change: @escaping (inout Draft) -> Void = { _ in }
    ) -> (inout Draft) -> Void {
        { draft in
            draft.spec.source = .path("source")
            draft.spec.request.method = method
            draft.spec.request.resumableUploads = mode
            change(&draft)
        }
    }

    @Test("the draft that a job demands is asked for first, and the upload created without its body")
    func demandedDraft() throws {
        for limit in ["min-size=0", "max-append-size=500000"] {
            var rules = UploadOrigin.Rules()
            rules.limit = limit
            // No 104 is needed.
            rules.versions = []
            try Self.with(rules) { origin, fixture in
                let result = fixture.run(
                    .upload, origin.url + "/target",
                    Self.source(.ietf, "POST") {
                        $0.spec.request.headers = [
                            .init("Content-Type", "text/x-own"), .init("If-Match", "*"),
                        ]
                        $0.spec.request.idempotencyKey = "key"
                    })
                #expect(result?.success?.sha256 == sha256(Self.bytes))
                let count = limit == "min-size=0" ? 1 : 3
                #expect(
                    origin.methods == ["OPTIONS", "POST"] + [String](repeating: "PATCH", count: count))
                #expect(origin.completed == [Self.bytes])
                let types = origin.requests.map { $0.header("content-type") }
                #expect(
                    types == [nil, "text/x-own"]
                        + [String?](repeating: "application/partial-upload", count: count))
                #expect(origin.requests.map { $0.header("if-match") }.compactMap(\.self) == ["*"])
                #expect(origin.requests.map { $0.header("idempotency-key") }.compactMap(\.self) == ["key"])
                #expect(origin.requests[1].header("upload-complete") == "?0")
                #expect(origin.requests[1].header("content-length") == "0")
            }
        }
    }

    @Test("tus creates the upload with its name and type, and continues it after a break")
    func tus() throws {
        for fates in [[], [UploadOrigin.Fate.cut(200_000)], [.silent]] {
            var rules = UploadOrigin.Rules()
            (rules.speaksTus, rules.fates) = (true, fates)
            try Self.with(rules) { origin, fixture in
                let result = fixture.run(
                    .upload, origin.url + "/files",
                    Self.source(.tus, "POST") {
                        $0.spec.request.headers = [.init("Content-Type", "image/png")]
                    })
                #expect(result?.success?.sha256 == sha256(Self.bytes))
                #expect(result?.bytesSent == Int64(Self.bytes.count))
                let methods: [String] =
                    switch fates.first {
                    case nil: ["POST", "PATCH"]
                    case .silent: ["POST", "PATCH", "HEAD"]
                    default: ["POST", "PATCH", "HEAD", "PATCH"]
                    }
                #expect(origin.methods == methods)
                #expect(
                    origin.requests[0].header("upload-metadata") == "filename c291cmNl,filetype aW1hZ2UvcG5n")
                #expect(origin.requests.allSatisfy { $0.header("tus-resumable") == "1.0.0" })
            }
        }
    }

    @Test("a server that does not speak the protocol that the job demands is an error at once")
    func notSpoken() throws {
        for (mode, methods) in [(JobSpec.ResumableUploads.tus, ["POST"]), (.ietf, ["OPTIONS"])] {
            var rules = UploadOrigin.Rules()
            rules.answers = [("OPTIONS", "HTTP/1.1 405 x\r\nContent-Length: 0\r\n\r\n")]
            try Self.with(rules) { origin, fixture in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(mode, "POST"))
                #expect(result?.failure?.code == .responseInvalid && result?.failure?.isRetryable == false)
                #expect(origin.methods == methods)
            }
        }
    }

    @Test("only a large body of a suitable method says that it may be resumed")
    func unchanged() throws {
        let small: @Sendable (inout Draft) -> Void = {
            $0.payload = [1, 2, 3]
            $0.spec.source = .inline(.init(form: .base64, byteCount: 3))
        }
        let own: @Sendable (inout Draft) -> Void = {
            $0.spec.request.headers = [.init("Upload-Offset", "0")]
        }
        let rules: [(JobSpec.ResumableUploads, String, @Sendable (inout Draft) -> Void)] = [
            (.auto, "PUT", small), (.auto, "PUT", own), (.auto, "REPORT", { _ in }),
            (.never, "PUT", { _ in }),
        ]
        for (mode, method, change) in rules {
            try Self.with { origin, fixture in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(mode, method, change))
                #expect(result?.success != nil && origin.methods == [method])
                for name in ["upload-complete", "upload-draft-interop-version", "tus-resumable"] {
                    #expect(origin.requests[0].header(name) == nil)
                }
            }
        }
    }

    @Test("a server without the protocol gets an ordinary upload, which begins again after a break")
    func ordinary() throws {
        var rules = UploadOrigin.Rules()
        rules.versions = ["9"]
        rules.fates = [.cut(500_000)]
        try Self.with(rules) { origin, fixture in
            let first = fixture.run(.upload, origin.url + "/target", Self.source(.auto, "PUT"))
            #expect(first?.failure?.code == .connectionLost && first?.failure?.isRetryable == true)
            #expect(fixture.run(.upload, origin.url + "/target", Self.source(.auto, "PUT"))?.success != nil)
            #expect(origin.methods == ["PUT", "PUT"])
        }
    }

    @Test("an address that may not be reached, or a version that was not announced, makes nothing resumable")
    func refusedAddress() throws {
        for location in ["http://10.0.0.1/u", "ftp://127.0.0.1/u", "http://["] {
            var rules = UploadOrigin.Rules()
            rules.location = { _ in location }
            rules.fates = [.cut(500_000)]
            try Self.with(rules) { origin, fixture in
                let result = fixture.run(.upload, origin.url + "/target", Self.source(.auto, "POST"))
                #expect(result?.failure?.isRetryable == false && origin.methods == ["POST"])
            }
        }
        var rules = UploadOrigin.Rules()
        rules.location = { _ in "http://10.0.0.1/u" }
        try Self.with(rules) { origin, fixture in
            let result = fixture.run(.upload, origin.url + "/target", Self.source(.ietf, "POST"))
            #expect(result?.failure?.code == .blockedAddress)
        }
    }

    @Test("credentials stay with their origin, unless the job sends them to others")
    func credentials() throws {
        for sends in [false, true] {
            let other = try UploadOrigin()
            defer { other.stop() }
            var rules = UploadOrigin.Rules()
            let place = other.url
            rules.location = { place + $0 }
            rules.fates = [.cut(500_000)]
            try Self.with(rules) { origin, fixture in
                // The other server does not have the upload, and the first one gets it again.
                let result = fixture.run(
                    .upload, origin.url + "/target",
                    Self.source(.auto, "PUT") {
                        $0.spec.redirects.sendsCredentialsAcrossOrigins = sends
                        $0.spec.request.headers = [.init("Authorization", "")]
                        $0.secrets.headers = [.init("Authorization", "Bearer secret")]
                    })
                #expect(result?.success != nil && other.methods == ["HEAD"])
                #expect(other.requests[0].header("authorization") == (sends ? "Bearer secret" : nil))
                #expect(origin.methods == ["PUT", "PUT"])
                #expect(origin.requests[1].header("authorization") == "Bearer secret")
            }
        }
    }

    @Test(
        "a form continues within any of its parts, with the same boundary",
        arguments: [10, 200_000, 1_200_150])
    func form(cut: Int) throws {
        var rules = UploadOrigin.Rules()
        rules.fates = [.cut(cut)] + [UploadOrigin.Fate](repeating: .cut(0), count: 9)
        rules.versions = ["6", "8"]
        let origin = try UploadOrigin(rules)
        let notes = UploadNotes()
        let fixture = try Fixture { $0.marker = notes }
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", Self.bytes)
        let change: (inout Draft) -> Void = { draft in
            draft.spec.request.method = "POST"
            draft.payload = Array("first".utf8)
            draft.spec.source = .form([
                .init(name: "a", source: .inline(.init(form: .text, byteCount: 5))),
                .init(name: "b", source: .path("source")),
            ])
        }
        let first = try #require(fixture.run(.upload, origin.url + "/target", change))
        #expect(first.failure?.isRetryable == true)
        origin.set(fates: [])
        fixture.engine.begin([
            fixture.attempt(
                .upload, origin.url + "/target", job: first.attempt.job, number: 2, next: notes.next, change)
        ])
        let second = fixture.sink.arrived.wait().last
        #expect(second?.success?.sha256 == sha256(Self.bytes))
        let whole = try #require(origin.completed.first)
        let type = try #require(origin.requests[0].header("content-type"))
        let boundary = try #require(type.split(separator: "=").last.map(String.init))
        #expect(whole.starts(with: Array("--\(boundary)\r\n".utf8)))
        #expect(whole.suffix(boundary.utf8.count + 6).elementsEqual("--\(boundary)--\r\n".utf8))
        #expect(whole.count == Int(origin.requests[0].header("upload-length") ?? ""))
        #expect(fixture.sink.resumed.wait() == [Int64(cut)])
    }
}
