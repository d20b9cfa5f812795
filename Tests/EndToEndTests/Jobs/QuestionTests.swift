import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Questions about jobs", .onOwnThread)
struct QuestionTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Returns an origin: `/r` redirects to `/f`, `/broken` answers 500, `/secret` requires `u:p`, other
    /// paths answer 200.
    private func makeOrigin(_ challenges: String = #"Basic realm="room""#) throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, _ in
            var head = "200 OK"
            if request.path == "/r" { head = "302 Found\r\nLocation: /f" }
            if request.path == "/broken" { head = "500 Oops" }
            if request.path == "/secret",
                request.header("authorization") != "Basic " + Base64.encode(Array("u:p".utf8))
            {
                head = "401 Unauthorized\r\nWWW-Authenticate: \(challenges)"
            }
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
    }

    private func awaitQuestion(_ id: String, _ kind: String) throws -> JSON {
        let isAsked = becomes { try ferry.json("GET", "/v1/jobs/\(id)")["question"]?["kind"]?.string == kind }
        let job = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(isAsked && job["state"]?.string == "waiting", "\(job)")
        return job
    }

    private func answer(_ id: String, _ verb: String, _ body: String) throws -> (status: Int, json: JSON) {
        let response = try ferry.call("POST", "/v1/jobs/\(id)/\(verb)", body)
        return (response.status, try response.json)
    }

    /// Returns the target of the redirect that the question is about.
    private static func target(_ job: JSON?) -> String? { job?["question"]?["redirect"]?["url"]?.string }

    private func paths(_ origin: ScriptedOrigin) -> [String] { origin.requests.map(\.path) }

    @Test("a job with confirm_before_begin begins after the webhook's answer and shows answered_by")
    func webhook() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let events = Signal<JSON>()
        let receiver = try ScriptedOrigin.answering { _, body in
            events.fire((try? JSON.parse(body)) ?? .null)
            let answer = #"{"disposition":"continue_loading"}"#
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(answer.utf8.count)\r\n\r\n\(answer)".utf8)
        }
        defer { receiver.stop() }
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(origin.url)/f"},"schedule":{"confirm_before_begin":true},"#
                + #""webhook":{"url":"\#(receiver.url)/h","events":["job.will_begin"]}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["answered_by"]?["by"]?.string == "webhook" && job["question"]?.isNull == true)
        #expect(job["answered_by"]?["name"]?.string?.hasPrefix("dlv_") == true)
        let event = try #require(events.wait(for: 1).first)
        #expect(event["type"]?.string == "job.will_begin")
        #expect(event["data"]?["job"]?["waiting_for"]?.string == "confirmation", "\(event)")
    }

    @Test("an API answer can replace the request; a wrong or second answer is rejected")
    func begin() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
                + #""schedule":{"confirm_before_begin":true}}"#)
        let job = try awaitQuestion(id, "begin")
        #expect(job["waiting_reason"]?["code"]?.string == "confirmation")
        #expect(job["question"]?["expires_at"] == job["waiting_reason"]?["next_check_at"])
        #expect(try answer(id, "begin", #"{"disposition":"follow"}"#).status == 422)
        let unknown = try answer(id, "begin", #"{"disposition":"x"}"#).json
        let possible = unknown["errors"]?.array?.first?["detail"]?.string
        #expect(possible == "This must be one of: continue_loading, use_new_request, cancel.")
        let refused = try answer(id, "redirect", #"{"disposition":"follow"}"#)
        #expect(refused.status == 409 && refused.json["waiting_for"]?.string == "confirmation")
        #expect(refused.json["detail"]?.string?.contains("confirmation") == true)
        let new =
            #"{"disposition":"use_new_request","request":{"url":"\#(origin.url)/f","headers":{"X-A":"b"}}}"#
        #expect(try answer(id, "begin", new).status == 200)
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["answered_by"]?["by"]?.string == "api")
        #expect(end["answered_by"]?["disposition"]?.string == "use_new_request")
        #expect(origin.requests.first?.header("x-a") == "b")
        #expect(try answer(id, "begin", #"{"disposition":"cancel"}"#).status == 409)
    }

    @Test("after questions.timeout the configured answer applies; a cancelled job sends no request")
    func timeout() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let body = { (begin: String) in
            #"{"kind":"data","request":{"url":"\#(origin.url)/f"},"schedule":{"confirm_before_begin":true},"#
                + #""questions":{"timeout":1,"begin":"\#(begin)"}}"#
        }
        let cancelled = try ferry.run(body("cancel"))
        #expect(cancelled["state"]?.string == "cancelled", "\(cancelled)")
        #expect(cancelled["answered_by"]?["by"]?.string == "timeout" && paths(origin).isEmpty)
        let begun = try ferry.run(body("continue_loading"))
        #expect(begun["state"]?.string == "succeeded" && paths(origin) == ["/f"], "\(begun)")
    }

    @Test("an answered redirect is followed from its target; a rejected one is the result")
    func redirect() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let body =
            #"{"kind":"data","request":{"url":"\#(origin.url)/r"},"redirects":{"policy":"ask"}}"#
        let id = try ferry.submit(body)
        let job = try awaitQuestion(id, "redirect")
        #expect(job["waiting_for"]?.string == "redirect" && job["node"]?.isNull == true)
        #expect(job["question"]?["redirect"]?["url"]?.string == "\(origin.url)/f")
        #expect(job["question"]?["redirect"]?["status"]?.integer == 302)
        #expect(job["question"]?["redirect"]?["keeps_credentials"] == nil)
        #expect(try answer(id, "redirect", #"{"disposition":"follow"}"#).status == 200)
        let end = try ferry.finished(id)
        #expect(end["result"]?["body"]?.string == "ok", "\(end)")
        #expect(paths(origin) == ["/r", "/f"])
        #expect(end["response"]?["url"]?.string == "\(origin.url)/f")
        let other = try ferry.submit(body)
        _ = try awaitQuestion(other, "redirect")
        #expect(try answer(other, "redirect", #"{"disposition":"reject"}"#).status == 200)
        #expect(try ferry.finished(other)["response"]?["status"]?.integer == 302)
        let attempts = try ferry.json("GET", "/v1/jobs/\(other)/attempts")["data"]?.array ?? []
        #expect(attempts.map { $0["outcome"]?.string } == ["asked", "succeeded"], "\(attempts)")
    }

    @Test("a begun job rejects changes of its begin with 409 and keeps its question or retry time")
    func begun() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let patch = #"{"schedule":{"discretionary":true}}"#
        let redirected = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/r"},"redirects":{"policy":"ask"}}"#)
        _ = try awaitQuestion(redirected, "redirect")
        #expect(try ferry.call("PATCH", "/v1/jobs/\(redirected)", patch).status == 409)
        _ = try awaitQuestion(redirected, "redirect")
        #expect(try answer(redirected, "redirect", #"{"disposition":"follow"}"#).status == 200)
        #expect(try ferry.finished(redirected)["state"]?.string == "succeeded")
        let failing = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/broken"},"#
                + #""retry":{"initial_delay":600,"max_delay":600}}"#)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(failing)")["waiting_for"]?.string == "retry" })
        let before = try ferry.json("GET", "/v1/jobs/\(failing)")
        for begin in [patch, #"{"schedule":{"earliest_begin_at":"2040-01-01T00:00:00Z"}}"#] {
            #expect(try ferry.call("PATCH", "/v1/jobs/\(failing)", begin).status == 409)
        }
        let after = try ferry.json("GET", "/v1/jobs/\(failing)")
        #expect(after["waiting_for"]?.string == "retry", "\(after)")
        #expect(after["next_attempt_at"] == before["next_attempt_at"])
        #expect(try ferry.call("POST", "/v1/jobs/\(failing)/cancel", "{}").status == 200)
    }

    @Test("a challenge accepts a credential, counts refused ones, and shows no secret")
    func challenge() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/secret"},"on_challenge":"ask"}"#)
        let job = try awaitQuestion(id, "challenge")
        let space = job["question"]?["challenge"]?["protection_space"]
        #expect(space?["realm"]?.string == "room" && space?["authentication_method"]?.string == "basic")
        #expect(job["question"]?["challenge"]?["previous_failure_count"]?.integer == 0)
        let wrong = #"{"disposition":"use_credential","credential":{"user":"u","password":"hush"}}"#
        let first = try answer(id, "challenge", wrong)
        #expect(first.status == 200)
        let isAgain = becomes {
            let challenge = try ferry.json("GET", "/v1/jobs/\(id)")["question"]?["challenge"]
            return challenge?["previous_failure_count"]?.integer == 1
        }
        #expect(isAgain)
        let right = #"{"disposition":"use_credential","credential":{"user":"u","password":"p"}}"#
        #expect(try answer(id, "challenge", right).status == 200)
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(!"\(end)".contains("hush") && end["request"]?["auth"]?["password"]?["set"]?.bool == true)
    }

    @Test("a webhook's answer applies only to the question of its delivery, not to a later one")
    func earlierQuestion() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let next = ["/a": "/b", "/b": "/c"][request.path]
            let head = next.map { "302 Found\r\nLocation: \($0)" } ?? "200 OK"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let receiver = try ScriptedOrigin.answering { [url = origin.url] _, body in
            let isFirst = Self.target((try? JSON.parse(body))?["data"]?["job"]) == "\(url)/b"
            let another = #"{"disposition":"follow","asked_at":"2000-01-01T00:00:00Z"}"#
            let answer = isFirst ? #"{"disposition":"follow"}"# : another
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(answer.utf8.count)\r\n\r\n\(answer)".utf8)
        }
        defer { receiver.stop() }
        let id = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/a"},"redirects":{"policy":"ask"},"#
                + #""webhook":{"url":"\#(receiver.url)/h","events":["job.redirect"]}}"#)
        let isSecond = { Self.target(try ferry.json("GET", "/v1/jobs/\(id)")) == "\(origin.url)/c" }
        #expect(becomes(isSecond))
        let deliveries = {
            let all = try ferry.json("GET", "/v1/jobs/\(id)/deliveries")["data"]?.array ?? []
            return all.filter { $0["url"]?.string == receiver.url + "/h" }
        }
        #expect(becomes { try deliveries().count { $0["state"]?.string == "accepted" } == 2 })
        // Redelivers both questions; the first delivery gets the same answer as before.
        for delivery in try deliveries() {
            let path = "/v1/deliveries/\(delivery["id"]?.string ?? "")"
            #expect(try ferry.call("POST", path + "/redeliver", "{}").status == 200)
            #expect(becomes { try ferry.json("GET", path)["tries"]?.array?.count == 2 })
        }
        #expect(try isSecond() && paths(origin) == ["/a", "/b"], "the redirect to /c is not answered yet")
        #expect(try answer(id, "redirect", #"{"disposition":"follow"}"#).status == 200)
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
    }

    @Test("a change of the request withdraws the question; an answer to the old question gets 409")
    func changedRequest() throws {
        let (origin, other) = (try makeOrigin(), try makeOrigin())
        defer {
            origin.stop()
            other.stop()
        }
        let id = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/secret"},"on_challenge":"ask"}"#)
        let first = try awaitQuestion(id, "challenge")["question"]?["asked_at"]?.string ?? ""
        let otherURL = #"{"request":{"url":"\#(other.url)/secret"}}"#
        let changed = try ferry.call("PATCH", "/v1/jobs/\(id)", otherURL)
        #expect(try changed.status == 200 && changed.json["question"]?.isNull == true)
        let isAskedAnew = becomes {
            let challenge = try ferry.json("GET", "/v1/jobs/\(id)")["question"]?["challenge"]
            return challenge?["protection_space"]?["url"]?.string == other.url
        }
        #expect(isAskedAnew)
        // A change of another field leaves the question open.
        let before = try ferry.json("GET", "/v1/jobs/\(id)")["question"]
        let described = try ferry.call("PATCH", "/v1/jobs/\(id)", #"{"description":"x"}"#)
        #expect(try described.status == 200 && described.json["question"] == before)
        // The answer with the earlier question's asked_at is rejected.
        let cancel = { (askedAt: String) in
            try answer(id, "challenge", #"{"disposition":"cancel","asked_at":"\#(askedAt)"}"#)
        }
        let late = try cancel(first)
        #expect(late.status == 409 && late.json["code"]?.string == "invalid_state", "\(late.json)")
        #expect(late.json["detail"]?.string?.contains("asked_at") == true, "\(late.json)")
        let inTime = try cancel(before?["asked_at"]?.string ?? "")
        #expect(inTime.status == 200 && inTime.json["state"]?.string == "cancelled", "\(inTime.json)")
    }

    @Test("each rejected protection space leads to the next challenge; the last one fails the job")
    func rejected() throws {
        let origin = try makeOrigin(#"Basic realm="b", Digest realm="d", nonce="n""#)
        defer { origin.stop() }
        let body =
            #"{"kind":"data","request":{"url":"\#(origin.url)/secret"},"on_challenge":"ask","#
            + #""accept":{"status":["2xx"]}}"#
        let id = try ferry.submit(body)
        let method = { (job: JSON) in
            job["question"]?["challenge"]?["protection_space"]?["authentication_method"]?.string
        }
        #expect(method(try awaitQuestion(id, "challenge")) == "digest")
        let reject = #"{"disposition":"reject_protection_space"}"#
        #expect(method(try answer(id, "challenge", reject).json) == "basic")
        let end = try answer(id, "challenge", reject).json
        #expect(end["state"]?.string == "failed", "\(end)")
        #expect(end["error"]?["code"]?.string == "authentication_required")
        #expect(paths(origin) == ["/secret"])
        let other = try ferry.submit(body)
        _ = try awaitQuestion(other, "challenge")
        #expect(try answer(other, "challenge", #"{"disposition":"perform_default_handling"}"#).status == 200)
        #expect(try ferry.finished(other)["error"]?["code"]?.string == "authentication_required")
    }

    @Test("a question holds no slot, survives kill -9, and is withdrawn by a suspension")
    func survives() throws {
        let database = try TestDatabase()
        let own = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_CONCURRENCY": "1"])
        defer { own.remove() }
        let origin = try makeOrigin()
        defer { origin.stop() }
        let body = #"{"kind":"data","request":{"url":"\#(origin.url)/r"},"redirects":{"policy":"ask"}}"#
        let ids = try [own.submit(body), own.submit(body)]
        let isAsked = { (id: String) in
            becomes { try own.json("GET", "/v1/jobs/\(id)")["question"]?["kind"]?.string == "redirect" }
        }
        #expect(isAsked(ids[0]) && isAsked(ids[1]), "both, with one slot")
        own.kill9()
        try own.start()
        let follow = #"{"disposition":"follow"}"#
        #expect(try own.call("POST", "/v1/jobs/\(ids[0])/redirect", follow).status == 200)
        #expect(try own.finished(ids[0])["state"]?.string == "succeeded")
        let suspended = try own.json("POST", "/v1/jobs/\(ids[1])/suspend", "{}")
        #expect(suspended["state"]?.string == "suspended" && suspended["question"]?.isNull == true)
        #expect(try own.call("POST", "/v1/jobs/\(ids[1])/redirect", follow).status == 409)
        #expect(try own.call("POST", "/v1/jobs/\(ids[1])/resume", "{}").status == 200)
        #expect(isAsked(ids[1]), "it is asked again")
        #expect(try own.call("POST", "/v1/jobs/\(ids[1])/cancel", "{}").status == 200)
        #expect(try own.unfinishedCount() == 0)
    }
}
