import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryAPI

@Suite("Dependencies on groups in requests")
struct GroupDependenciesTests {
    private let request = #""kind": "data", "request": {"url": "https://93.184.216.34/a"}"#

    private func job(_ members: String) -> String { "{\(request), \(members)}" }

    @Test("a job depends on a group, which it shows as it was given")
    func accepted() throws {
        let fixture = Fixture()
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        let list = JSON.array([.object([.init("group", "night")])])
        let response = try fixture.send(
            "POST", "/v1/jobs", job(#""schedule": {"depends_on": [{"group": "night"}]}"#))
        #expect(response.status == 201 && response.json["schedule"]?["depends_on"] == list)
        #expect(response.json["waiting_reason"]?["groups"]?.array == [.string("night")])
        #expect(response.json["waiting_reason"]?["jobs"]?.array == [])
        let stored = fixture.store.state.withLock { Array($0.jobs.values) }
        #expect(stored.map { $0.spec?.schedule.dependencies } == [[.group("night")]])
        let encoded = try #require(stored[0].spec).encodeStored()
        #expect(try JSON.parse(encoded)["schedule"]?["depends_on"] == list)
    }

    @Test(
        "what a job cannot depend on is an error with its pointer",
        arguments: [
            (#""schedule": {"depends_on": [{"group": "none"}]}"#, "#/schedule/depends_on/0"),
            (
                #""group": "night", "schedule": {"depends_on": [{"group": "night"}]}"#,
                "#/schedule/depends_on/0"
            ),
            (
                #""group": "awaited", "schedule": {"depends_on": [{"group": "night"}]}"#,
                "#/schedule/depends_on"
            ),
            (#""schedule": {"depends_on": [{"group": "a b"}]}"#, "#/schedule/depends_on/0/group"),
            (#""schedule": {"depends_on": [{}]}"#, "#/schedule/depends_on/0/group"),
            (#""schedule": {"depends_on": [{"group": "night", "x": 1}]}"#, "#/schedule/depends_on/0/x"),
            (
                #""schedule": {"depends_on": [{"group": "night"}, {"group": "night"}]}"#,
                "#/schedule/depends_on/1"
            ),
        ])
    func refused(_ members: String, _ pointer: String) throws {
        let fixture = Fixture()
        for name in ["night", "awaited"] {
            _ = try fixture.send("POST", "/v1/job_groups", "{\"name\": \"\(name)\"}")
        }
        let waiting = job(#""schedule": {"depends_on": [{"group": "awaited"}]}"#)
        #expect(try fixture.send("POST", "/v1/jobs", waiting).status == 201)
        let response = try fixture.send("POST", "/v1/jobs", job(members))
        #expect(response.status == 422, "\(members)")
        #expect(response.json["errors"]?.array?.compactMap { $0["pointer"]?.string } == [pointer])
    }

    @Test("a batch depends on the group that it creates; a later member with dependencies is an error")
    func batch() throws {
        let member = job(#""group": "night""#)
        let last = job(#""schedule": {"depends_on": [{"group": "night"}]}"#)
        let chained = job(##""group": "night", "schedule": {"depends_on": ["#/jobs/0"]}"##)
        let fine = try Fixture().send(
            "POST", "/v1/jobs/batch", "{\"jobs\": [\(member), \(chained), \(last)]}")
        #expect(fine.status == 201)
        let wrong = try Fixture().send(
            "POST", "/v1/jobs/batch", "{\"jobs\": [\(member), \(last), \(chained)]}")
        #expect(wrong.status == 422)
        #expect(wrong.json["errors"]?.array?.first?["pointer"]?.string == "#/jobs/2/schedule/depends_on")
    }

    @Test("a job that sends the file of an earlier job of its batch depends on it")
    func sources() throws {
        let fixture = Fixture()
        func upload(_ source: String, _ schedule: String = "{}") -> String {
            ##"""
            {"kind": "upload", "request": {"url": "https://93.184.216.34/a"},
             "source": {"job": "\##(source)"}, "schedule": \##(schedule)}
            """##
        }
        let first = #"{"kind": "download", "request": {"url": "https://93.184.216.34/a"}}"#
        let body = "{\"jobs\": [\(first), \(upload("#/jobs/0"))]}"
        try #require(try fixture.send("POST", "/v1/jobs/batch", body).status == 201)
        let jobs = fixture.store.state.withLock { Array($0.jobs.values) }.sorted { $0.id < $1.id }
        #expect(jobs[1].spec?.schedule.dependencies == [.job(jobs[0].id)])
        #expect(jobs[1].spec?.sourceJobs.map(\.job) == [jobs[0].id])
        for (schedule, pointer) in [
            (#"{"on_dependency_failure": "ignore"}"#, "#/jobs/1/schedule/on_dependency_failure"),
            (#"{"discretionary": true}"#, "#/jobs/1/source/job"),
        ] {
            let wrong = try fixture.send(
                "POST", "/v1/jobs/batch", "{\"jobs\": [\(first), \(upload("#/jobs/0", schedule))]}")
            #expect(wrong.status == 422)
            #expect(wrong.json["errors"]?.array?.first?["pointer"]?.string == pointer)
        }
        // A session's default yields, as it does to `depends_on`.
        #expect(try fixture.send("PUT", "/v1/sessions/s", #"{"discretionary": true}"#).status == 201)
        let inheriting = upload("#/jobs/0").replacing(#""kind""#, with: #""session": "s", "kind""#)
        let accepted = try fixture.send("POST", "/v1/jobs/batch", "{\"jobs\": [\(first), \(inheriting)]}")
        #expect(accepted.status == 201, "\(accepted.json)")
        let later = try fixture.send(
            "POST", "/v1/jobs/batch", "{\"jobs\": [\(upload("#/jobs/1")), \(first)]}")
        #expect(later.json["errors"]?.array?.first?["pointer"]?.string == "#/jobs/0/source/job")
    }

    @Test("a job that depends on a group may replace a file of the group's jobs")
    func destinations() throws {
        let place = #""destination": {"path": "a.csv"}"#
        let (first, second) = (#""group": "night""#, #""schedule": {"depends_on": [{"group": "night"}]}"#)
        func send(_ jobs: [String]) throws -> Int {
            let list = jobs.map {
                job("\($0), \(place)").replacing(#""kind": "data""#, with: #""kind": "download""#)
            }
            return try Fixture().send(
                "POST", "/v1/jobs/batch", "{\"jobs\": [\(list.joined(separator: ","))]}"
            ).status
        }
        #expect(try send([first, second]) == 201)
        #expect(try send([first, first]) == 422)
    }
}
