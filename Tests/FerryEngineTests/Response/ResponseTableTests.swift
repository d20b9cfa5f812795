import FerryCore
import Testing

@testable import FerryEngine

/// The decision table of responses: laws over all combinations of request, response and known file, and its
/// rows.
@Suite struct ResponseTableTests {
    private typealias Step = ResponseTable.Step

    private static let now = Timestamp(microseconds: 784_111_777_000_000)
    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    private static let total: Int64 = 1_000
    private static let url = "http://a.example/file"

    private static func head(_ status: Int, _ fields: [(String, String)] = []) -> ResponseHead {
        var head = ResponseHead(status: status, isHTTP1: true)
        for (name, value) in fields { head.append(name, value) }
        return head
    }

    private static func hop(_ method: String = "GET", at url: String = url) throws -> Hop {
        Hop(url: try WebURL.parse(url), method: method, sendsBody: false)
    }

    private static func spec(_ kind: JobKind, _ change: (inout JobSpec) -> Void = { _ in }) -> JobSpec {
        var spec = JobSpec()
        spec.kind = kind
        spec.request = .init(url: url, method: kind == .upload ? "PUT" : "GET")
        change(&spec)
        return spec
    }

    private static func known(_ validator: Validator?, total: Int64? = total) throws -> KnownFile {
        KnownFile(
            validator: validator, total: total, source: PartialRecord.source(of: try WebURL.parse(url)))
    }

    private static func step(
        _ spec: JobSpec, _ head: ResponseHead, from start: Int64? = nil, ifRange: Bool = true,
        _ known: KnownFile? = nil, _ hop: Hop? = nil
    ) throws -> Step {
        let requested = ResponseTable.Requested(
            hop: try hop ?? Self.hop(spec.request.method), range: start.map { $0..<Int64.max },
            hasIfRange: start != nil && ifRange)
        return ResponseTable(spec: spec).step(requested, head, known, now: now)
    }

    // MARK: Laws

    /// Validators of the file in a response.
    private static let marks: [[(String, String)]] = [
        [], [("ETag", "\"one\"")], [("ETag", "\"two\"")], [("ETag", "W/\"one\"")], [("ETag", "one")],
        [("ETag", "\"one\""), ("ETag", "\"one\"")], [("Last-Modified", date)],
        [("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT")],
        [("ETag", "W/\"one\""), ("Last-Modified", date)],
    ]
    private static let ranges = [
        "bytes 500-999/1000", "bytes 0-999/1000", "bytes 400-999/1000", "bytes 500-599/1000",
        "bytes 501-999/1000", "bytes 0-499/1000", "bytes 500-999/*", "bytes 500-599/*", "bytes 500-999/1001",
        "bytes 500-1000/1001", "bytes=500-999/1000", "500-999/1000", "lines 500-999/1000", "bytes */1000",
        "bytes 999-500/1000", "bytes 500-1000/1000", "",
    ]
    private static let codings: [[(String, String)]] = [[], [("Content-Encoding", "x-gzip")]]

    @Test("bytes continue a file only with its validator and length, or if a digest proves them")
    func proof() throws {
        let validators: [Validator?] = [.entityTag("\"one\""), .lastModified(FieldOctets(Self.date)), nil]
        var taken = 0
        for validator in validators {
            for hasDigest in [false, true] {
                let spec = Self.spec(.download) { if hasDigest { $0.integrity.sha256 = "00" } }
                for (mark, range) in Self.marks.flatMap({ mark in Self.ranges.map { (mark, $0) } }) {
                    for coding in Self.codings {
                        let fields = mark + coding + [("Content-Range", range)]
                        let step = try Self.step(
                            spec, Self.head(206, fields), from: 500, try Self.known(validator))
                        guard case .take(let body) = step else {
                            guard case .again(.withoutRange) = step else {
                                Issue.record("\(fields): \(step)")
                                continue
                            }
                            continue
                        }
                        taken += 1
                        #expect(body.continues && coding.isEmpty)
                        let found = try #require(ContentRange(Self.head(206, fields)))
                        #expect(found.total ?? Self.total == Self.total)
                        #expect(found.first == 500 - body.skip && found.last + 1 == body.end)
                        #expect(found.last >= 500)
                        let isSame: Bool =
                            switch validator {
                            case .entityTag: mark.map(\.1) == ["\"one\""]
                            // A date may be missing, and so may its entity tag.
                            case .lastModified: mark.isEmpty || mark.contains { $0.1 == Self.date }
                            case nil: false
                            }
                        #expect(isSame || hasDigest, "\(fields)")
                    }
                }
            }
        }
        #expect(taken > 50)
    }

    @Test("a request that is not idempotent is repeated only if the job allows it, or nothing was done")
    func nonIdempotent() throws {
        for kind in [JobKind.download, .upload, .data] {
            for status in 200..<600 where status != 425 && status != 429 {
                for retried in [nil, ["2xx", "3xx", "4xx", "5xx"]] as [[StatusPattern]?] {
                    let spec = Self.spec(kind) {
                        $0.request.method = "POST"
                        $0.redirects.policy = .reject
                        $0.retry.statuses = retried
                    }
                    let step = try Self.step(spec, Self.head(status, [("Retry-After", "1")]))
                    switch step {
                    case .take: break
                    case .refuse(let error, let retryAfter):
                        #expect(!error.isRetryable && retryAfter == nil, "\(kind) \(status)")
                    default: Issue.record("\(kind) \(status): \(step)")
                    }
                }
            }
        }
    }

    // MARK: Rows

    @Test("an error status to a range leads to the same request without it, before Retry-After")
    func refusedRange() throws {
        for status in [400, 403, 404, 405, 406, 409, 410, 412, 416, 422, 500, 501, 505] {
            let head = Self.head(status, [("Retry-After", "1")])
            guard
                case .again(.withoutRange(.refused)) = try Self.step(
                    Self.spec(.download), head, from: 500, try Self.known(.entityTag("\"one\"")))
            else {
                Issue.record("\(status)")
                continue
            }
            guard case .refuse(_, retryAfter: 1) = try Self.step(Self.spec(.download), head) else {
                Issue.record("\(status) without a range")
                continue
            }
        }
        for status in [401, 407, 408, 425, 429, 502, 503, 504, 520] {
            guard
                case .refuse = try Self.step(
                    Self.spec(.download), Self.head(status), from: 500, try Self.known(nil))
            else {
                Issue.record("\(status)")
                continue
            }
        }
    }

    @Test("the whole of the same file instead of a range leads to a range without If-Range, once")
    func ignoredCondition() throws {
        let known = try Self.known(.entityTag("\"one\""))
        func step(_ tag: String, length: Int = 1_000, ifRange: Bool = true, digest: Bool = false) throws
            -> Step
        {
            try Self.step(
                Self.spec(.download) { if digest { $0.integrity.sha256 = "00" } },
                Self.head(200, [("ETag", tag), ("Content-Length", "\(length)")]), from: 500, ifRange: ifRange,
                known)
        }
        guard case .again(.withoutIfRange) = try step("\"one\"") else {
            Issue.record("the same tag")
            return
        }
        guard case .again(.withoutIfRange) = try step("\"two\"", digest: true) else {
            Issue.record("another back end's tag, and a digest")
            return
        }
        for step in [
            try step("\"one\"", ifRange: false), try step("\"two\""), try step("W/\"one\""),
            try step("\"two\"", length: 1_001, digest: true),
        ] {
            guard case .take(let body) = step, !body.continues else {
                Issue.record("\(step)")
                continue
            }
        }
        guard case .again(.withoutRange(.unusable)) = try step("\"one\"", length: 999) else {
            Issue.record("a part of the same file")
            return
        }
    }

    @Test("a 206 without a range in the request is taken if it is whole, or begins a file that can continue")
    func unrequestedPart() throws {
        let rows: [(range: String, tag: String?, isTaken: Bool)] = [
            ("bytes 0-999/1000", nil, true), ("bytes 0-599/1000", "\"one\"", true),
            ("bytes 0-599/1000", nil, false), ("bytes 0-599/1000", "W/\"one\"", false),
            ("bytes 0-999/*", "\"one\"", false), ("bytes 1-999/1000", "\"one\"", false),
            ("", "\"one\"", false), ("bytes 0-999", "\"one\"", false),
        ]
        for (range, tag, isTaken) in rows {
            let head = Self.head(206, [("Content-Range", range)] + (tag.map { [("ETag", $0)] } ?? []))
            switch try Self.step(Self.spec(.download), head) {
            case .take(let body):
                #expect(isTaken && body.total == 1_000 && body.end == ContentRange(head).map { $0.last + 1 })
            case .refuse(let error, _): #expect(!isTaken && error.code == .responseInvalid, "\(range)")
            case let step: Issue.record("\(range): \(step)")
            }
        }
    }

    @Test("202, 204 and 205 are the file of a download only if the job names them; 202 is waited for")
    func withoutFile() throws {
        for status in [202, 204, 205] {
            for kind in [JobKind.download, .upload, .data] {
                for named in [[], ["2xx"], ["\(status)"], ["200"]] as [[StatusPattern]] {
                    let spec = Self.spec(kind) { $0.accept.status = named }
                    let step = try Self.step(spec, Self.head(status, [("Retry-After", "3")]))
                    let isAccepted = named.isEmpty ? kind != .download : named != ["200"]
                    switch step {
                    case .take: #expect(isAccepted, "\(kind) \(status) \(named)")
                    case .refuse(let error, let retryAfter):
                        #expect(!isAccepted, "\(kind) \(status) \(named)")
                        let isWaitedFor = status == 202 && kind == .download
                        #expect(error.isRetryable == isWaitedFor && (retryAfter == 3) == isWaitedFor)
                        #expect(error.cost == (isWaitedFor ? .none : .attempt))
                    default: Issue.record("\(kind) \(status): \(step)")
                    }
                }
            }
        }
    }

    @Test("retry.statuses widens or narrows what is retried, also with Retry-After")
    func retryStatuses() throws {
        func isRetried(_ status: Int, _ statuses: [StatusPattern]?, _ kind: JobKind = .download) throws
            -> Bool
        {
            let spec = Self.spec(kind) { $0.retry.statuses = statuses }
            let step = try Self.step(spec, Self.head(status, [("Retry-After", "3")]))
            guard case .refuse(let error, let retryAfter) = step else { return false }
            #expect((retryAfter == 3) == error.isRetryable)
            return error.isRetryable
        }
        #expect(try isRetried(403, nil) && isRetried(503, nil) && isRetried(599, nil))
        #expect(try !isRetried(503, ["403"]) && isRetried(403, ["403"]))
        #expect(try isRetried(410, ["4xx"]) && !isRetried(500, ["4xx"]) && !isRetried(500, []))
        #expect(try isRetried(204, ["204"]) && isRetried(302, ["302"]))
        // Every status is a result of a data job, except those that it names.
        #expect(try !isRetried(503, nil, .data) && isRetried(503, ["503"], .data))
        // What the job accepts is no failure.
        let both = Self.spec(.data) {
            $0.retry.statuses = ["503"]
            $0.accept.status = ["503"]
        }
        guard case .take = try Self.step(both, Self.head(503)) else {
            Issue.record("an accepted status")
            return
        }
    }

    @Test("after a POST was redirected to its outcome, only the GET may be sent again")
    func outcome() throws {
        var hop = try Self.hop()
        hop.hasActed = true
        let spec = Self.spec(.data) {
            $0.request.method = "POST"
            $0.accept.status = ["200"]
        }
        guard
            case .wait(let error, retryAfter: 2) = try Self.step(
                spec, Self.head(429, [("Retry-After", "2")]), nil, hop)
        else {
            Issue.record("429")
            return
        }
        #expect(!error.isRetryable, "the job's own request is not sent again")
        guard case .refuse = try Self.step(spec, Self.head(404), nil, hop) else {
            Issue.record("404")
            return
        }
    }

    @Test("a challenge and a redirect precede a refused range")
    func order() throws {
        let spec = Self.spec(.download)
        let question = JobQuestion(.begin, askedAt: Self.now, timeout: 1)
        var requested = ResponseTable.Requested(hop: try Self.hop(), range: 500..<Int64.max)
        let table = ResponseTable(spec: spec)
        let away = Self.head(302, [("Location", "/x")])
        guard case .redirect(after: 0) = table.step(requested, away, try Self.known(nil), now: Self.now)
        else {
            Issue.record("redirect")
            return
        }
        requested.question = question
        guard case .challenge(question) = table.step(requested, away, try Self.known(nil), now: Self.now)
        else {
            Issue.record("challenge")
            return
        }
    }

    @Test("a redirect with a long Retry-After ends the attempt if the job may begin again")
    func delayedRedirect() throws {
        for (method, repeats, delay, ends) in [
            ("GET", false, 5, false), ("GET", false, 6, true), ("PUT", false, 6, true),
            ("POST", false, 6, false), ("POST", true, 6, true),
        ] {
            let spec = Self.spec(.data) {
                $0.request.method = method
                $0.retry.repeatsNonIdempotent = repeats
            }
            let head = Self.head(303, [("Location", "/x"), ("Retry-After", "\(delay)")])
            switch try Self.step(spec, head, nil, try Self.hop(method)) {
            case .redirect(let after): #expect(!ends && after == Double(delay))
            case .redirectLater(let after): #expect(ends && after == Double(delay))
            case let step: Issue.record("\(step)")
            }
        }
    }

    @Test("417 leads to the same request without Expect, and fails a request that has none")
    func expectation() throws {
        let table = ResponseTable(spec: Self.spec(.upload))
        var requested = ResponseTable.Requested(hop: try Self.hop("PUT"), expects: true)
        guard case .again(.withoutExpect) = table.step(requested, Self.head(417), nil, now: Self.now) else {
            Issue.record("with Expect")
            return
        }
        requested.expects = false
        guard case .refuse(let error, _) = table.step(requested, Self.head(417), nil, now: Self.now) else {
            Issue.record("without Expect")
            return
        }
        #expect(error.code == .unacceptableStatus && !error.isRetryable)
    }

    @Test("a body with an unusable coding is requested again without codings if the request may be repeated")
    func unusableCoding() throws {
        func change(_ method: String, asks: Bool = true, repeats: Bool = false) throws -> ResponseTable
            .Change?
        {
            let spec = Self.spec(.data) {
                $0.request.method = method
                $0.retry.repeatsNonIdempotent = repeats
            }
            let requested = ResponseTable.Requested(hop: try Self.hop(method), asksForCodings: asks)
            return ResponseTable(spec: spec).changeAfterUnusableCoding(requested)
        }
        #expect(try change("GET") == .withoutCodings)
        #expect(try change("GET", asks: false) == nil)
        #expect(try change("POST") == nil)
        #expect(try change("POST", repeats: true) == .withoutCodings)
    }

    @Test("a whole file as 206 that is decoded has no known length")
    func decodedPart() throws {
        let table = ResponseTable(spec: Self.spec(.download), isDecoded: true)
        let requested = ResponseTable.Requested(hop: try Self.hop(), asksForCodings: true)
        func step(_ range: String) -> Step {
            let fields = [("Content-Encoding", "gzip"), ("ETag", "\"one\""), ("Content-Range", range)]
            return table.step(requested, Self.head(206, fields), nil, now: Self.now)
        }
        guard case .take(let body) = step("bytes 0-999/1000"), body == ResponseTable.Body() else {
            Issue.record("whole")
            return
        }
        guard case .refuse = step("bytes 0-499/1000") else {
            Issue.record("part")
            return
        }
    }

    @Test("bytes stored with a content coding continue only with the same one and a known length")
    func codings() throws {
        let coding = [("Content-Encoding", "x-gzip"), ("ETag", "\"one\"")]
        var known = try Self.known(.entityTag("\"one\""))
        known.codings = ["gzip"]
        let spec = Self.spec(.download)
        func isTaken(_ fields: [(String, String)]) throws -> Bool {
            if case .take = try Self.step(spec, Self.head(206, fields), from: 500, known) {
                true
            } else {
                false
            }
        }
        #expect(try isTaken(coding + [("Content-Range", "bytes 500-999/1000")]))
        #expect(try !isTaken(coding + [("Content-Range", "bytes 500-999/*")]))
        #expect(try !isTaken([("ETag", "\"one\""), ("Content-Range", "bytes 500-999/1000")]))
        known.total = nil
        #expect(try !isTaken(coding + [("Content-Range", "bytes 500-999/1000")]))
    }

    @Test("another place needs a validator that it repeats, or a digest")
    func otherPlace() throws {
        let elsewhere = try Self.hop(at: "http://b.example/other")
        func isTaken(
            _ validator: Validator?, _ fields: [(String, String)],
            _ change: (inout JobSpec) -> Void = { _ in }
        ) throws -> Bool {
            let head = Self.head(206, fields + [("Content-Range", "bytes 500-999/1000")])
            let step = try Self.step(
                Self.spec(.download, change), head, from: 500, try Self.known(validator), elsewhere)
            if case .take = step { return true }
            return false
        }
        #expect(try isTaken(.entityTag("\"one\""), [("ETag", "\"one\"")]))
        #expect(try isTaken(.lastModified(FieldOctets(Self.date)), [("Last-Modified", Self.date)]))
        #expect(try !isTaken(.lastModified(FieldOctets(Self.date)), []))
        #expect(try !isTaken(.entityTag("\"one\""), [("ETag", "\"two\"")]))
        #expect(try isTaken(.entityTag("\"one\""), [("ETag", "\"two\"")]) { $0.integrity.md5 = "00" })
        #expect(try !isTaken(.entityTag("\"one\""), [("ETag", "\"two\"")]) { $0.integrity.adler32 = "00" })
        #expect(try !isTaken(nil, []) { $0.retry.resumesWithoutValidator = true })
    }

    @Test("a refused URL or credential is asked about, after all rules that accept or retry the response")
    func expired() throws {
        for kind in [JobKind.download, .upload, .data] {
            for status in [400, 401, 403, 404, 407, 410] {
                let isExpired = [401, 403, 410].contains(status)
                for (index, change) in Self.changes.enumerated() {
                    let spec = Self.spec(kind) {
                        $0.onURLExpired = .ask
                        change(&$0, status)
                    }
                    let step = try Self.step(spec, Self.head(status))
                    let asks = if case .askForURL = step { true } else { false }
                    // 401 is never retried.
                    let isAsked = isExpired && (index == 0 || index == 2 && status == 401)
                    #expect(asks == isAsked, "\(kind) \(status) \(index): \(step)")
                }
                let later = Self.head(status, [("Retry-After", "3")])
                let step = try Self.step(Self.spec(kind) { $0.onURLExpired = .ask }, later)
                let asks = if case .askForURL = step { true } else { false }
                #expect(asks == (status == 401), "\(kind) \(status): \(step)")
                let plain = try Self.step(Self.spec(kind), Self.head(status))
                if case .askForURL = plain { Issue.record("\(status)") }
            }
        }
        let spec = Self.spec(.download) { $0.onURLExpired = .ask }
        let part = try Self.step(spec, Self.head(403), from: 500, try Self.known(.entityTag("\"one\"")))
        guard case .again(.withoutRange(.refused)) = part else {
            Issue.record("\(part)")
            return
        }
        var hop = try Self.hop()
        hop.hasActed = true
        let acted = try Self.step(spec, Self.head(403), nil, hop)
        if case .askForURL = acted { Issue.record("the POST before would be sent again") }
    }

    /// Settings of jobs about a status: none, accepted, retried.
    private static let changes: [@Sendable (inout JobSpec, Int) -> Void] = [
        { _, _ in }, { $0.accept.status = ["\($1)"] }, { $0.retry.statuses = ["\($1)"] },
    ]
}
