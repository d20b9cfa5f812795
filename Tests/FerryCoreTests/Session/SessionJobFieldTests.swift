import Testing

@testable import FerryCore

@Suite("Fields of jobs that sessions set")
struct SessionJobFieldTests: SessionCases {
    private static let pin = "sha256//" + Base64.encode(Array(repeating: 7, count: 32))
    private static let other = "sha256//" + Base64.encode(Array(repeating: 8, count: 32))
    private static let secret = "whsec_" + Base64.encode(Array(repeating: 1, count: 24))

    /// A session with every secret.
    private static let secrets = #"""
        {"tls":{"ca":"CERTIFICATE ca","client_certificate":"CERTIFICATE own","client_key":"KEY hush",
        "pins":["\#(pin)"]},
        "webhook":{"url":"https://b.example/hook?token=hush","secret":"\#(secret)",
        "headers":{"X-A":"hush","X-B":"hush 2"},"tls":{"ca":"CERTIFICATE hush","pins":["\#(other)"]}},
        "proxy":{"url":"http://proxy.example:3128","user":"u","password":"hush"}}
        """#

    /// A field of a session, the value that a job of it shows, and the same after the job has named it.
    struct Field: Sendable, CustomTestStringConvertible {
        /// Members of the session.
        let session: String
        /// Names of the members of the shown job, from the outside.
        let path: [String]
        let inherited: JSON
        /// Members of a job that overrides the field: its own, or those of its request.
        let job: String
        let request: String
        let overridden: JSON
        var testDescription: String { path.joined(separator: ".") }

        init(
            _ session: String, _ path: String, _ inherited: JSON, _ job: String = "", request: String = "",
            _ overridden: JSON
        ) {
            self.session = session
            self.path = path.split(separator: "/").map(String.init)
            (self.inherited, self.overridden) = (inherited, overridden)
            (self.job, self.request) = (job, request)
        }
    }

    static let fields: [Field] = [
        Field(
            #""redirects":{"policy":"reject"}"#, "redirects/policy", "reject",
            #""redirects":{"policy":"follow"}"#, "follow"),
        Field(
            #""redirects":{"max":3}"#, "redirects/max", .integer(3), #""redirects":{"max":4}"#, .integer(4)),
        Field(
            #""redirects":{"send_credentials_across_origins":true}"#,
            "redirects/send_credentials_across_origins", .bool(true),
            #""redirects":{"send_credentials_across_origins":false}"#, .bool(false)),
        Field(
            #""redirects":{"user_info":"ignore"}"#, "redirects/user_info", "ignore",
            #""redirects":{"user_info":"send"}"#, "send"),
        Field(
            #""accept":{"status":["404"]}"#, "accept/status", .array(["404"]),
            #""accept":{"status":["2xx"]}"#, .array(["2xx"])),
        Field(
            #""accept":{"content_type":["image/*"]}"#, "accept/content_type", .array(["image/*"]),
            #""accept":{"content_type":[]}"#, .array([])),
        Field(
            #""accept":{"max_bytes":5}"#, "accept/max_bytes", .integer(5), #""accept":{"max_bytes":null}"#,
            .null),
        Field(
            #""retry":{"max_attempts":1}"#, "retry/max_attempts", .integer(1),
            #""retry":{"max_attempts":2}"#, .integer(2)),
        Field(
            #""retry":{"initial_delay":2}"#, "retry/initial_delay", .integer(2),
            #""retry":{"initial_delay":3}"#, .integer(3)),
        Field(
            #""retry":{"multiplier":3}"#, "retry/multiplier", .integer(3), #""retry":{"multiplier":1}"#,
            .integer(1)),
        Field(
            #""retry":{"max_delay":9}"#, "retry/max_delay", .integer(9), #""retry":{"max_delay":300}"#,
            .integer(300)),
        Field(
            #""retry":{"non_idempotent":true}"#, "retry/non_idempotent", .bool(true),
            #""retry":{"non_idempotent":false}"#, .bool(false)),
        Field(
            #""retry":{"resume_without_validator":true}"#, "retry/resume_without_validator", .bool(true),
            #""retry":{"resume_without_validator":false}"#, .bool(false)),
        Field(
            #""retry":{"statuses":["5xx"]}"#, "retry/statuses", .array(["5xx"]),
            #""retry":{"statuses":null}"#, .null),
        Field(
            #""network":{"max_bytes_per_second":7}"#, "network/max_bytes_per_second", .integer(7),
            #""network":{"max_bytes_per_second":null}"#, .null),
        Field(#""on_challenge":"ask""#, "on_challenge", "ask", #""on_challenge":"fail""#, "fail"),
        Field(#""on_url_expired":"ask""#, "on_url_expired", "ask", #""on_url_expired":"fail""#, "fail"),
        Field(
            #""tls":{"pins":["\#(pin)"]}"#, "request/tls/pins", .array([.string(pin)]),
            request: #""tls":{"pins":["\#(other)"]}"#, .array([.string(other)])),
        Field(
            #""webhook":{"url":"https://b.example/"}"#, "webhook/url", "https://b.example/",
            #""webhook":{"url":"https://c.example/"}"#, "https://c.example/"),
        Field(
            #""webhook":{"url":"https://b.example/","payload":"thin"}"#, "webhook/payload", "thin",
            #""webhook":{"url":"https://b.example/"}"#, "full"),
        Field(
            #""cache_policy":"use_protocol_cache_policy""#, "request/cache_policy",
            "use_protocol_cache_policy", request: #""cache_policy":"use_protocol_cache_policy""#,
            "use_protocol_cache_policy"),
    ]

    /// Returns a download of the session `s` with these members, and these members of its request.
    private func download(
        _ members: String = "", request: String = "", in scope: SessionScope
    ) throws -> JobRequest {
        let request = #""request":{"url":"https://a.example/"\#(request.isEmpty ? "" : ",")\#(request)}"#
        let rest = members.isEmpty ? "" : "," + members
        return try job(#"{"kind":"download","session":"s",\#(request)\#(rest)}"#, in: scope)
    }

    private func shown(_ request: JobRequest, _ path: [String]) throws -> JSON? {
        // What the job stores is what it shows.
        let spec = try JobSpec(storedJSON: request.spec.encodeStored())
        #expect(spec == request.spec)
        return try path.reduce(JSON.parse(spec.encode()) as JSON?) { $0?[$1] }
    }

    @Test(
        "a job shows the value of its session, or its own; a session shows and stores it", arguments: fields)
    func inheritance(_ field: Field) throws {
        let draft = try draft("{\(field.session)}")
        let scope = scope(draft)
        #expect(try shown(download(in: scope), field.path) == field.inherited)
        #expect(
            try shown(download(field.job, request: field.request, in: scope), field.path) == field.overridden)
        let outside = #"{"kind":"download","request":{"url":"https://a.example/"}}"#
        #expect(try job(outside, in: scope).spec == decode(outside).spec)
        let record = try #require(scope.record("s"))
        let session = try JSON.parse(SessionOverview(record).shown(isRedacted: false))
        let path = field.path.first == "request" ? field.path.dropFirst() : field.path[...]
        #expect(path.reduce(session as JSON?) { $0?[$1] } == field.inherited)
        let stored = try SessionConfiguration(storedJSON: draft.configuration.encodeStored())
        #expect(stored == draft.configuration)
    }

    @Test("members that a job does not name are those of the session")
    func members() throws {
        let scope = try scope(
            #"""
            {"redirects":{"policy":"reject","max":3},"retry":{"max_attempts":2,"max_delay":5},
            "accept":{"status":["404"],"max_bytes":9}}
            """#)
        let job = try download(
            #""redirects":{"max":1},"retry":{"initial_delay":9},"accept":{"max_bytes":8}"#, in: scope)
        #expect(job.spec.redirects.policy == .reject && job.spec.redirects.countMax == 1)
        #expect(job.spec.retry.attemptCountMax == 2 && job.spec.retry.delayMax == 9)
        #expect(job.spec.accept.status == ["404"] && job.spec.accept.byteCountMax == 8)
    }

    @Test("the secrets of a session become those of its jobs, unless a job names its own")
    func secrets() throws {
        let draft = try draft(Self.secrets)
        let scope = scope(draft)
        let inherited = try download(in: scope)
        let connection = try #require(inherited.secrets.connection)
        #expect(connection.authorities == "CERTIFICATE ca" && connection.clientKey == "KEY hush")
        #expect(connection.clientCertificate == "CERTIFICATE own" && connection.proxyPassword == "hush")
        #expect(inherited.secrets.webhookSecret == Self.secret)
        #expect(inherited.secrets.webhookHeaders == [.init("X-A", "hush"), .init("X-B", "hush 2")])
        #expect(
            inherited.secrets.webhookTLS
                == WebhookTLS(authorities: "CERTIFICATE hush", pins: [Self.other]))
        let shown = String(decoding: inherited.spec.encodeStored(.inverted), as: UTF8.self)
        #expect(!shown.contains("KEY") && !shown.contains("CERTIFICATE") && !shown.contains(Self.secret))
        // A certificate and its key are one choice, and the receiver is one with its secret and fields.
        let own = try download(
            #""webhook":{"url":"https://c.example/"}"#,
            request: #""tls":{"client_certificate":"CERTIFICATE job","client_key":"KEY job"}"#, in: scope)
        let rules = try #require(own.secrets.connection)
        #expect(rules.authorities == "CERTIFICATE ca" && rules.clientKey == "KEY job")
        #expect(rules.clientCertificate == "CERTIFICATE job")
        #expect(own.secrets.webhookSecret == nil && own.secrets.webhookHeaders.isEmpty)
        #expect(own.secrets.webhookTLS == nil && own.spec.webhook?.headers.isEmpty == true)
        for member in ["client_certificate", "client_key"] {
            let without = try download(request: #""tls":{"\#(member)":null,"ca":null}"#, in: scope)
            let tls = try #require(without.spec.request.connection?.tls)
            #expect(!tls.clientCertificate.isSet && !tls.clientKey.isSet && !tls.authorities.isSet)
            #expect(tls.pins == [Self.pin] && without.secrets.connection?.clientKey == nil)
            #expect(without.secrets.connection?.authorities == nil)
        }
        let none = try download(#""webhook":null"#, in: scope)
        #expect(none.spec.webhook == nil && none.secrets.webhookSecret == nil)
        #expect(none.secrets.webhookHeaders.isEmpty)
        #expect(throws: InvalidFields.self) {
            try download(request: #""tls":{"client_key":"KEY job"}"#, in: scope)
        }
    }

    @Test("a session with secrets is stored encrypted, read again unchanged, and compared in any order")
    func storing() throws {
        let draft = try draft(Self.secrets)
        let stored = draft.configuration.encodeStored(.inverted)
        let text = String(decoding: stored, as: UTF8.self)
        for hidden in ["hush", "CERTIFICATE", "KEY", Self.secret] { #expect(!text.contains(hidden)) }
        let read = try SessionConfiguration(storedJSON: stored, opening: .inverted)
        #expect(read == draft.configuration)
        #expect(read.webhook?.url == "https://b.example/hook?token=hush")
        #expect(try JobSecrets(json: draft.secrets.encode()) == draft.secrets)
        let record = try #require(scope(draft).record("s"))
        let redacted = String(decoding: SessionOverview(record).shown(), as: UTF8.self)
        let full = String(decoding: SessionOverview(record).shown(isRedacted: false), as: UTF8.self)
        #expect(!redacted.contains("hush") && redacted.contains("token=***"))
        #expect(full.contains("token=hush") && !full.contains("KEY") && !full.contains("hush 2"))
        let same = try self.draft(
            Self.secrets.replacing(
                #""X-A":"hush","X-B":"hush 2""#, with: #""x-b":"hush 2","X-A":"hush""#))
        #expect(same.secrets != draft.secrets)
        #expect(same.configuration.isIdentical(to: draft.configuration))
        #expect(same.secrets.isIdentical(to: draft.secrets))
        for (old, new) in [
            ("KEY hush", "KEY new"), ("hush 2", "hush 3"), ("CERTIFICATE ca", "CERTIFICATE b"),
        ] {
            let other = try self.draft(Self.secrets.replacing(old, with: new))
            #expect(!other.secrets.isIdentical(to: draft.secrets), "\(new)")
        }
        let elsewhere = try self.draft(Self.secrets.replacing("token=hush", with: "token=new"))
        #expect(!elsewhere.configuration.isIdentical(to: draft.configuration))
    }

    @Test("a row without these fields is read with their default values")
    func earlierRow() throws {
        let names = [
            "redirects", "accept", "retry", "network", "on_challenge", "on_url_expired", "cache_policy",
            "tls",
            "webhook",
        ]
        for body in ["{}", #"{"kind":"background"}"#] {
            let draft = try draft(body)
            let now = try JSON.parse(draft.configuration.encodeStored())
            var writer = JSONWriter()
            writer.value(.object((now.members ?? []).filter { !names.contains($0.name) }))
            #expect(try SessionConfiguration(storedJSON: writer.bytes) == draft.configuration)
        }
    }

    @Test(
        "a row with a damaged field cannot be read",
        arguments: [
            #"{"redirects":{"policy":"sideways"}}"#, #"{"accept":{"status":[true]}}"#,
            #"{"retry":{"max_attempts":"many"}}"#, #"{"network":{"max_bytes_per_second":"x"}}"#,
            #"{"on_challenge":1}"#, #"{"on_url_expired":"x"}"#, #"{"tls":{"pins":[1]}}"#,
            #"{"webhook":{"events":["job.succeeded"]}}"#, #"{"webhook":{"url":7}}"#,
        ])
    func damage(_ row: String) {
        #expect(throws: StoredJSONError.self) { try SessionConfiguration(storedJSON: Array(row.utf8)) }
    }

    @Test(
        "invalid members are rejected with their pointers",
        arguments: [
            (#"{"redirects":{"max":-1}}"#, "#/redirects/max", "out_of_range"),
            (#"{"redirects":{"policy":"x"}}"#, "#/redirects/policy", "invalid_value"),
            (#"{"accept":{"status":["9xx"]}}"#, "#/accept/status/0", "invalid_value"),
            (#"{"retry":{"max_attempts":0}}"#, "#/retry/max_attempts", "out_of_range"),
            (#"{"retry":{"initial_delay":2,"max_delay":1}}"#, "#/retry/max_delay", "invalid_combination"),
            (#"{"retry":null}"#, "#/retry", "wrong_type"),
            (#"{"network":{"allow_expensive":false}}"#, "#/network/allow_expensive", "not_supported"),
            (#"{"on_challenge":"x"}"#, "#/on_challenge", "invalid_value"),
            (#"{"on_url_expired":true}"#, "#/on_url_expired", "wrong_type"),
            (#"{"cache_policy":"return_cache_data_else_load"}"#, "#/cache_policy", "not_supported"),
            (#"{"tls":{"ca":"x"}}"#, "#/tls/ca", "invalid_value"),
            (#"{"tls":{"client_key":"KEY"}}"#, "#/tls/client_certificate", "required"),
            (
                #"{"tls":{"client_key":"x","client_certificate":"CERTIFICATE"}}"#, "#/tls/client_key",
                "invalid_value"
            ),
            (#"{"tls":{"minimum_version":"1.3"}}"#, "#/tls/minimum_version", "unknown_field"),
            (#"{"webhook":{}}"#, "#/webhook/url", "required"),
            (#"{"webhook":{"url":"http://10.0.0.1/"}}"#, "#/webhook/url", "blocked_address"),
            (
                #"{"webhook":{"url":"http://b.example/","tls":{"ca":"CERTIFICATE"}}}"#, "#/webhook/tls",
                "invalid_combination"
            ),
        ])
    func refusals(_ body: String, _ pointer: String, _ code: String) {
        #expect(errors(body).map { [$0.pointer, $0.code] } == [[pointer, code]])
    }

    @Test(
        "a question of the session that a job cannot ask is left out; the job's own is an error",
        arguments: [
            #"{"kind":"download","segments":2}"#,
            #"{"kind":"download","mirrors":["https://b.example/"]}"#,
            #"{"kind":"download","destination":{"url":"https://b.example/"}}"#,
        ])
    func questions(_ body: String) throws {
        let scope = try scope(
            #"{"redirects":{"policy":"ask"},"on_challenge":"ask","on_url_expired":"ask"}"#)
        let isCopy = body.contains("destination")
        let withRequest =
            body.dropLast() + #","session":"s","request":{"url":"https://a.example/"}}"#
        let inherited = try job(String(withRequest), in: scope).spec
        #expect(inherited.redirects.policy == .follow && inherited.onChallenge == .fail)
        #expect(inherited.onURLExpired == (isCopy ? .fail : .ask))
        var own = [#""redirects":{"policy":"ask"}"#, #""on_challenge":"ask""#]
        if isCopy { own.append(#""on_url_expired":"ask""#) }
        for member in own {
            #expect(throws: InvalidFields.self, "\(member)") {
                try job(String(withRequest.dropLast()) + ",\(member)}", in: scope)
            }
        }
    }

    @Test("a request that cannot be repeated does not ask about redirects, and a PATCH restores no such rule")
    func repeatability() throws {
        let scope = try scope(#"{"redirects":{"policy":"ask","max":3}}"#)
        let body = #"{"kind":"data","session":"s","request":{"url":"https://a.example/","method":"POST"}}"#
        let post = try job(body, in: scope)
        #expect(post.spec.redirects.policy == .follow && post.spec.redirects.countMax == 3)
        let get = try job(body.replacing("POST", with: "GET"), in: scope)
        #expect(get.spec.redirects.policy == .ask)
        let patch = try JSONView(parsing: Array(#"{"redirects":null}"#.utf8))
        for (before, policy) in [(post, JobSpec.Redirects.Policy.follow), (get, .ask)] {
            let rejecting = try before.merging(
                JSONView(parsing: Array(#"{"redirects":{"policy":"reject"}}"#.utf8)),
                session: scope.record("s"), refusal: { _ in nil })
            #expect(rejecting.spec.redirects.policy == .reject)
            let reset = try rejecting.merging(patch, session: scope.record("s"), refusal: { _ in nil })
            #expect(reset.spec.redirects.policy == policy && reset.spec.redirects.countMax == 3)
        }
    }

    @Test("an upload to a store neither asks nor resumes without a validator, whatever its session says")
    func uploads() throws {
        let scope = try scope(
            #"""
            {"on_challenge":"ask","on_url_expired":"ask","retry":{"resume_without_validator":true},
            "accept":{"status":["2xx"],"max_bytes":10}}
            """#)
        let upload = try job(
            #"""
            {"kind":"upload","session":"s","source":{"text":"x"},
            "destination":{"s3":{"bucket":"bucket","key":"k","region":"eu-central-1"}}}
            """#, in: scope)
        #expect(!upload.spec.asksOnChallenge && upload.spec.onURLExpired == .fail)
        #expect(!upload.spec.retry.resumesWithoutValidator && upload.spec.accept.byteCountMax == 10)
        // The status codes are those of every upload.
        #expect(upload.spec.accept.status.isEmpty)
        #expect(try shown(upload, ["accept", "status"]) == .array(["2xx"]))
        let data = #"""
            {"kind":"data","session":"s","request":{"url":"https://a.example/"},
            "retry":{"resume_without_validator":false}}
            """#
        #expect(try !job(data, in: scope).spec.retry.resumesWithoutValidator)
    }

    @Test("TLS settings of a session do not affect http URLs, and null restores them in a PATCH")
    func http() throws {
        let scope = try scope(Self.secrets)
        let plain = #"{"kind":"data","session":"s","request":{"url":"http://a.example/"}}"#
        let job = try job(plain, in: scope)
        #expect(job.spec.request.connection?.tls == nil && job.secrets.connection?.clientKey == nil)
        let before = try download(
            request: #""tls":{"ca":"CERTIFICATE ca","client_key":null}"#, in: scope)
        let reset = try before.merging(
            JSONView(parsing: Array(#"{"request":{"tls":null}}"#.utf8)), node: ableNode,
            session: scope.record("s"), refusal: { _ in nil })
        #expect(reset.secrets.connection?.clientKey == "KEY hush")
        #expect(reset.spec.request.connection?.tls?.clientKey.isSet == true)
        let cleared = try reset.merging(
            JSONView(parsing: Array(#"{"request":{"tls":{"client_certificate":null}}}"#.utf8)),
            node: ableNode, refusal: { _ in nil })
        #expect(cleared.spec.request.connection?.tls?.clientKey.isSet == false)
        #expect(cleared.secrets.connection?.clientKey == nil)
    }

    @Test("a job with credentials may return to the authorities of its session only if they are its own")
    func authorities() throws {
        let scope = try scope(Self.secrets)
        let auth = #""auth":{"type":"bearer","token":"t"}"#
        let patched = { (job: JobRequest, tls: String) in
            try job.merging(
                JSONView(parsing: Array(#"{"request":{"tls":\#(tls)}}"#.utf8)), node: ableNode,
                session: scope.record("s"), refusal: { _ in nil })
        }
        let inherited = try download(request: auth, in: scope)
        #expect(try patched(inherited, "null").secrets == inherited.secrets)
        #expect(throws: InvalidFields.self) { try patched(inherited, #"{"ca":"CERTIFICATE new"}"#) }
        let own = try download(request: auth + #","tls":{"ca":"CERTIFICATE job"}"#, in: scope)
        #expect(own.secrets.connection?.authorities == "CERTIFICATE job")
        #expect(throws: InvalidFields.self) { try patched(own, "null") }
    }

    @Test("a background session follows redirects, and its jobs have its max_attempts if it names one")
    func background() throws {
        let scope = try scope(#"{"kind":"background","redirects":{"policy":"reject","max":3}}"#)
        let job = try download(in: scope)
        #expect(job.spec.redirects.policy == .follow && job.spec.redirects.countMax == 3)
        #expect(job.spec.retry.attemptCountMax == Limits.jobAttemptCountMax)
        let bounded = try self.scope(#"{"kind":"background","retry":{"max_attempts":2}}"#)
        #expect(try download(in: bounded).spec.retry.attemptCountMax == 2)
        let delayed = try self.scope(#"{"kind":"background","retry":{"max_delay":20}}"#)
        #expect(try download(in: delayed).spec.retry.attemptCountMax == Limits.jobAttemptCountMax)
    }

    @Test("the receiver of a session's webhook is checked again when a job is submitted")
    func egress() throws {
        let scope = try scope(Self.secrets)
        let refused = { (members: String) -> [[String]] in
            let text =
                #"{"kind":"data","session":"s","request":{"url":"https://a.example/","proxy":null}\#(members)}"#
            do {
                _ = try JobRequest(
                    JSONView(parsing: Array(text.utf8)), node: ableNode, sessions: scope,
                    refusal: { $0.host == "b.example" ? "Not there." : nil })
                return []
            } catch {
                return (error as? InvalidFields)?.errors.map { [$0.pointer, $0.code] } ?? []
            }
        }
        #expect(refused("") == [["#/webhook", "blocked_address"]])
        #expect(refused(#","webhook":null"#).isEmpty)
        #expect(refused(#","webhook":{"url":"https://c.example/"}"#).isEmpty)
    }

    @Test("events that a session's webhook does not name are those of each job")
    func events() throws {
        let scope = try scope(#"{"webhook":{"url":"https://b.example/"}}"#)
        #expect(try download(in: scope).spec.webhook?.events == EventType.standard)
        let acknowledged = try download(#""acknowledgement":{}"#, in: scope).spec.webhook?.events
        #expect(acknowledged == EventType.standard + AcknowledgementRules.events)
        let session = try JSON.parse(SessionOverview(#require(scope.record("s"))).shown())
        #expect(session["webhook"]?["events"]?.array?.count == EventType.standard.count)
        let named = try self.scope(
            #"{"webhook":{"url":"https://b.example/","events":["job.started"]}}"#)
        #expect(try download(#""acknowledgement":{}"#, in: named).spec.webhook?.events == [.jobStarted])
    }
}
