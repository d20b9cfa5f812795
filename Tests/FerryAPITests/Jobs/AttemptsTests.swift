import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Attempts")
struct AttemptsTests {
    private func fixture() throws -> (Fixture, JobID) {
        let fixture = Fixture()
        let job = try fixture.submit()
        var log = TransactionLog()
        log.append(TransactionMetrics(fetchStart: 10))
        let time = Timestamp(microseconds: 1_000_000)
        let trace = AttemptTrace(
            startedAt: time, finishedAt: time, transactions: log,
            diagnostics: .init(curlCode: 7, curlMessage: "Failed to connect to 10.0.0.1", osError: 111))
        let error = TransferError(.couldNotConnect, "No.", phase: .connecting, isRetryable: true)
        fixture.store.state.withLock {
            $0.attempts = [
                AttemptRecord.packed(
                    number: 1, node: nil, trace, .failed, error: Stored(error), .inverted)
            ]
        }
        return (fixture, job)
    }

    @Test("every role reads attempts; only admins see diagnostics")
    func roles() throws {
        let (fixture, job) = try fixture()
        let path = "/v1/jobs/\(job)/attempts"
        let shown = try fixture.send("GET", path, key: fixture.viewerKey)
        #expect(shown.status == 200)
        let attempt = try #require(shown.json["data"]?.array?.first)
        #expect(attempt["error"]?["code"]?.string == "could_not_connect")
        #expect(attempt["transactions"]?.array?.count == 1)
        #expect(attempt["diagnostics"] == nil)
        #expect(!String(decoding: shown.body, as: UTF8.self).contains("10.0.0.1"))
        let full = try fixture.send("GET", path).json["data"]?.array?.first
        #expect(full?["diagnostics"]?["curl_message"]?.string?.contains("10.0.0.1") == true)
        #expect(try fixture.send("GET", path, key: fixture.strangerKey).status == 404)
        #expect(try fixture.send("GET", path, key: nil).status == 401)
        #expect(try fixture.send("GET", path + "?limit=1").status == 400)
        #expect(try fixture.send("GET", "/v1/jobs/x/attempts").status == 404)
    }

    @Test("the document has every error code with its class, phases and whether it is retried")
    func codes() throws {
        let schema = try JSON.parse(openAPIDocument)["components"]?["schemas"]?["TransferError"]
        let codes = TransferError.Code.allCases
        let named = schema?["properties"]?["code"]?["enum"]?.array?.compactMap(\.string)
        #expect(named == codes.map(\.rawValue))
        let table = try #require(schema?["x-codes"]?.array)
        #expect(table.map { $0["code"]?.string } == codes.map(\.rawValue))
        #expect(table.map { $0["class"]?.string } == codes.map(\.errorClass.rawValue))
        #expect(table.map { $0["retryable"]?.string } == codes.map(\.repetition.rawValue))
        let phases = table.map { $0["phases"]?.array?.compactMap(\.string) ?? [] }
        #expect(phases == codes.map { $0.phases.map(\.rawValue) })
    }

    @Test("the schemas of attempts have the members of the representation")
    func schemas() throws {
        let (fixture, job) = try fixture()
        let list = try fixture.send("GET", "/v1/jobs/\(job)/attempts").json
        let schemas = try #require(try JSON.parse(openAPIDocument)["components"]?["schemas"])
        let attempt = try #require(list["data"]?.array?.first)
        let transaction = try #require(attempt["transactions"]?.array?.first)
        for (name, shown) in [("AttemptList", list), ("Attempt", attempt), ("Transaction", transaction)] {
            let names = Set(shown.members?.map(\.name) ?? [])
            #expect(Set(schemas[name]?["properties"]?.members?.map(\.name) ?? []) == names, "\(name)")
            let required = Set(schemas[name]?["required"]?.array?.compactMap(\.string) ?? [])
            #expect(required == names.subtracting(["diagnostics"]), "\(name)")
        }
    }
}
