import FerryCore
import Testing

private func attempt(_ job: JobRequest) -> Attempt {
    Attempt(
        job: JobID(high: 1, low: 2), number: 1, failedAttemptCount: 0, revision: 1, tenant: "tenant",
        createdAt: Timestamp(microseconds: 0), startedAt: Timestamp(microseconds: 0), spec: job.spec,
        storedSpec: StoredSpec(job.spec, json: []), secrets: job.secrets, payload: nil,
        origin: job.spec.request.webURL.origin,
        scopePath: RequestScope.path(of: job.spec.request.webURL, credentials: nil), traceparent: nil,
        retryOf: nil, isCancelRequested: false)
}

/// `source.url` of uploads and `destination.url` of downloads.
@Suite struct OtherServerTests {
    private static let other =
        #""url":"https://other.example/a?sig=s1","headers":{"X-Api-Key":"k1","X-Own":"v1"},"#
        + #""auth":{"type":"basic","user":"u","password":"p1"}"#

    private static let upload =
        #"{"kind":"upload","source":{\#(other)},"request":{"url":"https://own.example/b","#
        + #""headers":{"Authorization":"Bearer t1"},"tls":{"pins":["#
        + #""sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],"minimum_version":"1.3"}}}"#
    private static let download =
        #"{"kind":"download","destination":{\#(other),"method":"POST","if_exists":"fail"},"#
        + #""request":{"url":"https://own.example/b","headers":{"Authorization":"Bearer t1"},"#
        + #""idempotency_key":"job"}}"#

    @Test(
        "the secrets of the other server are stored encrypted, and never shown",
        arguments: [upload, download])
    func secrets(_ text: String) throws {
        let job = try decode(text)
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(!shown.contains("k1") && !shown.contains("p1") && shown.contains("v1"))
        #expect(job.secrets.otherServer?.password == "p1")
        #expect(job.secrets.otherServer?.headers == [JobSpec.Pair("X-Api-Key", "k1")])
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()) == job.spec)
        #expect(try JobSecrets(json: job.secrets.encode()) == job.secrets)
        let sealed = job.spec.encodeStored(.inverted)
        let plain = String(decoding: sealed, as: UTF8.self)
        #expect(!plain.contains("s1") && !plain.contains("v1"))
        #expect(try JobSpec(storedJSON: sealed, opening: .inverted) == job.spec)
    }

    @Test("a patch keeps the secrets of the other server", arguments: [upload, download])
    func patch(_ text: String) throws {
        let job = try decode(text)
        let patch = #"{"request":{"headers":{"a":"b"}}}"#
        let patched = try job.merging(JSONView(parsing: Array(patch.utf8)), refusal: { _ in nil })
        #expect(patched.secrets.otherServer == job.secrets.otherServer)
    }

    @Test("both forms of a copy are a download and an upload")
    func ends() throws {
        for text in [Self.upload, Self.download] {
            let job = try decode(text)
            let (source, target) = try #require(attempt(job).copy)
            #expect(source.spec.kind == .download && target.spec.kind == .upload)
            let (own, other) = job.spec.kind == .upload ? (target, source) : (source, target)
            #expect(own.spec == job.spec && own.secrets == job.secrets)
            #expect(other.spec.request.url == "https://other.example/a?sig=s1")
            #expect(other.origin == "https://other.example:443")
            #expect(other.secrets.headers == [JobSpec.Pair("X-Api-Key", "k1")])
            #expect(other.secrets.connection?.password == "p1")
            #expect(other.spec.request.connection?.authentication?.user == "u")
            #expect(other.spec.request.connection?.tls?.pins ?? [] == [])
            #expect(other.spec.otherServer == nil)
        }
        let target = try #require(attempt(decode(Self.download)).copy).target
        #expect(target.spec.request.method == "POST" && target.spec.request.idempotencyKey == "job")
        #expect(target.spec.request.headers.contains(JobSpec.Pair("If-None-Match", "*")))
        #expect(
            try attempt(decode(#"{"kind":"download","request":{"url":"http://a.example/"}}"#)).copy == nil)
    }

    private static func object(_ name: String) -> String {
        #"{"bucket":"bkt","key":"\#(name)","endpoint":"https://\#(name).example","credential":{"#
            + #""access_key_id":"AK\#(name)","secret_access_key":"secret-\#(name)","#
            + #""session_token":"t-\#(name)"}}"#
    }

    @Test("each end of a copy between stores has its own address and key", arguments: ["upload", "download"])
    func stores(kind: String) throws {
        let job = try decode(
            #"{"kind":"\#(kind)","source":{"s3":\#(Self.object("from"))},"#
                + #""destination":{"s3":\#(Self.object("to")),"if_exists":"fail"}}"#)
        let (source, target) = try #require(attempt(job).copy)
        for (end, name, kind, method) in [
            (source, "from", JobKind.download, "GET"), (target, "to", .upload, "PUT"),
        ] {
            #expect(end.spec.kind == kind && end.spec.request.method == method)
            #expect(end.spec.request.url == "https://\(name).example/bkt/\(name)")
            #expect(end.spec.storeObject?.credential?.accessKeyID == "AK\(name)")
            #expect(end.secrets.connection?.secretAccessKey == "secret-\(name)")
            #expect(end.secrets.connection?.sessionToken == "t-\(name)")
        }
        #expect(target.spec.isSentToStore && target.spec.destination?.ifExists == .fail)
        #expect(source.isEndOfCopy && target.isEndOfCopy && source.isOtherEnd == (kind == "upload"))
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(!shown.contains("secret-") && !shown.contains("t-from") && !shown.contains("t-to"))
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()) == job.spec)
        #expect(try JobSecrets(json: job.secrets.encode()) == job.secrets)
    }

    @Test("a copy between a server and a store has the fields of each")
    func serverAndStore() throws {
        let down = try decode(
            #"{"kind":"download","request":{"url":"https://own.example/b","headers":{"X-Own":"v"}},"#
                + #""destination":{"s3":\#(Self.object("to"))}}"#)
        let (source, target) = try #require(attempt(down).copy)
        #expect(source.spec == down.spec && source.secrets.connection?.secretAccessKey == nil)
        #expect(target.spec.request.headers == [] && target.spec.isSentToStore)
        #expect(target.secrets.connection?.secretAccessKey == "secret-to")
        #expect(down.spec.storeObject == nil && !down.spec.isSentToStore)

        let up = try decode(
            #"{"kind":"upload","source":{\#(Self.other)},"destination":{"s3":\#(Self.object("to"))}}"#)
        let ends = try #require(attempt(up).copy)
        #expect(
            ends.target.spec == up.spec && ends.source.spec.request.url == "https://other.example/a?sig=s1")
        #expect(ends.source.secrets.headers == [JobSpec.Pair("X-Api-Key", "k1")])
        #expect(ends.source.secrets.connection?.secretAccessKey == nil)
        #expect(ends.target.secrets.connection?.secretAccessKey == "secret-to")
    }

    @Test("a job with a destination by POST is no job that may be sent twice")
    func repetition() throws {
        func isRepeatable(_ method: String, _ rest: String = "") throws -> Bool {
            try decode(
                #"{"kind":"download","request":{"url":"http://a.example/"\#(rest)},"#
                    + #""destination":{"url":"http://b.example/","method":"\#(method)"}}"#
            ).spec.isRequestRepeatable
        }
        #expect(try isRepeatable("PUT"))
        #expect(try !isRepeatable("POST"))
        #expect(try isRepeatable("POST", #","idempotency_key":"job""#))
    }
}
