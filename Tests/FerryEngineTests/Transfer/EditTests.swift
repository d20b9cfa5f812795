import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

private let bytes = patternBytes(1_000_000, seed: 71)

/// Edits of a job while its attempt runs.
@Suite(.serialized, .onOwnThread) struct EditTests {
    /// Action of an origin that happens once, at a moment that the test chooses.
    private final class Moment: Sendable {
        private let body = Mutex<Callback?>(nil)

        func set(_ body: @escaping @Sendable () -> Void) {
            let callback = Callback(body)
            self.body.withLock { $0 = callback }
        }
        func come() { body.withLock { $0.take() }?() }
    }

    /// Runs one attempt at `old`. `edit` changes the job when `moment` has come; the origin goes on once the
    /// attempt has the edit.
    private static func run(
        _ kind: JobKind, at old: String, _ moment: Moment, _ draft: (inout Draft) -> Void,
        edit change: (inout JobSpec, inout JobSecrets) -> Void
    ) throws -> (result: AttemptResult, file: [UInt8]?) {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let attempt = fixture.attempt(kind, old) {
            if kind == .download { $0.to("file") }
            draft(&$0)
        }
        let edit = attempt.edit(change)
        moment.set { [engine = fixture.engine] in
            let isKnown = Signal<Bool>()
            engine.adopt(edit, of: attempt.job)
            engine.snapshot(of: attempt.job) { isKnown.fire($0 != nil) }
            _ = isKnown.wait()
        }
        fixture.engine.begin([attempt])
        let result = try #require(fixture.sink.arrived.wait().first)
        return (result, readFile(fixture.root + "/file"))
    }

    private static func renew(_ url: String) -> (inout JobSpec, inout JobSecrets) -> Void {
        { spec, _ in
            spec.request.original = OriginalRequest(url: spec.request.url, headers: spec.request.headers)
            try? spec.request.setURL(url)
        }
    }

    @Test("a body that breaks is continued at the edited URL", arguments: [1, 4])
    func continuation(segments: Int) throws {
        let moment = Moment()
        let old = try RangeOrigin(bytes) { answer, _, _ in
            answer.cutAfter = 200_000
            answer.halfway = (100_000, { moment.come() })
        }
        let new = try RangeOrigin(bytes)
        defer {
            old.stop()
            new.stop()
        }
        let (result, file) = try Self.run(
            .download, at: old.url, moment, { $0.spec.segmentCountMax = segments }, edit: Self.renew(new.url))
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(new.requests.first?.range != nil, "it goes on from the bytes that are there")
        #expect(new.requests.allSatisfy { $0.range?.lowerBound ?? 0 > 0 })
    }

    @Test("a request that is under way is not interrupted")
    func underWay() throws {
        let moment = Moment()
        let old = try RangeOrigin(bytes) { answer, _, _ in answer.halfway = (100_000, { moment.come() }) }
        let new = try RangeOrigin(bytes)
        defer {
            old.stop()
            new.stop()
        }
        let (result, file) = try Self.run(.download, at: old.url, moment, { _ in }, edit: Self.renew(new.url))
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(old.requests.count == 1 && new.requests.isEmpty)
    }

    @Test("the next request has the edited credentials")
    func credentials() throws {
        let moment = Moment()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            guard number == 0 else { return }
            answer.cutAfter = 200_000
            answer.halfway = (100_000, { moment.come() })
        }
        defer { origin.stop() }
        let (result, file) = try Self.run(
            .download, at: origin.url, moment,
            {
                $0.spec.request.headers = [.init("Authorization", "")]
                $0.secrets.headers = [.init("Authorization", "Bearer old")]
            }, edit: { _, secrets in secrets.headers = [.init("Authorization", "Bearer new")] })
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(origin.requests.map(\.authorization) == ["Bearer old", "Bearer new"])
        #expect(origin.requests.last?.range?.lowerBound ?? 0 > 0)
    }

    @Test(
        "a refusal of a request that was edited meanwhile is followed by the edited one",
        arguments: [JobKind.download, .data], [403, 404])
    func refusal(kind: JobKind, status: Int) throws {
        let moment = Moment()
        let old = try RangeOrigin(bytes) { answer, _, _ in
            answer.status = status
            answer.beforeHead = { moment.come() }
        }
        let new = try RangeOrigin(bytes)
        defer {
            old.stop()
            new.stop()
        }
        let (result, _) = try Self.run(
            kind, at: old.url, moment, { $0.spec.accept.status = ["2xx"] }, edit: Self.renew(new.url))
        #expect(result.success?.size == Int64(bytes.count), "\(result.outcome)")
        #expect(old.requests.count == 1 && new.requests.count == 1)
    }

    @Test("a redirect of a request that was edited meanwhile is not waited for", arguments: [1, 4])
    func delayedRedirect(segments: Int) throws {
        let moment = Moment()
        let old = try RangeOrigin(bytes) { answer, _, _ in
            (answer.status, answer.body) = (302, [])
            (answer.headers["Location"], answer.headers["Retry-After"]) = ("/elsewhere", "600")
            answer.beforeHead = { moment.come() }
        }
        let new = try RangeOrigin(bytes)
        defer {
            old.stop()
            new.stop()
        }
        let (result, file) = try Self.run(
            .download, at: old.url, moment, { $0.spec.segmentCountMax = segments }, edit: Self.renew(new.url))
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(old.requests.count == 1)
    }

    @Test("a refused request that must not be sent twice is not followed by the edited one")
    func notRepeatable() throws {
        let moment = Moment()
        let origin = try RangeOrigin(bytes) { answer, _, _ in
            answer.status = 403
            answer.beforeHead = { moment.come() }
        }
        defer { origin.stop() }
        let (result, _) = try Self.run(
            .data, at: origin.url, moment,
            {
                $0.spec.request.method = "POST"
                $0.spec.accept.status = ["2xx"]
            }, edit: Self.renew(origin.url + "/new"))
        #expect(result.failure?.code == .unacceptableStatus && origin.requests.count == 1)
    }

    @Test("bytes without a validator are not continued at the edited URL")
    func withoutValidator() throws {
        let moment = Moment()
        let old = try RangeOrigin(bytes, tag: nil) { answer, _, _ in
            answer.cutAfter = 200_000
            answer.halfway = (100_000, { moment.come() })
        }
        let new = try RangeOrigin(bytes, tag: nil)
        defer {
            old.stop()
            new.stop()
        }
        let (result, file) = try Self.run(
            .download, at: old.url, moment, { $0.spec.retry.resumesWithoutValidator = true },
            edit: { spec, _ in try? spec.request.setURL(new.url) })
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(new.requests.map(\.range) == [nil])
    }
}
