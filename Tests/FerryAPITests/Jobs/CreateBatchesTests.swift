import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("POST /v1/jobs/batch")
struct CreateBatchesTests {
    private let ndjson: [(name: String, value: String)] = [("Content-Type", "application/x-ndjson")]

    @Test("a batch is accepted in order, in one submission")
    func accepted() throws {
        let fixture = Fixture()
        let answer = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(small()),\#(small())]}"#)
        #expect(answer.status == 201)
        let ids = answer.json["data"]?.array?.compactMap { $0["id"]?.string }
        let stored = fixture.store.state.withLock { $0.submissions.map { $0.jobs.map(\.id.description) } }
        #expect(stored == [ids])
    }

    @Test("one job a line is a batch as well")
    func lines() throws {
        let answer = try Fixture().send("POST", "/v1/jobs/batch", "\(small())\r\n\n\(small())\n", ndjson)
        #expect(answer.json["data"]?.array?.count == 2)
        let bad = try Fixture().send("POST", "/v1/jobs/batch", "\(small())\n{\n", ndjson)
        #expect(bad.status == 400 && bad.json["detail"]?.string?.contains("line 2") == true)
    }

    @Test("empty lines cost nothing, and count where an error says its line")
    func emptyLines() throws {
        let fixture = Fixture()
        let empty = String(repeating: "\n", count: 500_000) + " \t\r\n"
        let answer = try fixture.send("POST", "/v1/jobs/batch", empty + small() + empty, ndjson)
        #expect(answer.status == 201 && answer.json["data"]?.array?.count == 1)
        let bad = try fixture.send("POST", "/v1/jobs/batch", "\n\(small())\n\(empty) {", ndjson)
        let place = "At line 500004, byte 2:"
        #expect(bad.status == 400 && bad.json["detail"]?.string?.hasPrefix(place) == true, "\(bad.json)")
        let none = try fixture.send("POST", "/v1/jobs/batch", empty, ndjson)
        #expect(none.status == 422 && none.json["errors"]?.array?.first?["code"] == .string("invalid_value"))
    }

    @Test("a batch has a bounded number of values, in one text or in lines")
    func values() throws {
        let fixture = Fixture()
        let values = "[" + String(repeating: "[],", count: 1_300_000) + "[]]"
        for (body, headers, place) in [
            (#"{"jobs":[\#(values),\#(values)]}"#, [], "At byte "),
            ("\(values)\n\(values)\n{", ndjson, "At line 2, byte "),
        ] as [(String, [(name: String, value: String)], String)] {
            let answer = try fixture.send("POST", "/v1/jobs/batch", body, headers)
            let detail = answer.json["detail"]?.string ?? ""
            #expect(answer.status == 400 && answer.code == "bad_json", "\(detail)")
            #expect(detail.hasPrefix(place) && detail.contains("too many values"), "\(detail)")
        }
    }

    @Test("one wrong job refuses all, and the pointer counts")
    func allOrNothing() throws {
        let fixture = Fixture()
        let answer = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(small()),{"kind":"data"}]}"#)
        #expect(answer.status == 422)
        #expect(answer.json["errors"]?.array?.map { $0["pointer"]?.string } == ["#/jobs/1/request"])
        #expect(fixture.store.state.withLock { $0.submissions.isEmpty })
    }

    @Test(
        "what is no batch is refused",
        arguments: ["{}", #"{"jobs":[]}"#, #"{"jobs":1}"#, #"{"jobs":[],"x":1}"#, "[]"])
    func shapes(_ body: String) throws {
        #expect(try Fixture().send("POST", "/v1/jobs/batch", body).status == 422)
    }

    @Test("10,000 jobs are one batch, one more is too many, and what follows it is not read")
    func limit() throws {
        let fixture = Fixture()
        let jobs = [String](repeating: small(), count: 10_000).joined(separator: "\n")
        let answer = try fixture.send("POST", "/v1/jobs/batch", jobs, ndjson)
        #expect(answer.json["data"]?.array?.count == 10_000)
        let more = try fixture.send("POST", "/v1/jobs/batch", "\(jobs)\n\(small())\n{", ndjson)
        #expect(more.status == 422 && more.json["errors"]?.array?.first?["code"] == .string("too_many"))
    }

    @Test("complaints about a hopeless batch are bounded")
    func bounded() throws {
        let jobs = [String](repeating: "{}", count: 1_000).joined(separator: ",")
        let answer = try Fixture().send("POST", "/v1/jobs/batch", #"{"jobs":[\#(jobs)]}"#)
        #expect(answer.json["errors"]?.array?.count == ValidationErrors.countMax)
    }
}
