import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// What every `StreamSink` promises to the attempts of a job.
@Suite(.serialized, .onOwnThread) struct ByteSinkTests {
    private final class Held {
        var sink: (any StreamSink)?
    }

    /// A loop whose sinks the tests drive themselves.
    private final class Setting: Sendable {
        let fixture: Fixture
        private let loop: CurlLoop
        private let state: LoopBound<EngineLoop>
        private let held: LoopBound<Held>

        init() throws {
            // One thread carries out its work in order.
            let fixture = try Fixture { $0.fileThreadCount = 1 }
            self.fixture = fixture
            let loop = try CurlLoop(name: "test-sink", keptConnections: 1)
            self.loop = loop
            let context = fixture.engine.context
            state = LoopBound(on: loop) { multi, state in
                EngineLoop(context, index: 1, loop: loop, multi: multi, state: state)
            }
            held = LoopBound(on: loop) { _ in Held() }
        }

        func stop() {
            loop.stop()
            fixture.stop()
        }

        /// Runs a step on the loop.
        func on<Value: Sendable>(
            _ body: @escaping @Sendable (EngineLoop, Held) throws -> Value
        ) throws -> Value {
            let done = Signal<Result<Value, any Error>>()
            loop.perform { [state, held] multi in
                done.fire(Result { try body(state.get(multi), held.get(multi)) })
            }
            return try #require(done.wait().first).get()
        }

        /// Makes the sink of an attempt, and lets it find what is there.
        func open(_ attempt: Attempt) throws -> TransferError? {
            let opening = try on { loop, held in
                let sink = try loop.context.places[attempt.spec.contentLocation].sink(for: attempt, on: loop)
                held.sink = sink
                return try sink.open(attempt)
            }
            guard opening != .opened else { return nil }
            waitForFileThread()
            return try on { _, held in held.sink?.opened() }
        }

        func waitForFileThread() {
            let done = Signal<Void>()
            fixture.engine.context.fileThreads.send(.run { done.fire(()) })
            _ = done.wait()
        }

        func begin(_ attempt: Attempt, length: Int64) throws {
            try on { _, held in try held.sink?.begin(ByteSinkTests.plan(attempt, length: length)) }
        }

        func append(_ bytes: [UInt8]) throws {
            try on { _, held in try bytes.withUnsafeBytes { try held.sink?.append($0) } }
        }

        /// Commits the content, and returns the result of the attempt.
        func commit(_ attempt: Attempt) throws -> TransferResult? {
            try on { loop, held in
                let sink = try #require(held.sink)
                try sink.checkEnd()
                let digests = try #require(sink.digests)
                let ended = AttemptResult(
                    attempt: attempt, outcome: .released, response: nil, bytesReceived: 0, bytesSent: 0)
                _ = try sink.commit { loop.publication(of: $0, digests, .length, ended, resumedAt: nil) }
            }
            return fixture.sink.arrived.wait().first?.success
        }
    }

    private static func plan(_ attempt: Attempt, length: Int64) -> ContentPlan {
        ContentPlan(
            memoryLimit: 16, byteCountMax: nil, length: length, expectedByteCount: length,
            digests: Digests(JobSpec.Integrity()),
            record: PartialRecord(
                identity: PartialRecord.identity(of: attempt.spec.request), source: "s",
                validator: .entityTag("\"a\""), total: length), content: .alone)
    }

    private static func with(_ body: (Setting, Attempt) throws -> Void) throws {
        let setting = try Setting()
        defer { setting.stop() }
        try body(setting, setting.fixture.attempt(.download, "http://a.example/") { $0.to("a") })
    }

    @Test("nothing is at the location before the commit, then the whole content", arguments: [3, 70_000])
    func commits(_ count: Int) throws {
        try Self.with { setting, attempt in
            let bytes = patternBytes(count)
            #expect(try setting.open(attempt) == nil)
            try setting.begin(attempt, length: Int64(count))
            try setting.append(bytes)
            #expect(readFile(setting.fixture.root + "/a") == nil)
            let result = try #require(try setting.commit(attempt))
            #expect(result.location == .namedFile(path: "a") && result.sha256 == sha256(bytes))
            #expect(readFile(setting.fixture.root + "/a") == bytes && setting.fixture.files() == ["tenant/a"])
        }
    }

    @Test("bytes that an attempt leaves are continued by the next one, from the offset that it is told")
    func leaves() throws {
        try Self.with { setting, first in
            let bytes = patternBytes(100_000)
            #expect(try setting.open(first) == nil)
            try setting.begin(first, length: 100_000)
            try setting.append(Array(bytes[..<70_000]))
            let left = Signal<Int64?>()
            let keeps = try setting.on { _, held in
                let keeps = held.sink?.keep()
                held.sink?.leave { left.fire($0?.byteCount) }
                return keeps
            }
            #expect(keeps == true && left.wait() == [70_000])
            let second = setting.fixture.attempt(.download, "http://a.example/", job: first.job, number: 2) {
                $0.to("a")
            }
            #expect(try setting.open(second) == nil)
            try setting.on { _, held in
                let sink = try #require(held.sink)
                #expect(sink.earlier?.offset == 70_000 && sink.byteCount == 70_000 && !sink.isBegun)
                try sink.resume(Self.plan(second, length: 100_000), total: 100_000)
            }
            try setting.append(Array(bytes[70_000...]))
            #expect(try setting.commit(second)?.sha256 == sha256(bytes))
            #expect(readFile(setting.fixture.root + "/a") == bytes && setting.fixture.files() == ["tenant/a"])
        }
    }

    @Test("a content that begins anew has none of the bytes before, and one that is aborted leaves none")
    func drops() throws {
        try Self.with { setting, attempt in
            #expect(try setting.open(attempt) == nil)
            try setting.begin(attempt, length: 70_000)
            try setting.append(patternBytes(50_000))
            #expect(try setting.on { _, held in held.sink?.drop() } == true)
            #expect(try setting.on { _, held in held.sink?.drop() } == false, "there are none any more")
            try setting.begin(attempt, length: 30_000)
            try setting.append(patternBytes(20_000))
            #expect(try setting.on { _, held in held.sink?.byteCount } == 20_000)
            try setting.on { _, held in held.sink?.abort() }
            setting.waitForFileThread()
            #expect(setting.fixture.files().isEmpty)
        }
    }

    @Test("a content that cannot be at its location is refused before the first byte")
    func refused() throws {
        try Self.with { setting, _ in
            try writeFile(setting.fixture.root + "/a", [1])
            let attempt = setting.fixture.attempt(.download, "http://a.example/") { $0.to("a", .fail) }
            #expect(try setting.open(attempt)?.code == .destinationExists)
            #expect(readFile(setting.fixture.root + "/a") == [1])
        }
    }
}
