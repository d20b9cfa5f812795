import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .onOwnThread) struct ChaosTests {
    /// A server whose every answer is whole, cut, reset, stalled, late or an error: the same for the same
    /// request.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let words = request.path.split(separator: "/")
                guard words.count == 2, let number = Int(words[0]), let attempt = Int(words[1]) else {
                    return
                }
                let body = patternBytes(size(number), seed: UInt64(number))
                let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n"
                switch attempt == 1 ? number % 6 : 0 {
                case 1:
                    connection.send(Array(head.utf8) + body.prefix(body.count / 2))
                    return
                case 2:
                    connection.send(Array(head.utf8) + body.prefix(body.count / 2))
                    connection.reset()
                    return
                case 3:
                    guard connection.send("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno") else { return }
                case 4:
                    return
                default:
                    guard connection.send(Array(head.utf8) + body) else { return }
                }
            }
        }
    }

    private static func size(_ number: Int) -> Int { number % 50 == 0 ? 1_500_000 : number * 37 % 60_000 + 1 }

    @Test(
        "a thousand transfers with faults have one result each, exact files, and no partial files"
    )
    func thousand() throws {
        let (origin, fixture) = (try Self.origin(), try Fixture { $0.fileSync = .none })
        defer {
            fixture.stop()
            origin.stop()
        }
        func attempts(_ numbers: [(number: Int, job: JobID?)], _ attempt: Int) -> [Attempt] {
            numbers.map { one in
                fixture.attempt(
                    .download, "\(origin.url)/\(one.number)/\(attempt)", job: one.job, number: Int32(attempt)
                ) {
                    $0.to("d\(one.number % 7)/\(one.number)", one.number % 3 == 0 ? .fail : .replace)
                    $0.spec.description = "\(one.number)"
                }
            }
        }
        var waiting = Array((1...1_000).map { (number: $0, job: JobID?.none) })
        for round in 1...2 {
            var results: [AttemptResult] = []
            var next: [(number: Int, job: JobID?)] = []
            for start in stride(from: 0, to: waiting.count, by: 100) {
                let batch = Array(waiting[start..<min(start + 100, waiting.count)])
                fixture.engine.begin(attempts(batch, round))
                results += fixture.sink.arrived.wait(for: batch.count)
            }
            #expect(results.count == waiting.count)
            #expect(Set(results.map { $0.attempt.job }).count == waiting.count)
            fixture.engine.removePartialFiles(of: results.filter { $0.success != nil }.map { $0.attempt.job })
            for result in results where result.success == nil {
                #expect(result.failure?.isRetryable == true, "\(String(describing: result.failure))")
                next.append((Int(result.attempt.spec.description ?? "") ?? 0, result.attempt.job))
            }
            waiting = next
        }
        #expect(waiting.isEmpty)
        let expected = Set((1...1_000).map { "tenant/d\($0 % 7)/\($0)" })
        #expect(eventually { fixture.files() == expected })
        for number in 1...1_000 {
            let bytes = readFile(fixture.root + "/d\(number % 7)/\(number)")
            if bytes != patternBytes(Self.size(number), seed: UInt64(number)) {
                Issue.record("\(number) is wrong")
            }
        }
        #expect(fixture.engine.snapshot.live == 0)
    }
}
