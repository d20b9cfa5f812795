import FerryCore
import Testing

@Suite("Lists of jobs in schedule bodies")
struct ScheduleListTests {
    private func read(_ members: String) throws -> ValidatedSchedule {
        let json = try JSONView(parsing: Array(#"{"cron":"@daily",\#(members)}"#.utf8))
        return try ValidatedSchedule(json, zones: KnownTimeZones(), now: Timestamp(microseconds: 0)) {
            job, pointer, earlierJob throws(InvalidFields) in
            try JobRequest(job, at: pointer, refusal: { _ in nil }, earlierJob: earlierJob)
        }
    }

    private func pointers(_ members: String) throws -> [String] {
        try #require(throws: InvalidFields.self) { try read(members) }.errors
            .map { "\($0.pointer) \($0.code)" }
    }

    private func data(_ members: String = "") -> String {
        #"{"kind":"data","request":{"url":"https://a.example/{scheduled_at:date}"}\#(members)}"#
    }

    private func upload(of source: String) -> String {
        #"{"kind":"upload","request":{"url":"https://a.example/"},"source":{"job":"\#(source)"}}"#
    }

    @Test("jobs without a member group have that of the list, and places of earlier jobs stand for them")
    func list() throws {
        let valid = try read(
            #""group":"night-{scheduled_at:date}","close_group":true,"jobs":["#
                + [
                    data(), data(##","group":"own","schedule":{"depends_on":["#/jobs/0"]}"##),
                    data(#","group":null"#), upload(of: "#/jobs/2"),
                ].joined(separator: ",") + "]")
        let list = try #require(valid.jobs.list)
        #expect(list == .init(group: "night-{scheduled_at:date}", closesGroup: true))
        let night = "night-{scheduled_at:date}"
        let specs = valid.jobs.requests.map(\.spec)
        #expect(specs.map(\.group) == [night, "own", nil, night])
        #expect(specs[1].schedule.dependsOn == [JobID(placeInList: 0)])
        #expect(specs[3].schedule.dependsOn == [JobID(placeInList: 2)], "it sends the file of that job")
        let stored = try JSONView(parsing: specs[3].encodeStored())
        #expect(stored["source"]?["job"]?.string == "#/jobs/2")
        let restored = try JobSpec(storedJSON: specs[3].encodeStored())
        #expect(restored.source == .job(JobID(placeInList: 2)))
        #expect(restored.schedule.dependsOn == specs[3].schedule.dependsOn)
        let at = try #require(Timestamp(rfc3339: "2026-12-31T23:30:15Z"))
        #expect(try list.closedGroup(at: at, zone("Europe/Berlin")) == "night-2027-01-01")
        #expect(ScheduleJobs.List(group: "night").closedGroup(at: at, .utc) == nil)
        let own = data(#","group":"own""#)
        let single = try read(#""job":\#(own),"jobs":null"#)
        #expect(single.jobs.list == nil && single.jobs.requests.map(\.spec.group) == ["own"])
    }

    @Test("the run of a job has its place in the list, which is stored with the job")
    func place() throws {
        let request = try #require(try read(#""jobs":[\#(data())]"#).jobs.requests.first)
        let occurrence = ScheduleOccurrence(
            schedule: ScheduleID(high: 1, low: 2), scheduledAt: Timestamp(microseconds: 0), place: 3)
        let run = try #require(request.instance(of: occurrence, .utc))
        #expect(run.spec.request.url == "https://a.example/1970-01-01")
        #expect(try JobSpec(storedJSON: run.spec.encodeStored()).occurrence == occurrence)
    }

    @Test("jobs of a schedule name uploads, which stay names until a run")
    func uploads() throws {
        let job = #"{"kind":"upload","request":{"url":"https://a.example/"},"source":{"upload":"report"}}"#
        let spec = try #require(try read(#""job":\#(job)"#).jobs.requests.first).spec
        #expect(spec.source == .upload(.name("report")) && spec.schedule.dependencies.isEmpty)
    }

    @Test("a schedule has job or jobs, and errors of jobs have pointers into the list")
    func wrong() throws {
        #expect(try pointers(#""job":\#(data()),"jobs":[\#(data())]"#) == ["#/jobs invalid_combination"])
        #expect(try pointers(#""job":null,"jobs":null"#) == ["#/job required"])
        #expect(try pointers(#""jobs":[]"#) == ["#/jobs invalid_value"])
        let many = Array(repeating: data(), count: Limits.scheduleJobCountMax + 1).joined(separator: ",")
        #expect(try pointers(#""jobs":[\#(many)]"#) == ["#/jobs too_many"])
        let url = #"{"kind":"data","request":{"url":"x"}}"#
        let metadata = data(#","metadata":{"a":"{scheduled_at:x}"}"#)
        #expect(
            try pointers(#""jobs":[\#(data()),\#(url),\#(metadata)]"#)
                == ["#/jobs/1/request/url invalid_value", "#/jobs/2/metadata/a invalid_value"])
        #expect(
            try pointers(#""group":"a","job":\#(data())"#) == ["#/group invalid_combination"])
        #expect(
            try pointers(#""close_group":true,"jobs":[\#(data())]"#) == ["#/close_group invalid_combination"])
        for group in ["a b", "{scheduled_at:week}"] {
            #expect(try pointers(#""group":"\#(group)","jobs":[\#(data())]"#) == ["#/group invalid_value"])
        }
    }

    @Test("jobs depend only on earlier jobs of the list")
    func references() throws {
        let dependent = { (job: String) in data(#","schedule":{"depends_on":[\#(job)]}"#) }
        let later = JobID(placeInList: 1).description
        for (dependency, pointer) in [
            (##""#/jobs/1""##, "/0"), (##""#/jobs/2""##, "/0"), (#""\#(later)""#, ""),
            (#""job_01aryz6s41tpsqnjvsdafv0000""#, ""), (#"{"group":"night"}"#, ""),
        ] {
            let found = try pointers(#""jobs":[\#(data()),\#(dependent(dependency))]"#)
            #expect(found.count == 1 && found[0].hasPrefix("#/jobs/1/schedule/depends_on\(pointer) "))
        }
        let first = dependent(##""#/jobs/0""##)
        #expect(try read(#""jobs":[\#(data()),\#(first)]"#).jobs.requests.count == 2)
        let other = dependent(#""job_01aryz6s41tpsqnjvsdafv0000""#)
        #expect(
            try pointers(#""job":\#(other)"#) == ["#/job/schedule/depends_on invalid_combination"])
    }
}
