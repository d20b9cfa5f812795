import FerryCore
import Testing

func decode(_ text: String) throws -> JobRequest {
    try JobRequest(JSONView(parsing: Array(text.utf8))) { _ in nil }
}

func errors(_ text: String, at prefix: String = "#") -> [FieldError] {
    do {
        _ = try JobRequest(try JSONView(parsing: Array(text.utf8)), at: prefix) {
            $0.host == "10.0.0.1" ? "This address may not be reached." : nil
        }
        return []
    } catch {
        return (error as? InvalidFields)?.errors ?? []
    }
}

@Suite("Job bodies")
struct JobSpecTests {
    @Test("a job needs kind and url only; the rest has default values")
    func defaults() throws {
        let job = try decode(#"{"kind":"download","request":{"url":"HTTPS://Example.org/a"}}"#)
        #expect(job.spec.request.method == "GET")
        #expect(job.spec.session == "default")
        #expect(
            job.spec.retry == JobSpec.RetryRules() && job.spec.redirects == JobSpec.Redirects()
                && job.spec.schedule == JobSpec.Schedule())
        #expect(job.spec.request.webURL.origin == "https://example.org:443")
        #expect(job.payload == nil && job.secrets.isEmpty)
    }

    @Test("a changed copy of a spec leaves the others as they are")
    func copies() throws {
        let first = try decode(#"{"kind":"download","request":{"url":"http://a.example/"}}"#).spec
        var second = first
        #expect(second == first)
        second.request.headers.append(JobSpec.Pair("Accept", "*/*"))
        second.description = "second"
        second.bytesPerSecondMax = 7
        #expect(first.request.headers.isEmpty && first.description == nil && first.bytesPerSecondMax == nil)
        #expect(second != first && second.request.headers.count == 1 && second.bytesPerSecondMax == 7)
        var third = second
        third.description = nil
        #expect(second.description == "second" && third.request == second.request && third != second)
        var standard = JobSpec()
        standard.kind = .upload
        #expect(JobSpec().kind == .download && JobSpec() == JobSpec() && standard != JobSpec())
    }

    @Test("an upload uses PUT and sends its text")
    func upload() throws {
        let job = try decode(
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"text":"é"}}"#)
        #expect(job.spec.request.method == "PUT")
        #expect(job.payload == [0xC3, 0xA9])
        #expect(job.spec.source == .inline(JobSpec.Body(form: .text, byteCount: 2)))
    }

    @Test(
        "the body of a data job is converted to bytes",
        arguments: [
            (#"{"json":{"a":[1,2.5,null]}}"#, #"{"a":[1,2.5,null]}"#),
            (
                #"{"json":[18446744073709551615,0.1234567890123456789,1.0]}"#,
                "[18446744073709551615,0.1234567890123456789,1.0]"
            ),
            (#"{"form":{"a b":"c&d","e":"é"}}"#, "a+b=c%26d&e=%C3%A9"),
            (#"{"form":{"\u00e9":"1","e\u0301":"2"}}"#, "%C3%A9=1&e%CC%81=2"),
            (#"{"text":"x"}"#, "x"), (#"{"base64":"AAEC"}"#, "\u{0}\u{1}\u{2}"), (#"{"json":null}"#, "null"),
        ])
    func bodies(_ body: String, _ bytes: String) throws {
        let job = try decode(
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","body":\#(body)}}"#)
        #expect(job.payload == Array(bytes.utf8))
        #expect(job.spec.request.body?.byteCount == bytes.utf8.count)
    }

    @Test("a digest that this node cannot compute is rejected")
    func missingDigest() throws {
        var node = NodeAbilities()
        node.missingDigests = ["md5"]
        let text =
            #"{"kind":"data","request":{"url":"http://a.example/"},"integrity":"#
            + #"{"md5":"d41d8cd98f00b204e9800998ecf8427e","crc32c":"00000000"}}"#
        do {
            _ = try JobRequest(JSONView(parsing: Array(text.utf8)), node: node) { _ in nil }
            Issue.record("it was accepted")
        } catch let error as InvalidFields {
            #expect(error.errors.map { "\($0.pointer) \($0.code)" } == ["#/integrity/md5 not_supported"])
        }
    }

    @Test("credentials are stored apart from the spec and never shown")
    func secrets() throws {
        let job = try decode(
            #"""
            {"kind":"data","request":{"url":"http://a.example/",
            "headers":{"authorization":"Bearer hush-1","X-My-Token":"hush-2",
             "Accept":"*/*"}},"webhook":{"url":"http://b.example/",
            "secret":"whsec_aHVzaGh1c2hodXNoaHVzaGh1c2hodXNo"}}
            """#)
        #expect(
            job.secrets.headers == [.init("authorization", "Bearer hush-1"), .init("X-My-Token", "hush-2")])
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(!shown.contains("hush") && !shown.contains("aHVzaG"))
        #expect(
            shown.contains(
                #""headers":{"authorization":{"set":true},"X-My-Token":{"set":true},"Accept":"*/*"}"#))
        #expect(shown.contains(#""secret":{"set":true}"#))
        #expect(try JobSecrets(json: job.secrets.encode()) == job.secrets)
    }

    @Test("a stored spec is read back unchanged", arguments: fullJobs)
    func roundTrip(_ text: String) throws {
        let spec = try decode(text).spec
        #expect(try JobSpec(storedJSON: spec.encode()) == spec)
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        _ = try JSON.parse(spec.encode())
    }

    @Test("a damaged row throws and never crashes", arguments: UInt64(0)..<50)
    func damage(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var stored = try decode(fullJobs[Int(seed) % fullJobs.count]).spec.encode()
        for _ in 0..<30 {
            stored[Int.random(in: 0..<stored.count, using: &random)] = UInt8.random(
                in: 32..<127, using: &random)
            _ = try? JobSpec(storedJSON: stored)
            _ = try? JobSecrets(json: stored)
        }
    }

    @Test("the shown fields of a plain job are accepted again")
    func shownIsAccepted() throws {
        let first = try decode(
            #"{"kind":"download","request":{"url":"http://a.example/x?y"},"destination":{"path":"a/b"}}"#)
        let again = try decode(String(decoding: first.spec.encode(), as: UTF8.self))
        #expect(again.spec == first.spec)
    }

    @Test("all errors are reported at once with their pointers")
    func everything() {
        let errors = errors(
            #"{"kind":"upload","sesion":"x","request":{"url":"ftp://a","method":"get"},"#
                + #""schedule":{"priority":2,"x/y~":1},"retry":7}"#,
            at: "#/jobs/17")
        #expect(
            errors.map(\.pointer) == [
                "#/jobs/17/request/url", "#/jobs/17/request/method", "#/jobs/17/schedule/priority",
                "#/jobs/17/schedule/x~1y~0", "#/jobs/17/retry", "#/jobs/17/source", "#/jobs/17/sesion",
            ])
    }

    @Test("the number of errors is limited")
    func bounded() {
        let members = (0..<5_000).map { "\"x\($0)\":1" }.joined(separator: ",")
        #expect(errors("{\(members)}").count == ValidationErrors.countMax)
    }

    @Test("accept_encoding excludes the header field")
    func codings() {
        let download = { (request: String) in
            errors(#"{"kind":"download","request":{"url":"http://a.example/",\#(request)}}"#).map(
                \.pointer)
        }
        #expect(download(#""accept_encoding":"gzip""#).isEmpty)
        #expect(download(#""headers":{"accept-encoding":"x"},"accept_encoding":"identity""#).isEmpty)
        #expect(
            download(#""headers":{"accept-encoding":"x"},"accept_encoding":"br""#)
                == ["#/request/accept_encoding"])
        #expect(
            errors(
                #"{"kind":"upload","request":{"url":"http://a.example/","accept_encoding":"any"},"#
                    + #""source":{"text":""}}"#
            ).isEmpty, "the response is kept")
    }

    @Test("an initial delay above the default maximum raises it; one above a given maximum is rejected")
    func delays() throws {
        let job = try decode(
            #"{"kind":"data","request":{"url":"http://a.example/"},"retry":{"initial_delay":600}}"#)
        #expect(job.spec.retry.delayMax == 600)
        #expect(
            errors(
                #"{"kind":"data","request":{"url":"http://a.example/"},"retry":{"initial_delay":9,"#
                    + #""max_delay":1}}"#
            ).map(\.code) == ["invalid_combination"])
    }
}

let fullJobs = [
    #"""
    {"kind":"download","session":"s.1","description":"\"é\n","metadata":{"a":"b","c/d":""},
     "request":{"url":"https://a.example:8443/x","headers":{"Accept":"text/csv","Cookie":"a=b"},
     "timeout_for_request":12.5,"accept_encoding":"any"},
     "destination":{"path":"reports/a.csv","if_exists":"rename"},
     "integrity":{"size":5,"sha256":"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"},
     "redirects":{"policy":"reject","max":3,"send_credentials_across_origins":true},
     "accept":{"status":["2xx","404"],"content_type":["image/*"],"max_bytes":1000},
     "schedule":{"priority":0.9,"earliest_begin_at":"2026-11-21T22:00:00+01:00",
     "timeout_for_resource":60,"expected_bytes_to_receive":9},
     "network":{"max_bytes_per_second":1000},
     "retry":{"max_attempts":3,"initial_delay":0.5,"multiplier":1.5,"max_delay":10,"non_idempotent":true,
       "resume_without_validator":true},
     "webhook":{"url":"https://b.example/hook","events":["job.failed"]}}
    """#,
    #"{"kind":"upload","request":{"url":"http://a.example/","method":"POST"},"source":{"path":"in/é.bin"}}"#,
    #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"base64":""},"#
        + #""integrity":{"md5":"d41d8cd98f00b204e9800998ecf8427e","crc32c":"00000000","#
        + #""adler32":"00000001"}}"#,
    #"{"kind":"download","request":{"url":"http://a.example/"}}"#,
    #"{"kind":"download","request":{"url":"http://a.example/"},"destination":{"path":"in/box/"}}"#,
    #"{"kind":"upload","request":{"url":"http://a.example/"},"#
        + #""source":{"job":"job_01hzzzzzzzzzzzzzzzzzzzzzzz"}}"#,
    #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"path":"a/é.bin","form":"#
        + #"{"field":"f","fields":{"a":"1","\"é":""}}}}"#,
    #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"text":"abc","form":{}}}"#,
    #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","body":{"multipart":["#
        + #"{"name":"a","text":"b"},{"name":"c","base64":"AAEC","file_name":"x"},"#
        + #"{"name":"d","path":"in/a.png","content_type":"image/png; x=1"},"#
        + #"{"name":"e","job":"job_01hzzzzzzzzzzzzzzzzzzzzzzz"}]}}}"#,
    #"{"kind":"download","request":{"url":"http://a.example/"},"segments":64,"#
        + #""mirrors":["https://b.example/x?y","http://c.example/"]}"#,
    #"{"kind":"data","request":{"url":"http://[2001:db8::1]/","method":"REPORT","body":{"form":{"a":"b"}}}}"#,
]
