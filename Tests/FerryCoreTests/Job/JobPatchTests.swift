import FerryCore
import Testing

private func json(_ text: String) throws -> JSONView { try JSONView(parsing: Array(text.utf8)) }

@Suite("Merge patches")
struct JobPatchTests {
    @Test(
        "the examples of RFC 7396 are merged",
        arguments: [
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b"}"#, #"{"a":null}"#, "{}"), (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
            (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
            (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#), (#"{"a":"foo"}"#, "null", "null"),
            (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
            ("[1,2]", #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
            ("{}", #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
        ])
    func examples(_ target: String, _ patch: String, _ result: String) throws {
        #expect(try json(target).json.merged(with: json(patch).json) == json(result).json)
    }

    @Test("a patch keeps the members that it does not name", arguments: fullJobs)
    func parts(_ text: String) throws {
        let spec = try decode(text).spec
        let patch = try json(
            #"{"description":"n","schedule":{"timeout_for_resource":77},"retry":{"max_attempts":2},"#
                + #""redirects":{"max":1},"accept":{"max_bytes":5},"request":{"timeout_for_request":9}}"#)
        let changed = try JobRequest(spec, JobSecrets()).merging(patch) { _ in nil }.spec
        var expected = spec
        expected.description = "n"
        expected.schedule.timeoutForResource = 77
        expected.retry.attemptCountMax = 2
        expected.redirects.countMax = 1
        expected.accept.byteCountMax = 5
        expected.request.timeoutForRequest = 9
        #expect(changed == expected && !changed.differsOnlyWhileRunning(from: spec))
        let live = try JobRequest(spec, JobSecrets()).merging(
            json(#"{"schedule":{"priority":1},"metadata":{"x":"y"}}"#), refusal: { _ in nil }
        ).spec
        #expect(live != spec && live.differsOnlyWhileRunning(from: spec))
        #expect(try JobRequest(spec, JobSecrets()).merging(json("{}")) { _ in nil }.spec == spec)
    }

    @Test("a job with credentials cannot be moved to another origin")
    func credentials() throws {
        let elsewhere = [
            #"{"request":{"url":"https://b.example/"}}"#, #"{"request":{"url":"http://a.example/"}}"#,
            #"{"request":{"url":"https://a.example:8443/"}}"#,
            #"{"redirects":{"send_credentials_across_origins":true}}"#,
        ]
        for secret in [
            #""headers":{"Authorization":"Bearer x"}"#, #""headers":{"X-Session-Token":"x"}"#,
            #""auth":{"type":"bearer","token":"x"}"#,
        ] {
            let text = #"{"kind":"data","request":{"url":"https://a.example/x",\#(secret)}}"#
            let job = try decode(text)
            let draft = JobRequest(job.spec, job.secrets)
            for patch in elsewhere {
                #expect(throws: InvalidFields.self, "\(patch)") {
                    try draft.merging(json(patch)) { _ in nil }
                }
            }
            let moved = try draft.merging(json(#"{"request":{"url":"https://a.example/y"}}"#)) { _ in nil }
            #expect(moved.spec.request.url == "https://a.example/y")
        }
        let free = try decode(#"{"kind":"data","request":{"url":"https://a.example/x"}}"#)
        for patch in elsewhere {
            _ = try JobRequest(free.spec, free.secrets).merging(json(patch)) { _ in nil }
        }
    }

    @Test("the Host of an admin stays at its server; only an admin's patch moves it")
    func host() throws {
        let text =
            #"{"kind":"data","request":{"url":"http://a.example/x","#
            + #""headers":{"Host":"internal.example","A":"1"}}}"#
        let job = try JobRequest(json(text), mayNameHost: true, refusal: { _ in nil })
        let proxy = #""proxy":{"url":"http://p.example:3128"}"#
        let patched = { (request: String, mayMoveHost: Bool) in
            try job.merging(json(#"{"request":{\#(request)}}"#), mayMoveHost: mayMoveHost) { _ in nil }
        }
        for request in [
            #""url":"http://b.example/""#, #""url":"https://a.example/x""#,
            #""url":"http://a.example:8080/""#, #""url":"http://b.example/","headers":{"A":"2"}"#, proxy,
        ] {
            #expect(throws: InvalidFields.self, "\(request)") { try patched(request, false) }
            let moved = try patched(request, true)
            #expect(moved.spec.request.headers.contains(.init("Host", "internal.example")), "\(request)")
        }
        for request in [
            #""url":"http://a.example/y""#, #""url":"http://b.example/","headers":{"host":null}"#,
            #""url":"http://b.example/","header_fields":[{"name":"A","value":"1"}]"#,
            #""headers":{"Host":null},\#(proxy)"#,
        ] {
            _ = try patched(request, false)
        }
        let other = #""url":"http://b.example/","headers":{"Host":"other.example"}"#
        for mayMoveHost in [false, true] {
            #expect(throws: InvalidFields.self, "no patch sets it") { try patched(other, mayMoveHost) }
        }
    }

    @Test("of the TLS settings, only a client certificate binds the job to its origin; all need https")
    func tls() throws {
        var spec = try decode(
            #"{"kind":"data","request":{"url":"https://a.example/x","tls":{"minimum_version":"1.3"}}}"#
        ).spec
        let other = try json(#"{"request":{"url":"https://b.example/"}}"#)
        let plain = try json(#"{"request":{"url":"http://a.example/"}}"#)
        let moved = try JobRequest(spec, JobSecrets()).merging(other) { _ in nil }
        #expect(moved.spec.request.url == "https://b.example/")
        #expect(moved.spec.request.connection?.tls?.versionMin == .v13)
        #expect(throws: InvalidFields.self) {
            try JobRequest(spec, JobSecrets()).merging(plain) { _ in nil }
        }
        spec.request.connection?.tls?.clientCertificate.isSet = true
        #expect(throws: InvalidFields.self) {
            try JobRequest(spec, JobSecrets()).merging(other) { _ in nil }
        }
    }

    @Test("auth, tls and proxy can be patched, and members that a patch does not name keep their secrets")
    func connection() throws {
        let job = try decode(
            #"{"kind":"data","request":{"url":"https://a.example/x","#
                + #""auth":{"type":"basic","user":"u","password":"p"},"#
                + #""proxy":{"url":"http://proxy.example:3128","user":"x","password":"y"}}}"#)
        let draft = JobRequest(job.spec, job.secrets)
        let patched = { (request: String) in
            try draft.merging(json(#"{"request":\#(request)}"#)) { _ in nil }
        }
        let renamed = try patched(#"{"auth":{"user":"v"},"proxy":{"no_proxy":["*"]}}"#)
        #expect(renamed.spec.request.connection?.authentication?.user == "v")
        #expect(renamed.secrets.connection?.password == "p")
        #expect(renamed.secrets.connection?.proxyPassword == "y")
        #expect(renamed.differsOnlyWhileRunning(from: draft) && !renamed.isIdentical(to: draft))
        let digest = try patched(#"{"auth":{"type":"digest"}}"#)
        #expect(digest.spec.request.connection?.authentication?.scheme == .digest)
        #expect(digest.secrets.connection?.password == "p")
        let bearer = try patched(#"{"auth":{"type":"bearer","token":"t"}}"#)
        #expect(bearer.spec.request.connection?.authentication?.user == nil)
        #expect(bearer.secrets.connection?.token == "t" && bearer.secrets.connection?.password == nil)
        let free = try patched(#"{"auth":null,"proxy":null}"#)
        #expect(free.spec.request.connection == nil && free.secrets.isEmpty)
        let pinned = try patched(#"{"tls":{"minimum_version":"1.3"}}"#)
        #expect(pinned.spec.request.connection?.tls?.versionMin == .v13)
        // Another proxy of an https job cannot read the job's credentials, but must not get the proxy's.
        let moved = try patched(
            #"{"proxy":{"url":"http://other.example:3128","user":"x","password":"z"}}"#)
        #expect(moved.secrets.connection?.proxyPassword == "z")
        for wrong in [
            #"{"auth":{"type":"bearer"}}"#, #"{"auth":{"password":null}}"#, #"{"auth":{"token":"t"}}"#,
            #"{"proxy":{"url":"http://other.example:3128"}}"#, #"{"proxy":{"user":"x","password":null}}"#,
            #"{"headers":{"Authorization":"x"}}"#, #"{"tls":{"client_key":"x"}}"#,
            #"{"tls":{"maximum_version":"1.2","minimum_version":"1.3"}}"#, #"{"http_version":"2"}"#,
            #"{"url":"https://b.example/"}"#,
        ] {
            #expect(throws: InvalidFields.self, "\(wrong)") { try patched(wrong) }
        }
        let elsewhere = try patched(
            #"{"url":"https://b.example/","auth":{"type":"basic","user":"u","password":"q"}}"#)
        #expect(elsewhere.secrets.connection?.password == "q")
    }

    @Test("a patch to a directory destination renames by default")
    func directory() throws {
        let changed = { (destination: String, patch: String) throws -> JobSpec.Destination? in
            let spec = try decode(
                #"{"kind":"download","request":{"url":"https://a.example/"},"destination":\#(destination)}"#
            ).spec
            return try JobRequest(spec, JobSecrets()).merging(
                json(#"{"destination":\#(patch)}"#), refusal: { _ in nil }
            ).spec.destination
        }
        let file = #"{"path":"a/b"}"#
        #expect(try changed(file, #"{"path":"a/"}"#)?.ifExists == .rename)
        #expect(try changed(file, #"{"path":"a/","if_exists":null}"#)?.ifExists == .rename)
        #expect(try changed(file, #"{"path":"a/","if_exists":"replace"}"#)?.ifExists == .replace)
        #expect(try changed(file, #"{"path":"a/c"}"#)?.ifExists == .replace)
        #expect(try changed(#"{"path":"a/b","if_exists":"fail"}"#, #"{"path":"a/"}"#)?.ifExists == .fail)
        let replacing = #"{"path":"a/","if_exists":"replace"}"#
        #expect(try changed(replacing, #"{"path":"b/"}"#)?.ifExists == .replace)
    }

    @Test("texts in different Unicode forms differ")
    func unicodeForms() throws {
        let job = try decode(
            #"{"kind":"download","request":{"url":"https://a.example/"},"destination":{"path":"caf\u00e9"}}"#)
        let before = JobRequest(job.spec, job.secrets)
        let after = try before.merging(json(#"{"destination":{"path":"cafe\u0301"}}"#)) { _ in nil }
        #expect(after == before && !after.isIdentical(to: before))
        #expect(!after.differsOnlyWhileRunning(from: before))
        #expect(before.isIdentical(to: before) && before.differsOnlyWhileRunning(from: before))
    }

    @Test("header fields are merged by case-insensitive name, and secrets are stored apart")
    func headers() throws {
        let job = try decode(
            #"{"kind":"data","request":{"url":"https://a.example/x","headers":{"A":"1","Authorization":"Bearer x"}}}"#
        )
        let draft = JobRequest(job.spec, job.secrets)
        let patched = { (patch: String) in try draft.merging(json(patch)) { _ in nil } }
        let other = try patched(#"{"request":{"headers":{"a":"2","B":"3"}}}"#)
        #expect(other.spec.request.headers == [.init("Authorization", ""), .init("a", "2"), .init("B", "3")])
        #expect(other.secrets.headers == [.init("Authorization", "Bearer x")])
        #expect(other.spec.request.original?.headers == job.spec.request.headers)
        #expect(try JobSpec(storedJSON: other.spec.encodeStored()) == other.spec)
        let moved = try patched(
            #"{"request":{"url":"https://b.example/","headers":{"authorization":"Bearer y"}}}"#)
        #expect(moved.secrets.headers == [.init("authorization", "Bearer y")])
        let freed = try patched(#"{"request":{"url":"https://b.example/","headers":{"Authorization":null}}}"#)
        #expect(freed.secrets.isEmpty && freed.spec.request.headers == [.init("A", "1")])
        #expect(try patched(#"{"request":{"headers":null}}"#).spec.request.headers.isEmpty)
        for wrong in [
            #"{"request":{"headers":{"Host":"x"}}}"#, #"{"request":{"headers":{"A":7}}}"#,
            #"{"request":{"headers":[]}}"#, #"{"request":{"url":"https://b.example/","headers":{"A":"2"}}}"#,
        ] {
            #expect(throws: InvalidFields.self, "\(wrong)") { try patched(wrong) }
        }
    }

    @Test("reordered header fields are no change")
    func order() throws {
        let job = try decode(
            #"{"kind":"data","request":{"url":"https://a.example/x","#
                + #""headers":{"A":"1","Cookie":"c","B":"2"}}}"#)
        let before = JobRequest(job.spec, job.secrets)
        let after = try before.merging(json(#"{"request":{"headers":{"a":"1"}}}"#)) { _ in nil }
        #expect(after.spec.request.headers.map(\.name) == ["Cookie", "B", "a"])
        #expect(after.isIdentical(to: before) && after.differsOnlyWhileRunning(from: before))
        #expect(after.spec.request.original == nil)
        let other = try before.merging(json(#"{"request":{"headers":{"A":"2"}}}"#)) { _ in nil }
        #expect(!other.isIdentical(to: before) && other.spec.request.original != nil)
    }

    @Test("removing an unknown member is an error at any depth, except where clients choose names")
    func unknownNulls() throws {
        let spec = try decode(
            #"{"kind":"download","request":{"url":"https://a.example/"},"destination":{"path":"a"},"#
                + #""metadata":{"a":"b"}}"#
        ).spec
        let unknown = { (patch: JSONView) -> [String] in
            do throws(InvalidFields) {
                _ = try JobRequest(spec, JobSecrets()).merging(patch) { _ in nil }
                return []
            } catch {
                return error.errors.filter { $0.code == "unknown_field" }.map(\.pointer)
            }
        }
        let shown = try JSON.parse(spec.encode())
        for name in [
            "schedule", "redirects", "accept", "retry", "network", "questions", "integrity", "destination",
        ] {
            let members = shown[name]?.members ?? []
            let known = members.map { JSON.Member($0.name, .null) }
            #expect(try unknown(JSONView(.object([.init(name, .object(known))]))) == [], "\(name)")
            let patch = JSON.object([.init(name, .object([.init("deadline", .null)]))])
            #expect(try unknown(JSONView(patch)) == ["#/\(name)/deadline"])
        }
        #expect(try unknown(json(#"{"destination":null,"schedule":null}"#)) == [])
        let free = #"{"metadata":{"a":null,"x":null},"request":{"headers":{"X":null}}}"#
        #expect(try unknown(json(free)) == [])
    }

    @Test("an invalid patch or result is rejected with JSON Pointers")
    func wrong() throws {
        let spec = try decode(#"{"kind":"data","request":{"url":"http://a.example/"}}"#).spec
        let refused = { (patch: String) -> [String] in
            guard let patch = try? json(patch) else { return ["no JSON"] }
            do throws(InvalidFields) {
                _ = try JobRequest(spec, JobSecrets()).merging(patch) { _ in "Not there." }
                return []
            } catch {
                return error.errors.map { "\($0.code) \($0.pointer)" }
            }
        }
        #expect(refused("[]") == ["wrong_type #"])
        #expect(refused(#"{"request":{"url":"http://b.example/"}}"#) == ["blocked_address #/request/url"])
        #expect(
            refused(#"{"retry":{"resume_without_validator":true}}"#)
                == ["invalid_combination #/retry/resume_without_validator"])
        #expect(refused(#"{"webhook":null,"session":"x"}"#).count == 2)
        #expect(refused(#"{"metadata":7}"#) == ["wrong_type #/metadata"])
        #expect(refused(#"{"network":{"max_bytes_per_second":0}}"#).count == 1)
    }
}
