import FerryCore
import Testing

@Suite("Questions about jobs")
struct QuestionTests {
    private let now = Timestamp(microseconds: 5_000_000)
    private let hop = JobQuestion.Hop(
        url: "https://b.example/x", method: "GET", sendsBody: false, redirectCount: 1, hasDroppedBody: true,
        hasActed: false, keepsCredentials: false)
    private let spaces = [
        JobQuestion.ProtectionSpace(url: "https://a.example:443", realm: "r", method: .digest),
        JobQuestion.ProtectionSpace(url: "https://a.example:443", realm: nil, method: .basic),
    ]

    private var subjects: [JobQuestion.Subject] {
        [.begin, .redirect(status: 302, hop), .challenge(spaces, previousFailureCount: 2)]
    }

    private func draft(_ more: String = "") throws -> JobRequest {
        let job = try decode(#"{"kind":"data","request":{"url":"https://a.example/"}\#(more)}"#)
        return JobRequest(job.spec, job.secrets)
    }

    private func answer(_ text: String, to kind: JobQuestion.Kind) throws -> JobAnswer {
        try JobAnswer(JSONView(parsing: Array(text.utf8)), to: kind)
    }

    private func resolved(
        _ subject: JobQuestion.Subject, _ text: String, _ draft: JobRequest
    ) throws -> AnswerResolution {
        let question = JobQuestion(subject, askedAt: now, timeout: 60)
        return try draft.answered(
            question, answer(text, to: question.kind), from: AnswerSource(.api, name: "key_1"), at: now,
            attempt: 1, refusal: { $0.host == "evil.example" ? "No." : nil })
    }

    private func goingOn(
        _ subject: JobQuestion.Subject, _ text: String, _ draft: JobRequest
    ) throws -> JobRequest {
        guard case .goOn(let draft) = try resolved(subject, text, draft) else {
            throw StoredJSONErrorStandIn()
        }
        #expect(try JobSpec(storedJSON: draft.spec.encodeStored()) == draft.spec)
        return draft
    }

    private struct StoredJSONErrorStandIn: Error {}

    @Test("a stored question is read back unchanged")
    func roundTrip() throws {
        for subject in subjects {
            let question = JobQuestion(subject, askedAt: now, timeout: 60)
            #expect(try JobQuestion(storedJSON: question.encode(.inverted)) == question)
            #expect(question.expiresAt == now + 60)
        }
    }

    @Test("a question accepts its own dispositions with their members only")
    func dispositions() throws {
        for kind in JobQuestion.Kind.allCases {
            for disposition in JobAnswer.Disposition.allCases {
                var text = #"{"disposition":"\#(disposition.rawValue)""#
                if disposition == .useCredential { text += #","credential":{"token":"t"}"# }
                if disposition == .useNewRequest { text += #","request":{"url":"https://c.example/"}"# }
                let isPossible = kind.dispositions.contains(disposition)
                let refused = #expect(throws: InvalidFields.self) {
                    try answer(#"{"disposition":"x"}"#, to: kind)
                }
                let names = refused?.errors.first?.detail.dropLast().split(separator: ": ").last ?? ""
                let isNamed = names.split(separator: ", ").contains { $0 == disposition.rawValue }
                #expect(isNamed == isPossible, "\(kind): \(names)")
                #expect(((try? answer(text + "}", to: kind)) != nil) == isPossible, "\(kind) \(disposition)")
            }
        }
        for wrong in [
            "{}", "[]", #"{"disposition":7}"#, #"{"disposition":"cancel","x":1}"#,
            #"{"disposition":"use_credential"}"#, #"{"disposition":"cancel","credential":{"token":"t"}}"#,
            #"{"disposition":"use_credential","credential":{"user":"u","token":"t"}}"#,
            #"{"disposition":"use_credential","credential":{"user":"u\n","password":""}}"#,
        ] {
            #expect(throws: InvalidFields.self, "\(wrong)") { try answer(wrong, to: .challenge) }
        }
    }

    @Test("an answer can name the question by asked_at")
    func askedAt() throws {
        let named = try answer(
            #"{"disposition":"cancel","asked_at":"1970-01-01T00:00:05.000001Z"}"#, to: .begin)
        #expect(named.askedAt == Timestamp(microseconds: 5_000_001))
        #expect(try answer(#"{"disposition":"cancel","asked_at":null}"#, to: .begin).askedAt == nil)
        #expect(throws: InvalidFields.self) {
            try answer(#"{"disposition":"cancel","asked_at":"now"}"#, to: .begin)
        }
    }

    @Test("an approved redirect is the start of the next attempt only")
    func follow() throws {
        let after = try goingOn(.redirect(status: 302, hop), #"{"disposition":"follow"}"#, draft())
        #expect(after.spec.startHop(attempt: 2) == hop && after.spec.startHop(attempt: 3) == nil)
        var again = after.spec
        again.repeat(at: now)
        #expect(again.startHop(attempt: 2) == nil, "a repeated job begins at its own URL")
        #expect(after.spec.answers?.approved == [hop.url])
        #expect(after.spec.answers?.last?.source.name == "key_1")
        let rejected = try goingOn(.redirect(status: 302, hop), #"{"disposition":"reject"}"#, draft())
        #expect(rejected.spec.answers?.rejectsRedirects == true)
    }

    @Test("the number of approved redirects is limited")
    func manyRedirects() throws {
        var answers = JobAnswers()
        for number in 0..<(2 * Limits.redirectCountMax) { answers.approve("https://b.example/\(number)") }
        #expect(answers.approved.count == Limits.redirectCountMax)
        #expect(answers.approved.last == "https://b.example/\(2 * Limits.redirectCountMax - 1)")
    }

    @Test("a credential is encrypted and replaces the refused one; the wrong kind is rejected")
    func credential() throws {
        let before = try draft().merging(
            JSONView(parsing: Array(#"{"request":{"headers":{"Authorization":"Bearer old"}}}"#.utf8)),
            refusal: { _ in nil })
        let challenge = JobQuestion.Subject.challenge(spaces, previousFailureCount: 1)
        let text = #"{"disposition":"use_credential","credential":{"user":"u","password":"hush"}}"#
        let after = try goingOn(challenge, text, before)
        #expect(after.spec.request.connection?.authentication?.scheme == .digest)
        #expect(after.secrets.connection?.password == "hush" && after.secrets.headers.isEmpty)
        #expect(after.spec.request.headers.isEmpty && after.spec.answers?.failureCount == 1)
        #expect(!String(decoding: after.spec.encodeStored(), as: UTF8.self).contains("hush"))
        let token = #"{"disposition":"use_credential","credential":{"token":"t"}}"#
        #expect(throws: InvalidFields.self) { try resolved(challenge, token, draft()) }
    }

    @Test("after a rejected protection space the next one is asked about; after the last the job fails")
    func spacesLeft() throws {
        let reject = #"{"disposition":"reject_protection_space"}"#
        let first = try resolved(.challenge(spaces, previousFailureCount: 0), reject, draft())
        guard case .ask(let next, _) = first, case .challenge(let left, _) = next.subject else {
            Issue.record("\(first)")
            return
        }
        #expect(left == Array(spaces.dropFirst()))
        guard case .fail(let error, _) = try resolved(next.subject, reject, draft()) else {
            Issue.record("it should fail")
            return
        }
        #expect(error.code == .authenticationRequired)
        guard case .cancel = try resolved(.begin, #"{"disposition":"cancel"}"#, draft()) else {
            Issue.record("it should be cancelled")
            return
        }
    }

    @Test("use_new_request changes the request under the rules of a patch")
    func newRequest() throws {
        let text =
            #"{"disposition":"use_new_request","request":{"url":"https://c.example/","headers":{"A":"b"}}}"#
        let after = try goingOn(.begin, text, draft())
        #expect(after.spec.request.url == "https://c.example/" && after.spec.answers?.isConfirmed == true)
        #expect(after.spec.request.headers == [.init("A", "b")])
        let evil = #"{"disposition":"use_new_request","request":{"url":"https://evil.example/"}}"#
        #expect(throws: InvalidFields.self) { try resolved(.begin, evil, draft()) }
        let method = #"{"disposition":"use_new_request","request":{"method":"PUT"}}"#
        let put = try goingOn(.begin, method, draft())
        #expect(put.spec.request.method == "PUT" && !put.replacesPayload)
        let body = #"{"disposition":"use_new_request","request":{"method":"POST","body":{"text":"é"}}}"#
        let posted = try goingOn(.begin, body, draft())
        #expect(posted.replacesPayload && posted.payload == Array("é".utf8))
        let without = #"{"disposition":"use_new_request","request":{"body":{"text":"a"}}}"#
        #expect(throws: InvalidFields.self) { try resolved(.begin, without, draft()) }
    }

    @Test("question rules are read, stored and shown; jobs that cannot ask are rejected")
    func rules() throws {
        let more =
            #","on_challenge":"ask","redirects":{"policy":"ask"},"schedule":{"confirm_before_begin":true},"#
            + #""questions":{"timeout":5,"begin":"cancel","redirect":"follow","challenge":"cancel"}"#
        let spec = try draft(more).spec
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        #expect(spec.awaitsConfirmation && spec.asksOnChallenge && spec.redirects.policy == .ask)
        #expect(spec.questions.answer(to: .redirect).disposition == .follow)
        #expect(try JSON.parse(spec.encode())["questions"]?["timeout"]?.double == 5)
        let standard = QuestionRules()
        #expect(standard.answer(to: .begin).disposition == .continueLoading)
        #expect(standard.answer(to: .redirect).disposition == .reject)
        #expect(standard.answer(to: .challenge).disposition == .performDefaultHandling)
        let parts = #"{"kind":"download","request":{"url":"http://a.example/"},"segments":2,"#
        #expect(errors(parts + #""on_challenge":"ask"}"#).map(\.pointer) == ["#/on_challenge"])
        #expect(
            errors(parts + #""redirects":{"policy":"ask"}}"#).map(\.pointer) == ["#/redirects/policy"])
        let post = #"{"kind":"data","request":{"url":"http://a.example/","method":"POST"},"#
        #expect(
            errors(post + #""redirects":{"policy":"ask"}}"#).map(\.pointer) == ["#/redirects/policy"])
        #expect(errors(post + #""redirects":{"policy":"ask"},"retry":{"non_idempotent":true}}"#).isEmpty)
    }

    @Test("challenges of RFC 9110 are parsed from one or more fields")
    func challenges() {
        let read = { (fields: [String]) in
            AuthenticationChallenge.all(in: fields).map { "\($0.scheme) \($0.realm ?? "-")" }
        }
        #expect(read([#"Basic realm="simple", charset="UTF-8""#]) == ["basic simple"])
        #expect(
            read([#"Digest realm="a \"b\", c", nonce="x==", qop="auth", Basic realm="z""#])
                == [#"digest a "b", c"#, "basic z"])
        #expect(
            read(["Negotiate", "NTLM abc==, Basic realm=plain"]) == ["negotiate -", "ntlm -", "basic plain"])
        #expect(read(["Digest realm = \"r\"\t, nonce =\"n\", qop= auth"]) == ["digest r"])
        let isSpaced = { (field: String) in
            AuthenticationChallenge.all(in: [field]).map(\.hasSpacedParameter)
        }
        #expect(isSpaced("Digest realm=r , nonce=n, Basic realm =b, Basic realm= b") == [false, true, true])
        #expect(read(["Basic , , Bearer error=\"x\""]) == ["basic -", "bearer -"])
        #expect(read(["", ",", "\"", "=", "Basic realm=\"open"]).last == "basic -")
        let offered = JobQuestion.ProtectionSpace.offered(
            by: [#"Basic realm="b", Digest realm="d""#, "Negotiate"], from: "https://a.example:443")
        #expect(offered.map(\.method) == [.digest, .basic] && offered.map(\.realm) == ["d", "b"])
        #expect(JobQuestion.ProtectionSpace.offered(by: ["Negotiate"], from: "").isEmpty)
    }
}
