import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import Testing

/// Many jobs at once, each of them tried until it has succeeded or failed for good.
struct PropertyRun {
    /// A job, and what goes wrong with it.
    struct Case: Sendable {
        /// The path of its URL and of its file: one of its own.
        let path: String
        /// It may end with an error: bytes of a response's head were changed.
        var mayFail = false
        /// Its body ends with the connection, whichever side closes it: the result is not verified.
        var isUnproved = false
        /// Its first attempt meets a server that falls silent.
        var stalls = false
    }

    let fixture: Fixture
    /// Seed that a failure prints, so that it can be repeated.
    let seed: UInt64
    /// Of the whole body.
    let byteCount: Int
    var attemptCountMax: Int32 = 8
    var atOnce = 200
    /// Seconds that a request waits for a server that does not respond.
    var stallSeconds = 0.2
    /// Silence after which all others give up, in seconds: the connection that they use again may be one on
    /// which a server has fallen silent after a whole answer, or the fault for another attempt is left for
    /// them.
    var silenceSeconds = 5.0
    /// Sees the result of every attempt.
    var inspect: @Sendable (AttemptResult) -> Void = { _ in }
    /// Sets the properties of the job of a case.
    let make: @Sendable (Case, inout Draft) -> Void

    /// The cases that failed, with their errors; the others have succeeded.
    func finish(_ kind: JobKind, _ url: String, _ cases: [Case]) -> [(Case, TransferError)] {
        var failed: [(Case, TransferError)] = []
        var open = cases.map { (one: $0, job: JobID?.none) }
        for number in 1...attemptCountMax where !open.isEmpty {
            var next: [(one: Case, job: JobID?)] = []
            for start in stride(from: 0, to: open.count, by: atOnce) {
                let batch = open[start..<min(start + atOnce, open.count)]
                let attempts = batch.map { open in
                    fixture.attempt(kind, url + open.one.path, job: open.job, number: number) { draft in
                        draft.spec.request.timeoutForRequest =
                            number == 1 && open.one.stalls ? stallSeconds : silenceSeconds
                        make(open.one, &draft)
                    }
                }
                let byJob = Dictionary(uniqueKeysWithValues: zip(attempts.map(\.job), batch.map(\.one)))
                fixture.engine.begin(attempts)
                let results = fixture.sink.arrived.wait(for: batch.count, seconds: 120)
                #expect(results.count == batch.count, "seed \(seed): some have no end")
                for result in results {
                    inspect(result)
                    guard let one = byJob[result.attempt.job] else { continue }
                    if let error = result.failure, error.isRetryable {
                        next.append((one, result.attempt.job))
                        continue
                    }
                    fixture.engine.removePartialFiles(of: [result.attempt.job])
                    if one.isUnproved, let success = result.success {
                        let isShort = success.size < Int64(byteCount)
                        #expect(!isShort || success.verified == .none, "seed \(seed), \(one.path)")
                    }
                    guard let error = result.failure else { continue }
                    failed.append((one, error))
                    if !one.mayFail { Issue.record("seed \(seed), \(one.path): \(error)") }
                }
            }
            open = next
        }
        #expect(open.isEmpty, "seed \(seed): \(open.prefix(3).map(\.one.path)) come to no end")
        return failed
    }

    /// Every file is exact, or not there because its job has failed; nothing lies beside them.
    func expectExact(_ cases: [Case], _ failed: [(Case, TransferError)], _ bytes: [UInt8]) {
        let missing = Set(failed.map(\.0.path))
        for one in cases {
            let found = readFile(fixture.root + one.path)
            if one.isUnproved, let found, bytes.starts(with: found) { continue }
            if missing.contains(one.path) ? found != nil : found != bytes {
                Issue.record("seed \(seed), \(one.path): \(found.map { "\($0.count) bytes" } ?? "nothing")")
            }
        }
        let expected = Set(cases.map(\.path)).subtracting(missing).map { "tenant" + $0 }
        #expect(eventually { fixture.files() == Set(expected) }, "seed \(seed)")
    }
}

/// Fault in the bytes of an answer, at one place of it.
enum WireFault: String, CaseIterable, Sendable {
    /// The connection ends there.
    case cut
    case reset
    /// Nothing more comes.
    case stall
    /// One bit is another one.
    case flip
    /// Two bytes have changed places.
    case swap

    /// Whether received bytes may differ from those sent: only a digest can tell.
    var changesBytes: Bool { self == .flip || self == .swap }

    /// Sends the answer with the fault after so many bytes; the connection is of no use afterwards.
    func send(_ answer: [UInt8], after count: Int, seed: UInt64, on connection: OriginConnection) {
        var answer = answer
        switch self {
        case .cut, .reset, .stall:
            connection.send(Array(answer.prefix(count)))
            if self == .reset { connection.reset() }
            if self == .stall { _ = connection.waitUntilClosed() }
        case .flip:
            var random = SeededRandom(seed: seed &+ UInt64(count))
            if count < answer.count { answer[count] ^= 1 << UInt8.random(in: 0...6, using: &random) }
            connection.send(answer)
        case .swap:
            if count + 1 < answer.count { answer.swapAt(count, count + 1) }
            connection.send(answer)
        }
    }
}

/// Counter of requests by name.
final class Tally: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    /// Counts `name` and returns its count before.
    func next(_ name: String) -> Int {
        counts.withLock { counts in
            defer { counts[name, default: 0] += 1 }
            return counts[name] ?? 0
        }
    }

    subscript(name: String) -> Int { counts.withLock { $0[name] ?? 0 } }
}
