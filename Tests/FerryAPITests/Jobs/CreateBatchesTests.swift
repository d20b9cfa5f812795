import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("POST /v1/jobs/batch")
struct CreateBatchesTests {
    private let ndjson: [(name: String, value: String)] = [("Content-Type", "application/x-ndjson")]

    @Test("a batch is accepted as one submission, in order")
    func accepted() throws {
        let fixture = Fixture()
        let response = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(small()),\#(small())]}"#)
        #expect(response.status == 201)
        let ids = response.json["data"]?.array?.compactMap { $0["id"]?.string }
        let stored = fixture.store.state.withLock { $0.submissions.map { $0.jobs.map(\.id.description) } }
        #expect(stored == [ids])
    }

    @Test("an item whose unique key a job has gets that job, and the status is 200 if no job is new")
    func unique() throws {
        let fixture = Fixture()
        let named = { (key: String) in small(#","unique":{"key":"\#(key)"}"#) }
        let first = try fixture.send("POST", "/v1/jobs", named("a"))
        let mixed = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(named("a")),\#(named("b"))]}"#)
        #expect(mixed.status == 201)
        let items = mixed.json["data"]?.array ?? []
        #expect(items.map { $0["created"]?.bool } == [false, true])
        #expect(items.first?["id"] == first.json["id"])
        let old = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(named("a")),\#(named("b"))]}"#)
        #expect(old.status == 200)
        #expect(old.json["data"]?.array?.map { $0["created"]?.bool } == [false, false])
        // Of two jobs with one key, only one writes the file.
        let download = #"""
            {"kind":"download","request":{"url":"http://a.example/"},"destination":{"path":"x"},
             "unique":{"key":"c"}}
            """#
        let same = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(download),\#(download)]}"#)
        #expect(same.status == 201, "\(same.json)")
    }

    @Test("a body with one job on each line is a batch")
    func lines() throws {
        let response = try Fixture().send("POST", "/v1/jobs/batch", "\(small())\r\n\n\(small())\n", ndjson)
        #expect(response.json["data"]?.array?.count == 2)
        let bad = try Fixture().send("POST", "/v1/jobs/batch", "\(small())\n{\n", ndjson)
        #expect(bad.status == 400 && bad.json["detail"]?.string?.contains("line 2") == true)
    }

    @Test("a byte order mark before a body is skipped, in JSON and before the first line of a batch")
    func byteOrderMark() throws {
        let fixture = Fixture()
        let mark = "\u{FEFF}"
        #expect(try fixture.send("POST", "/v1/jobs", mark + small()).status == 201)
        #expect(try fixture.send("POST", "/v1/jobs/batch", mark + "{\"jobs\":[\(small())]}").status == 201)
        for body in ["\(mark)\(small())\n\(small())\n", "\(mark)\n\(small())\n\(small())"] {
            let response = try fixture.send("POST", "/v1/jobs/batch", body, ndjson)
            #expect(response.status == 201 && response.json["data"]?.array?.count == 2, "\(response.json)")
        }
        for body in [mark, mark + mark + small(), " " + mark + small(), small() + mark] {
            #expect(
                try fixture.send("POST", "/v1/jobs", body).code == "bad_json", "\(Array(body.utf8.prefix(8)))"
            )
        }
    }

    @Test("empty lines use no memory and count in the line numbers of errors")
    func emptyLines() throws {
        let fixture = Fixture()
        let empty = String(repeating: "\n", count: 500_000) + " \t\r\n"
        let response = try fixture.send("POST", "/v1/jobs/batch", empty + small() + empty, ndjson)
        #expect(response.status == 201 && response.json["data"]?.array?.count == 1)
        let bad = try fixture.send("POST", "/v1/jobs/batch", "\n\(small())\n\(empty) {", ndjson)
        let place = "At line 500004, byte 2:"
        #expect(bad.status == 400 && bad.json["detail"]?.string?.hasPrefix(place) == true, "\(bad.json)")
        let none = try fixture.send("POST", "/v1/jobs/batch", empty, ndjson)
        #expect(none.status == 422 && none.json["errors"]?.array?.first?["code"] == .string("invalid_value"))
    }

    @Test("the number of JSON values in a batch is bounded, in one text and in lines")
    func values() throws {
        let fixture = Fixture()
        let values = "[" + String(repeating: "[],", count: 1_300_000) + "[]]"
        for (body, headers, place) in [
            (#"{"jobs":[\#(values),\#(values)]}"#, [], "At byte "),
            ("\(values)\n\(values)\n{", ndjson, "At line 2, byte "),
        ] as [(String, [(name: String, value: String)], String)] {
            let response = try fixture.send("POST", "/v1/jobs/batch", body, headers)
            let detail = response.json["detail"]?.string ?? ""
            #expect(response.status == 400 && response.code == "bad_json", "\(detail)")
            #expect(detail.hasPrefix(place) && detail.contains("too many values"), "\(detail)")
        }
    }

    @Test("one invalid job refuses the batch, and the pointer has its index")
    func allOrNothing() throws {
        let fixture = Fixture()
        let response = try fixture.send("POST", "/v1/jobs/batch", #"{"jobs":[\#(small()),{"kind":"data"}]}"#)
        #expect(response.status == 422)
        #expect(response.json["errors"]?.array?.map { $0["pointer"]?.string } == ["#/jobs/1/request"])
        #expect(fixture.store.state.withLock { $0.submissions.isEmpty })
    }

    @Test(
        "a body that is not a batch is 422",
        arguments: ["{}", #"{"jobs":[]}"#, #"{"jobs":1}"#, #"{"jobs":[],"x":1}"#, "[]"])
    func shapes(_ body: String) throws {
        #expect(try Fixture().send("POST", "/v1/jobs/batch", body).status == 422)
    }

    @Test("an array of jobs without the object around it is no batch")
    func array() throws {
        let response = try Fixture().send("POST", "/v1/jobs/batch", "[\(small())]")
        let errors = response.json["errors"]?.array
        #expect(response.status == 422 && errors?.count == 1)
        #expect(errors?.first?["code"] == .string("wrong_type") && errors?.first?["pointer"] == .string("#"))
    }

    @Test("a batch may have 10,000 jobs; one more is refused, and the rest of the body is not read")
    func limit() throws {
        let fixture = Fixture()
        let jobs = [String](repeating: small(), count: 10_000).joined(separator: "\n")
        let response = try fixture.send("POST", "/v1/jobs/batch", jobs, ndjson)
        #expect(response.json["data"]?.array?.count == 10_000)
        let more = try fixture.send("POST", "/v1/jobs/batch", "\(jobs)\n\(small())\n{", ndjson)
        #expect(more.status == 422 && more.json["errors"]?.array?.first?["code"] == .string("too_many"))
    }

    @Test("the number of errors for a batch is bounded")
    func bounded() throws {
        let jobs = [String](repeating: "{}", count: 1_000).joined(separator: ",")
        let response = try Fixture().send("POST", "/v1/jobs/batch", #"{"jobs":[\#(jobs)]}"#)
        #expect(response.json["errors"]?.array?.count == ValidationErrors.countMax)
    }

    /// Returns a download to `path` that depends on the jobs with these numbers.
    private func download(_ path: String, after numbers: [Int] = [], _ more: String = "") -> String {
        let after = numbers.map { "\"#/jobs/\($0)\"" }.joined(separator: ",")
        let request = #""kind":"download","request":{"url":"http://a.example/"}"#
        let place = #""destination":{"path":"\#(path)"\#(more)}"#
        return #"{\#(request),\#(place),"schedule":{"depends_on":[\#(after)]}}"#
    }

    private func pointers(_ jobs: [String]) throws -> [String?] {
        let body = #"{"jobs":[\#(jobs.joined(separator: ","))]}"#
        let response = try Fixture().send("POST", "/v1/jobs/batch", body)
        guard response.status != 201 else { return [] }
        #expect(response.status == 422)
        return response.json["errors"]?.array?.map { error in
            #expect(error["code"] == .string("duplicate"), "\(error)")
            return error["pointer"]?.string
        } ?? []
    }

    @Test("two jobs that replace the same file without a dependency between them are 422 with both pointers")
    func sameDestination() throws {
        let both = ["#/jobs/0/destination/path", "#/jobs/2/destination/path"]
        #expect(try pointers([download("a"), download("b"), download("a")]) == both)
        #expect(try pointers([download("a"), download("b", after: [0]), download("a")]) == both)
        // The first two of three have an order, the last one has none.
        let last = ["#/jobs/1/destination/path", "#/jobs/2/destination/path"]
        #expect(try pointers([download("a"), download("a", after: [0]), download("a", after: [0])]) == last)
        // Both forms of a letter are equal texts, and names of two files.
        #expect(try pointers([download("\u{E9}"), download("e\u{301}")]) == [])
    }

    @Test("jobs with a dependency, direct or indirect, may replace the same file")
    func orderedDestinations() throws {
        #expect(try pointers([download("a"), download("a", after: [0])]) == [])
        let indirect = [download("a"), small(), download("b", after: [0]), download("a", after: [2])]
        #expect(try pointers(indirect) == [])
        // More pairs than one pass over the dependencies judges.
        let chain = (0..<200).map { download("\($0 % 100)", after: $0 == 0 ? [] : [$0 - 1]) }
        #expect(try pointers(chain) == [])
        let broken = chain.enumerated().map { $0.offset == 150 ? download("50") : $0.element }
        #expect(try pointers(broken).count == 100)
    }

    @Test("directories, and files that are not replaced, may be named by several jobs")
    func sharedDestinations() throws {
        #expect(try pointers([download("a/", after: [], #","if_exists":"replace""#), download("a/")]) == [])
        for choice in ["fail", "rename"] {
            let other = download("a", after: [], #","if_exists":"\#(choice)""#)
            #expect(try pointers([download("a"), other, other]) == [])
        }
    }
}
