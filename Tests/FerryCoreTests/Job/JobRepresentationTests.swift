import FerryCore
import Testing

@Suite("Jobs in the API")
struct JobRepresentationTests {
    private func record(_ state: JobState, _ change: (inout JobRecord) -> Void = { _ in }) throws -> JobRecord
    {
        let job = try decode(fullJobs[0])
        var record = JobRecord(
            id: JobID(high: 1, low: 2), tenant: "default", state: state, waitingFor: nil, revision: 3,
            attempt: 1,
            failedAttemptCount: 0, node: nil, createdAt: Timestamp(microseconds: 0), startedAt: nil,
            retryOf: nil, storedSpec: StoredSpec(job.spec.encode()))
        change(&record)
        return record
    }

    private func shown(_ record: JobRecord, _ progress: TransferProgress? = nil) throws -> JSON {
        var writer = JSONWriter()
        record.write(into: &writer, progress: progress)
        return try JSON.parse(writer.bytes)
    }

    @Test("a job has all members of the API in every state", arguments: JobState.allCases)
    func members(_ state: JobState) throws {
        let names = Set(try #require(try shown(record(state)).members).map(\.name))
        for name in [
            "id", "tenant", "state", "waiting_for", "revision", "waiting_reason", "created_at", "started_at",
            "finished_at", "next_attempt_at", "attempt", "node", "link", "retry_of", "retried_by", "progress",
            "response",
            "result", "error",
            "resume_data", "kind", "session", "request", "schedule", "webhook",
        ] {
            #expect(names.contains(name), "\(name) is missing")
        }
    }

    @Test("a waiting job shows its reason and next check")
    func waiting() throws {
        let job = try shown(
            record(.waiting) {
                $0.waitingFor = .retry
                $0.nextAttemptAt = Timestamp(microseconds: 5_000_000)
                $0.storedError = Stored(
                    TransferError(.timedOut, "Late.", phase: .waiting, isRetryable: true))
            })
        #expect(job["waiting_reason"]?["code"] == .string("retry_backoff"))
        #expect(job["waiting_reason"]?["detail"]?.string?.contains("timed_out") == true)
        #expect(job["waiting_reason"]?["next_check_at"] == .string("1970-01-01T00:00:05.000000Z"))
        #expect(job["error"]?["class"] == .string("timeout"))
    }

    @Test("a job without a running attempt shows its partial bytes", arguments: JobState.allCases)
    func keptBytes(_ state: JobState) throws {
        let kept = try record(state) { $0.partialDownload = PartialDownload(byteCount: 25, total: 100) }
        let progress = try shown(kept)["progress"]
        #expect(progress?["bytes_received"]?.integer == 25)
        #expect(progress?["bytes_expected_to_receive"]?.integer == 100)
        #expect(progress?["bytes_per_second"]?.double == 0)
        if state != .succeeded {
            #expect(progress?["fraction_completed"]?.double == 0.25)
            #expect(progress?["seconds_remaining"]?.isNull == true)
        }
        let running = try shown(kept, TransferProgress(bytesReceived: 30))["progress"]
        if !state.isTerminal {
            #expect(running?["bytes_received"]?.integer == 30, "progress of the running attempt")
        }
    }

    @Test(
        "accept is shown with its effective values and is the same when submitted again",
        arguments: JobKind.allCases)
    func acceptedStatus(_ kind: JobKind) throws {
        let source = kind == .upload ? #","source":{"text":"a"}"# : ""
        let job = { (accept: String) in
            try decode(
                #"{"kind":"\#(kind.rawValue)","request":{"url":"https://a.example/"}\#(source)\#(accept)}"#
            ).spec
        }
        let plain = try job("")
        let effective = try JSON.parse(plain.encode())["accept"]?["status"]?.array
        let shown = effective?.compactMap(\.string) ?? []
        // The default of downloads leaves out statuses without a file, which no list of classes says.
        let standard: [JobKind: [String]] = [.data: ["1xx", "2xx", "3xx", "4xx", "5xx"], .upload: ["2xx"]]
        #expect(shown == standard[kind] ?? [])
        let list = shown.map { "\"\($0)\"" }.joined(separator: ",")
        #expect(try job(#","accept":{"status":[\#(list)]}"#) == plain)
        #expect(try job(#","accept":{"status":[]}"#) == plain)
        #expect(!String(decoding: plain.encodeStored(), as: UTF8.self).contains("\"accept\":"))
        let limited = try job(#","accept":{"max_bytes":5}"#)
        #expect(try JSON.parse(limited.encode())["accept"]?["status"]?.array?.compactMap(\.string) == shown)
        let own = try job(#","accept":{"status":["404"]}"#)
        #expect(try JSON.parse(own.encode())["accept"]?["status"]?.array?.compactMap(\.string) == ["404"])
        #expect(try JobSpec(storedJSON: own.encodeStored()) == own)
        let named = try job(#","accept":{"status":["2xx"]}"#)
        #expect((named == plain) == (kind == .upload), "a download may name 2xx, and gets 204 too")
        #expect(try JobSpec(storedJSON: named.encodeStored()) == named)
    }

    @Test("progress of a running job has a fraction and the remaining time")
    func progress() throws {
        let job = try shown(
            record(.running),
            TransferProgress(bytesReceived: 25, bytesExpectedToReceive: 100, bytesPerSecond: 5))
        #expect(job["progress"]?["fraction_completed"]?.double == 0.25)
        #expect(job["progress"]?["seconds_remaining"]?.double == 15)
    }

    @Test("without a length, fraction and remaining time come from the job's expected bytes")
    func estimatedProgress() throws {
        let progress = { (value: TransferProgress) in try self.shown(self.record(.running), value)["progress"]
        }
        let estimated = try progress(
            TransferProgress(bytesReceived: 25, estimate: .toReceive(100), bytesPerSecond: 5))
        #expect(estimated?["fraction_completed"]?.double == 0.25)
        #expect(estimated?["seconds_remaining"]?.double == 15)
        #expect(estimated?["bytes_expected_to_receive"]?.isNull == true)
        let sent = try progress(TransferProgress(bytesSent: 10, estimate: .toSend(40)))
        #expect(sent?["fraction_completed"]?.double == 0.25)
        let known = try progress(
            TransferProgress(bytesReceived: 25, bytesExpectedToReceive: 50, estimate: .toReceive(100)))
        #expect(known?["fraction_completed"]?.double == 0.5)
        // The estimate was too small, so the end is not known.
        let wrong = try progress(TransferProgress(bytesReceived: 101, estimate: .toReceive(100)))
        #expect(wrong?["fraction_completed"]?.isNull == true && wrong?["seconds_remaining"]?.isNull == true)
    }

    @Test("a result has its content URL, its body and the final progress")
    func result() throws {
        let id = JobID(high: 1, low: 2)
        let result = TransferResult(
            size: 3, sha256: "ab", body: [0xFF], verified: .length)
        let job = try shown(
            record(.succeeded) {
                $0.storedResult = Stored(result)
                $0.body = result.body
            })
        #expect(job["result"]?["content_url"] == .string("/v1/jobs/\(id)/content"))
        #expect(job["result"]?["body"]?["base64"] == .string("/w=="))
        #expect(job["progress"]?["bytes_received"] == .integer(3))
        #expect(job["progress"]?["fraction_completed"]?.double == 1)
        let upload = TransferResult(
            size: 3, sha256: "ab", verified: .length)
        let sent = try shown(record(.succeeded) { $0.storedResult = Stored(upload) })
        #expect(sent["result"]?["content_url"] == .null)
    }

    @Test("the final progress of a job contains the bytes that it sent", arguments: JobKind.allCases)
    func sent(_ kind: JobKind) throws {
        var result = TransferResult(
            location: .namedFile(path: "a"), size: 3, sha256: "ab", verified: .length)
        result.file = FileIdentity(inode: 1, modified: 2)
        let source = kind == .upload ? #","source":{"text":"a"}"# : ""
        let spec = try decode(
            #"{"kind":"\#(kind.rawValue)","request":{"url":"https://a.example/"}\#(source)}"#
        ).spec
        let finished = { (bytesSent: Int64) in
            result.bytesSent = bytesSent
            return try self.shown(
                self.record(.succeeded) {
                    $0.storedSpec = StoredSpec(spec.encodeStored())
                    $0.storedResult = Stored(json: Stored(result).json)
                })
        }
        let job = try finished(500)
        #expect(job["progress"]?["bytes_sent"] == .integer(500))
        #expect(job["progress"]?["bytes_expected_to_send"] == .integer(500))
        #expect(job["progress"]?["bytes_received"] == .integer(kind == .upload ? 0 : 3))
        #expect(
            job["result"]?.members?.map(\.name) == [
                "path", "size", "sha256", "verified", "content_url", "body",
            ])
        let silent = try finished(0)
        #expect(silent["progress"]?["bytes_sent"] == .integer(kind == .upload ? 3 : 0))
        #expect(silent["result"] == job["result"])
    }

    @Test("a response shows every line, and a map of combined values without Set-Cookie")
    func response() throws {
        let response = TransferResponse(
            status: 200, url: "http://a/",
            headers: [
                .init("Via", "1"), .init("via", "2"), .init("Set-Cookie", "a"), .init("set-cookie", "b"),
            ],
            mimeType: nil, suggestedFilename: nil, expectedContentLength: nil)
        let stored = Stored<TransferResponse>(json: Stored(response, .inverted).json)
        let json = try shownResponse(stored, for: .full(.inverted))
        #expect(json["headers"] == .object([.init("Via", "1, 2")]))
        let lines = json["header_fields"]?.array?.map {
            "\($0["name"]?.string ?? "?")=\($0["value"]?.string ?? "?")"
        }
        #expect(lines == ["Via=1", "via=2", "Set-Cookie=a", "set-cookie=b"])
    }
}
