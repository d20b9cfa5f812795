import FerryCore
import Testing

@Suite("Schedule bodies")
struct ScheduleSpecTests {
    private let job = #""job":{"kind":"data","request":{"url":"https://a.example/"}}"#
    private let now = Timestamp(microseconds: 1_795_298_400_000_000)

    private func read(_ body: String) throws -> ValidatedSchedule {
        let json = try JSONView(parsing: Array(body.utf8))
        return try ValidatedSchedule(json, zones: KnownTimeZones(), now: now) {
            job, pointer, earlierJob throws(InvalidFields) in
            try JobRequest(job, at: pointer, refusal: { _ in nil }, earlierJob: earlierJob)
        }
    }

    private func pointers(_ body: String) throws -> [String] {
        try #require(throws: InvalidFields.self) { try read(body) }.errors.map { "\($0.pointer) \($0.code)" }
    }

    @Test("missing members have default values, and a stored schedule is read back unchanged")
    func standard() throws {
        let spec = try read(#"{"cron":"@daily",\#(job)}"#).spec
        #expect(spec.timeZone == "UTC" && spec.jitter == 0 && spec.missed == .runOnce)
        #expect(spec.overlap == .allow && spec.isEnabled && spec.startAt == nil && spec.endAt == nil)
        #expect(try ScheduleSpec(storedJSON: spec.encode()) == spec)
        let other = try read(
            #"""
            {"interval":90,"cron":null,"description":"d","start_at":"2027-01-01T00:00:00Z",
             "end_at":"2028-01-01T00:00:00Z","jitter":5,"missed":"skip","overlap":"queue","enabled":false,
             \#(job)}
            """#
        ).spec
        #expect(try ScheduleSpec(storedJSON: other.encode()) == other)
        #expect(other.pattern == .interval(90) && !other.isEnabled && other.overlap == .queue)
    }

    @Test("all invalid fields are reported at once")
    func wrong() throws {
        #expect(try pointers("{}") == ["#/job required", "#/cron required"])
        #expect(
            try pointers(#"{"cron":"* * * * *","interval":5,\#(job)}"#) == ["#/interval invalid_combination"])
        #expect(try pointers(#"{"cron":null,"interval":null,\#(job)}"#) == ["#/cron required"])
        #expect(try pointers(#"{"cron":"0 0 30 2 *",\#(job)}"#) == ["#/cron invalid_value"])
        for (field, code) in [
            (#""cron":"x""#, "#/cron invalid_value"), (#""cron":5"#, "#/cron wrong_type"),
            (#""interval":0.5"#, "#/interval out_of_range"), (#""interval":"5""#, "#/interval wrong_type"),
        ] {
            #expect(try pointers("{\(field),\(job)}") == [code])
        }
        let wrongs = [
            (#""time_zone":"Mars/Base""#, "time_zone invalid_value"),
            (#""time_zone":1"#, "time_zone wrong_type"),
            (#""jitter":-1"#, "jitter out_of_range"), (#""missed":"x""#, "missed invalid_value"),
            (#""overlap":null"#, "overlap wrong_type"), (#""enabled":1"#, "enabled wrong_type"),
            (#""start_at":"tomorrow""#, "start_at invalid_value"),
            (#""whatever":1"#, "whatever unknown_field"),
            (#""end_at":"2020-01-01T00:00:00Z""#, "end_at invalid_combination"),
            (
                #""start_at":"2028-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z""#,
                "end_at invalid_combination"
            ),
        ]
        for (field, expected) in wrongs {
            #expect(try pointers(#"{"cron":"@daily",\#(field),\#(job)}"#) == ["#/" + expected])
        }
    }

    @Test("the job is validated like any job and cannot have times of a single job")
    func template() throws {
        #expect(
            try pointers(#"{"cron":"@daily","job":{"kind":"data","request":{"url":"x"}}}"#)
                == ["#/job/request/url invalid_value"])
        let begin = #""schedule":{"earliest_begin_at":"2027-01-01T00:00:00Z"}"#
        #expect(
            try pointers(
                #"{"cron":"@daily","job":{"kind":"data","request":{"url":"https://a.example/"},\#(begin)}}"#)
                == ["#/job/schedule/earliest_begin_at invalid_combination"])
    }

    private func download(_ url: String, _ path: String) -> String {
        #"{"cron":"@daily","job":{"kind":"download","request":{"url":"\#(url)"},"#
            + #""destination":{"path":"\#(path)"}}}"#
    }

    @Test("placeholders are replaced by the local time of the run")
    func placeholders() throws {
        let valid = try read(
            download(
                "https://a.example/{scheduled_at:date}.csv?t={scheduled_at:unix}&k={x}",
                "r/{scheduled_at:year}/{scheduled_at:month}/{scheduled_at:day}-{scheduled_at:time}"))
        #expect(valid.jobs.requests[0].spec.request.webURL.origin == "https://a.example:443")
        let at = try #require(Timestamp(rfc3339: "2026-12-31T23:30:15Z"))
        let occurrence = ScheduleOccurrence(schedule: ScheduleID(high: 1, low: 2), scheduledAt: at)
        let stored = try JobSpec(storedJSON: valid.jobs.requests[0].spec.encodeStored())
        let spec = try #require(JobRequest(stored).instance(of: occurrence, zone("Europe/Berlin"))).spec
        #expect(spec.request.webURL.origin == "https://a.example:443")
        #expect(spec.request.url.hasPrefix("https://a.example/2027-01-01.csv?t=1798759815&k="))
        #expect(spec.destination?.path == "r/2027/01/01-003015")
        #expect(try JobSpec(storedJSON: spec.encodeStored()).occurrence == occurrence)
        #expect(ScheduledText.expanded("{scheduled_at}", at: at, .utc) == "20261231T233015Z")
        #expect(ScheduledText.expanded("{{scheduled_at:hour}}{", at: at, .utc) == "{23}{")
        #expect(ScheduledText.expanded("a{b}c", at: at, .utc) == "a{b}c")
    }

    @Test(
        "placeholders in group, metadata and bodies are replaced by the time of the run",
        arguments: [
            (#"{"text":"day {scheduled_at:date}{x}"}"#, "day 2027-01-01{x}"),
            (#"{"json":{"day":["{scheduled_at:date}"],"n":1}}"#, #"{"day":["2027-01-01"],"n":1}"#),
            (#"{"form":{"a b":"{scheduled_at:date} {x}"}}"#, "a+b=2027-01-01+%7Bx%7D"),
            (#"{"base64":"e3NjaGVkdWxlZF9hdH0="}"#, "{scheduled_at}"),
        ])
    func moreTexts(_ body: String, _ sent: String) throws {
        let valid = try read(
            #"""
            {"cron":"@daily","job":{"kind":"data","group":"night-{scheduled_at:date}",
             "metadata":{"day":"{scheduled_at:date}","other":"{}"},
             "request":{"url":"https://a.example/","method":"POST","body":\#(body)}}}
            """#)
        #expect(valid.jobs.requests[0].spec.group == "night-{scheduled_at:date}")
        let at = try #require(Timestamp(rfc3339: "2026-12-31T23:30:15Z"))
        let occurrence = ScheduleOccurrence(schedule: ScheduleID(high: 1, low: 2), scheduledAt: at)
        let stored = try JobSpec(storedJSON: valid.jobs.requests[0].spec.encodeStored())
        let run = try #require(
            JobRequest(stored, payload: valid.jobs.requests[0].payload)
                .instance(of: occurrence, zone("Europe/Berlin")))
        #expect(run.spec.group == "night-2027-01-01")
        #expect(run.spec.metadata.map(\.value) == ["2027-01-01", "{}"])
        #expect(run.payload.map { String(decoding: $0, as: UTF8.self) } == sent)
        #expect(run.spec.request.body?.byteCount == sent.utf8.count)
    }

    @Test("unknown placeholders in group, metadata and bodies are rejected, and so are wrong names of groups")
    func wrongTexts() throws {
        for (member, pointer) in [
            (#""group":"{scheduled_at:week}""#, "group"), (#""group":"{scheduled_at:date} x""#, "group"),
            (#""metadata":{"a/b":"{scheduled_at:week}"}"#, "metadata/a~1b"),
            (
                #""request":{"url":"https://a.example/","method":"POST","body":{"text":"{scheduled_at:x}"}}"#,
                "request/body/text"
            ),
            (
                #""request":{"url":"https://a.example/","method":"POST","body":{"form":{"a":"{scheduled_at:x}"}}}"#,
                "request/body/form"
            ),
        ] {
            let request = member.contains("request") ? "" : #","request":{"url":"https://a.example/"}"#
            let body = #"{"cron":"@daily","job":{"kind":"data",\#(member)\#(request)}}"#
            #expect(try pointers(body) == ["#/job/\(pointer) invalid_value"])
        }
    }

    @Test(
        "placeholders in the key of an object are replaced by the time of the run",
        arguments: [
            #""s3":{"bucket":"bkt","key":"{scheduled_at:date}/ä {x}.csv"}"#,
            #""url":"s3://bkt/{scheduled_at:date}/ä {x}.csv""#,
        ])
    func keys(_ place: String) throws {
        for job in [
            #""kind":"upload","source":{"path":"a"},"destination":{\#(place)}"#,
            #""kind":"download","source":{\#(place)}"#,
        ] {
            let valid = try read(#"{"cron":"@daily","job":{\#(job)}}"#)
            let template = valid.jobs.requests[0].spec
            #expect(template.storeObject?.key == "{scheduled_at:date}/ä {x}.csv")
            let address = "https://bkt.s3.us-east-1.amazonaws.com/"
            #expect(template.request.url == address + "{scheduled_at:date}/%C3%A4%20%7Bx%7D.csv")
            let at = try #require(Timestamp(rfc3339: "2026-12-31T23:30:15Z"))
            let occurrence = ScheduleOccurrence(schedule: ScheduleID(high: 1, low: 2), scheduledAt: at)
            let stored = try JobSpec(storedJSON: template.encodeStored())
            let run = try #require(JobRequest(stored).instance(of: occurrence, zone("Europe/Berlin"))).spec
            #expect(run.storeObject?.key == "2027-01-01/ä {x}.csv")
            #expect(run.request.webURL == run.storeObject?.url)
            #expect(run.request.url == address + "2027-01-01/%C3%A4%20%7Bx%7D.csv")
            // A template as it is shown is accepted again.
            let shown = String(decoding: template.encodeStored(), as: UTF8.self)
            let again = try read(#"{"cron":"@daily","job":\#(shown)}"#)
            #expect(again.jobs.requests[0].spec == template)
        }
    }

    @Test("placeholders at both ends of a copy are replaced by the time of the run")
    func copies() throws {
        let key = #""s3":{"bucket":"bkt","key":"{scheduled_at:date}/k"}"#
        let url = #""url":"https://other.example/{scheduled_at:year}""#
        let at = try #require(Timestamp(rfc3339: "2026-12-31T23:30:15Z"))
        let occurrence = ScheduleOccurrence(schedule: ScheduleID(high: 1, low: 2), scheduledAt: at)
        func run(_ job: String) throws -> JobSpec {
            let template = try read(#"{"cron":"@daily","job":{\#(job)}}"#).jobs.requests[0].spec
            let stored = try JobSpec(storedJSON: template.encodeStored())
            return try #require(JobRequest(stored).instance(of: occurrence, zone("Europe/Berlin"))).spec
        }
        let own = #""request":{"url":"https://own.example/{scheduled_at:date}"}"#
        let toStore = try run(#""kind":"download",\#(own),"destination":{\#(key)}"#)
        #expect(toStore.otherObject?.key == "2027-01-01/k")
        #expect(toStore.request.url == "https://own.example/2027-01-01")
        let fromStore = try run(#""kind":"upload",\#(own),"source":{\#(key)}"#)
        #expect(fromStore.otherObject?.key == "2027-01-01/k")
        let toServer = try run(#""kind":"download",\#(own),"destination":{\#(url)}"#)
        #expect(toServer.otherServer?.url == "https://other.example/2027")
        let both = try run(#""kind":"upload","source":{\#(url)},"destination":{\#(key)}"#)
        #expect(both.otherServer?.url == "https://other.example/2027")
        #expect(both.storeObject?.key == "2027-01-01/k")
        #expect(both.request.webURL == both.storeObject?.url)
    }

    @Test("unknown placeholders and placeholders in the origin are rejected")
    func wrongPlaceholders() throws {
        for text in ["{scheduled_at:week}", "{scheduled_at:}", "{scheduled_at", "{scheduled_atx}"] {
            #expect(
                try pointers(download("https://a.example/\(text)", "a"))
                    == ["#/job/request/url invalid_value"], "\(text)")
            #expect(
                try pointers(download("https://a.example/", "a\(text)"))
                    == ["#/job/destination/path invalid_value"], "\(text)")
            let object = #"{"kind":"download","source":{"s3":{"bucket":"bkt","key":"\#(text)"}}}"#
            #expect(
                try pointers(#"{"cron":"@daily","job":\#(object)}"#)
                    == ["#/job/source/s3/key invalid_value"], "\(text)")
        }
        #expect(
            try pointers(
                #"{"cron":"@daily","job":{"kind":"download","source":{"url":"s3://{scheduled_at:year}/k"}}}"#)
                == ["#/job/source/url invalid_value"])
        #expect(
            try pointers(download("https://{scheduled_at:year}.example/", "a"))
                == ["#/job/request/url invalid_value"])
    }
}
