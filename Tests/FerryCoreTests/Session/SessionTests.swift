import FerryCore
import Testing

@Suite("Sessions")
struct SessionTests: SessionCases {
    private static let everything = #"""
        {"kind":"background","description":"d","metadata":{"a":"b"},"weight":2.5,
        "http_maximum_connections_per_host":null,"timeout_for_request":5,"timeout_for_resource":50,
        "priority":0.75,"network_service_type":"background","waits_for_connectivity":true,
        "http_additional_headers":{"User-Agent":"x/1","Authorization":"hush"},
        "proxy":{"url":"http://proxy.example:3128","user":"u","password":"secret"},
        "tls_minimum_version":"1.3","acknowledgement":{"by":"webhook","timeout":60}}
        """#

    @Test("a stored session is read back unchanged and shows no secret")
    func storing() throws {
        let draft = try draft(Self.everything)
        let stored = draft.configuration.encodeStored()
        #expect(try SessionConfiguration(storedJSON: stored) == draft.configuration)
        let text = String(decoding: stored, as: UTF8.self)
        #expect(!text.contains("hush") && !text.contains("secret"), "\(text)")
        #expect(draft.secrets.headers == [.init("Authorization", "hush")])
        #expect(draft.secrets.connection?.proxyPassword == "secret")
        let empty = try self.draft("{}")
        #expect(empty.configuration == SessionConfiguration() && empty.sealedSecrets == nil)
        #expect(empty.configuration.connectionsPerHostMax == 6)
    }

    @Test("http_maximum_connections_per_host is the operator's unless a session sets a number or null")
    func connectionsPerHost() throws {
        for standard in [nil, 40] {
            var node = NodeAbilities()
            node.connectionsPerHostMax = standard
            let read = { (body: String) in
                try SessionDraft(
                    JSONView(parsing: Array(body.utf8)), node: node, refusal: { _ in nil }, seal: { $0 }
                ).configuration
            }
            #expect(try read("{}").connectionsPerHostMax == standard)
            #expect(try read(#"{"http_maximum_connections_per_host":3}"#).connectionsPerHostMax == 3)
            let unlimited = try read(#"{"http_maximum_connections_per_host":null}"#)
            #expect(unlimited.connectionsPerHostMax == nil)
            #expect(try SessionConfiguration(storedJSON: unlimited.encodeStored()) == unlimited)
            let implicit = SessionSnapshot(connectionsPerHostMax: standard).implicit
            #expect(implicit.connectionsPerHostMax == standard)
        }
        #expect(SessionSnapshot().implicit == SessionConfiguration())
    }

    private func snapshot(
        _ epoch: Int64, removal: Int64, _ names: [String], after earlier: SessionSnapshot? = nil
    ) throws -> SessionSnapshot {
        var records: [SessionKey: SessionRecord] = [:]
        for name in names { records.merge(try scope("{}", name: name).snapshot.records) { $1 } }
        return SessionSnapshot(epoch: epoch, removal: removal, records: records, after: earlier)
    }

    @Test("after the removal of a session, only submissions read before it for that session are read again")
    func removal() throws {
        let first = try snapshot(5, removal: 3, ["a", "b"])
        let second = try snapshot(9, removal: 8, ["b"], after: first)
        let third = try snapshot(12, removal: 8, ["b", "c"], after: second)
        let new = { (session: String) in
            let job = try self.job(
                #"{"kind":"data","session":"\#(session)","request":{"url":"https://a.example/"}}"#,
                in: SessionScope(SessionSnapshot(), tenant: "acme"))
            return NewJob(
                id: JobID(high: 1, low: 1), tenant: "acme", job, specJSON: [], sealedSecrets: nil,
                traceparent: "", retryOf: nil)
        }
        for snapshot in [second, third] {
            #expect(try snapshot.verdict(on: [new("a")], known: 5) == .changed)
            #expect(try snapshot.verdict(on: [new("b"), new("a")], known: 6) == .changed)
            #expect(try snapshot.verdict(on: [new("a")], known: 9) == .acceptable)
            #expect(try snapshot.verdict(on: [new("b"), new("d")], known: 5) == .acceptable)
            // A removal from before the first snapshot is not known by name.
            #expect(try snapshot.verdict(on: [new("d")], known: 4) == .changed)
            #expect(try snapshot.verdict(on: [new("d")], known: 13) == .changed)
        }
        let unknown = try snapshot(9, removal: 8, ["b"])
        #expect(try unknown.verdict(on: [new("d")], known: 5) == .changed)
        // More removals than names are remembered.
        let many = try snapshot(20, removal: 1, (0..<10_001).map { "n\($0)" })
        let none = try snapshot(30, removal: 29, [], after: many)
        #expect(try none.verdict(on: [new("d")], known: 20) == .changed)
        #expect(try none.verdict(on: [new("d")], known: 30) == .acceptable)
    }

    @Test("configurations that differ in order are equal; those with other values are not")
    func order() throws {
        let text = { (metadata: String, headers: String) in
            #"{"metadata":{\#(metadata)},"http_additional_headers":{\#(headers)}}"#
        }
        let headers = #""X-A":"1","Cookie":"c","X-Token":"t""#
        let first = try draft(text(#""a":"1","b":"2""#, headers))
        let same = try draft(text(#""b":"2","a":"1""#, #""x-token":"t","Cookie":"c","x-a":"1""#))
        #expect(first.configuration != same.configuration && first.secrets != same.secrets)
        #expect(first.configuration.isIdentical(to: same.configuration))
        #expect(first.secrets.isIdentical(to: same.secrets))
        let others = [
            text(#""a":"2","b":"1""#, headers),
            text(#""a":"1","b":"2""#, #""X-A":"1","Cookie":"t","X-Token":"c""#),
            text(#""a":"1","b":"2""#, #""X-B":"1","Cookie":"c","X-Token":"t""#),
        ]
        for text in others {
            let other = try draft(text)
            let isSame =
                first.configuration.isIdentical(to: other.configuration)
                && first.secrets.isIdentical(to: other.secrets)
            #expect(!isSame, "\(text)")
        }
    }

    @Test("the origins of the session's header fields do not restrict a job's own fields")
    func origins() throws {
        let scope = try scope(
            #"""
            {"http_additional_headers":{"Authorization":"hush","X-A":"1","X-B":"2"},
             "http_additional_headers_origins":["https://*.a.example","http://b.example:81"]}
            """#)
        let record = try #require(scope.record("s"))
        let stored = try SessionConfiguration(storedJSON: record.configuration.encodeStored())
        #expect(stored == record.configuration && stored.headerOrigins?.count == 2)
        let job = try job(
            #"""
            {"kind":"data","session":"s","request":{"url":"https://c.example/","headers":{"X-B":"own"}}}
            """#, in: scope)
        let rule = try #require(job.spec.request.additionalHeaders)
        #expect(rule.names == ["authorization", "x-a"] && rule.trustsProxy)
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()).request.additionalHeaders == rule)
        let inside = try WebURL.parse("https://x.a.example/")
        let outside = try WebURL.parse("https://c.example/")
        #expect(rule.allows("AUTHORIZATION", to: inside, isKnownEnd: true))
        #expect(!rule.allows("Authorization", to: outside, isKnownEnd: true))
        #expect(rule.allows("X-B", to: outside, isKnownEnd: true))
        let draft = JobRequest(job.spec, job.secrets)
        let patched = try draft.merging(
            try JSONView(parsing: Array(#"{"request":{"headers":{"x-a":"mine"}}}"#.utf8)),
            refusal: { _ in nil })
        #expect(patched.spec.request.additionalHeaders?.names == ["authorization"])
        #expect(patched.secrets.headers == job.secrets.headers)
        let proxied = try self.job(
            #"""
            {"kind":"data","session":"s","request":{"url":"http://b.example:81/",
             "proxy":{"url":"http://p.example:3128"}}}
            """#, in: scope)
        let own = try #require(proxied.spec.request.additionalHeaders)
        let plain = try WebURL.parse("http://b.example:81/")
        #expect(!own.allows("X-A", to: plain, isKnownEnd: false))
        #expect(own.allows("X-A", to: plain, isKnownEnd: true))
        let free = try self.job(
            #"{"kind":"data","session":"s","request":{"url":"https://c.example/"}}"#,
            in: try self.scope(#"{"http_additional_headers":{"X-A":"1"}}"#))
        #expect(free.spec.request.additionalHeaders == nil)
    }

    @Test(
        "invalid members are rejected with their pointers",
        arguments: [
            (
                #"{"http_additional_headers_origins":"https://a.example"}"#,
                "#/http_additional_headers_origins", "wrong_type"
            ),
            (
                #"{"http_additional_headers_origins":["https://a.example","a.example"]}"#,
                "#/http_additional_headers_origins/1", "invalid_value"
            ),
            (
                #"{"http_additional_headers_origins":["https://a.example","https://A.example:443"]}"#,
                "#/http_additional_headers_origins/1", "duplicate"
            ),
            (
                #"{"http_additional_headers_origins":[7]}"#, "#/http_additional_headers_origins/0",
                "wrong_type"
            ),
            (#"{"kind":"ephemeral"}"#, "#/kind", "not_supported"),
            (#"{"kind":"x"}"#, "#/kind", "invalid_value"),
            (#"{"weight":0}"#, "#/weight", "out_of_range"), (#"{"weight":"1"}"#, "#/weight", "wrong_type"),
            (
                #"{"http_maximum_connections_per_host":0}"#, "#/http_maximum_connections_per_host",
                "out_of_range"
            ),
            (#"{"timeout_for_request":0}"#, "#/timeout_for_request", "out_of_range"),
            (#"{"priority":1.5}"#, "#/priority", "out_of_range"),
            (
                #"{"http_additional_headers":{"Host":"a"}}"#, "#/http_additional_headers/Host",
                "invalid_value"
            ),
            (
                #"{"http_additional_headers":{"range":"a"}}"#, "#/http_additional_headers/range",
                "invalid_value"
            ),
            (#"{"proxy":{"url":"http://10.0.0.1:1"}}"#, "#/proxy/url", "blocked_address"),
            (
                #"{"tls_minimum_version":"1.3","tls_maximum_version":"1.2"}"#, "#/tls_maximum_version",
                "invalid_combination"
            ),
            (#"{"discretionary":1}"#, "#/discretionary", "wrong_type"),
            (#"{"nothing":1}"#, "#/nothing", "unknown_field"), ("[]", "#", "wrong_type"),
        ])
    func refusals(_ body: String, _ pointer: String, _ code: String) {
        #expect(errors(body).map { [$0.pointer, $0.code] } == [[pointer, code]])
    }

    @Test("a job uses the values of its session where it has none")
    func effective() throws {
        let scope = try scope(Self.everything)
        let body = #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}}"#
        let job = try job(body, in: scope)
        #expect(job.spec.request.timeoutForRequest == 5 && job.spec.schedule.timeoutForResource == 50)
        #expect(job.spec.schedule.priority == 0.75 && job.spec.schedule.waitsForConnectivity)
        #expect(job.spec.schedule.networkServiceType == .background)
        #expect(job.spec.request.headers.map(\.name) == ["User-Agent", "Authorization"])
        #expect(job.secrets.headers == [.init("Authorization", "hush")])
        #expect(job.spec.request.connection?.proxy?.url.string == "http://proxy.example:3128")
        #expect(job.secrets.connection?.proxyPassword == "secret")
        #expect(job.spec.request.connection?.tls?.versionMin == .v13)
        #expect(job.spec.retry.attemptCountMax == Limits.jobAttemptCountMax)
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()) == job.spec)
        let plain = try self.job(
            #"{"kind":"data","request":{"url":"https://a.example/"}}"#, in: scope)
        #expect(plain.spec.schedule == JobSpec.Schedule() && plain.spec.request.headers.isEmpty)
    }

    @Test("a job can override every value of its session")
    func overriding() throws {
        let scope = try scope(Self.everything)
        let job = try job(
            #"""
            {"kind":"data","session":"s","request":{"url":"https://a.example/","timeout_for_request":7,
            "headers":{"user-agent":"own"},"auth":{"type":"bearer","token":"t"},"proxy":null,
            "tls":{"minimum_version":"1.2"}},"schedule":{"priority":0.1,"timeout_for_resource":8,
            "network_service_type":"default","waits_for_connectivity":false},"retry":{"max_attempts":3}}
            """#, in: scope)
        #expect(job.spec.request.timeoutForRequest == 7 && job.spec.schedule.timeoutForResource == 8)
        #expect(job.spec.schedule.priority == 0.1 && !job.spec.schedule.waitsForConnectivity)
        #expect(job.spec.schedule.networkServiceType == .standard)
        #expect(job.spec.request.headers == [.init("user-agent", "own")], "auth replaces the session's field")
        #expect(
            job.spec.request.connection?.proxy == nil && job.spec.request.connection?.tls?.versionMin == .v12)
        #expect(job.secrets.headers.isEmpty && job.secrets.connection?.proxyPassword == nil)
        #expect(job.spec.retry.attemptCountMax == 3)
    }

    @Test("a session's TLS settings do not affect http requests, and both version limits must agree")
    func tls() throws {
        let scope = try scope(Self.everything)
        let plain = try job(
            #"{"kind":"data","session":"s","request":{"url":"http://a.example/"}}"#, in: scope)
        #expect(plain.spec.request.connection?.tls == nil)
        #expect(throws: InvalidFields.self) {
            try job(
                #"""
                {"kind":"data","session":"s","request":{"url":"https://a.example/",
                "tls":{"maximum_version":"1.2"}}}
                """#, in: scope)
        }
    }

    @Test("a job of a background session needs a file as source and follows redirects")
    func background() throws {
        let scope = try scope(#"{"kind":"background"}"#)
        let bodies = [
            #"{"kind":"upload","session":"s","request":{"url":"http://a.example/"},"source":{"text":"x"}}"#,
            #"""
            {"kind":"upload","session":"s","request":{"url":"http://a.example/","method":"POST"},
            "source":{"text":"x","form":{}}}
            """#,
            #"""
            {"kind":"data","session":"s","request":{"url":"http://a.example/"},
            "redirects":{"policy":"reject"}}
            """#,
        ]
        for body in bodies { #expect(throws: InvalidFields.self) { try job(body, in: scope) } }
        let upload = #"""
            {"kind":"upload","session":"s","request":{"url":"http://a.example/"},"source":{"path":"x"}}
            """#
        #expect(try job(upload, in: scope).spec.retry.attemptCountMax == Limits.jobAttemptCountMax)
        // A job from before the session became a background session can still be changed.
        let patched = { (body: String, patch: String) throws -> JobRequest in
            let before = try decode(body)
            return try JobRequest(before.spec, before.secrets).merging(
                JSONView(parsing: Array(patch.utf8)), session: scope.record("s"), refusal: { _ in nil })
        }
        for body in bodies {
            #expect(try patched(body, #"{"description":"d"}"#).spec.description == "d")
            #expect(try patched(body, #"{"redirects":{"max":3}}"#).spec.redirects.countMax == 3)
        }
        let rejecting = #"{"redirects":{"policy":"reject"}}"#
        #expect(throws: InvalidFields.self) { try patched(upload, rejecting) }
        #expect(try patched(bodies[2], #"{"redirects":null}"#).spec.redirects.policy == .follow)
    }

    @Test("session names consist of characters that need no escape in paths")
    func names() {
        for name in ["a", "default", "A-1.b_c~d:e@f", "..."] { #expect(SessionName.isValid(name)) }
        let long = String(repeating: "a", count: 129)
        for name in ["", ".", "..", "a/b", "a b", "ä", "a\u{0}", long] { #expect(!SessionName.isValid(name)) }
    }

    @Test("sessions of the same name in two tenants are independent")
    func tenants() throws {
        let scope = try scope(Self.everything, tenant: "other")
        let body = #"{"kind":"data","session":"s","request":{"url":"https://a.example/"}}"#
        #expect(try job(body, in: scope).spec.schedule == JobSpec.Schedule())
    }
}
