import FerryCore
import FerryEngine
import OpenSSL
import Synchronization
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(4 << 20, seed: 31)
private let wrong = Array("another file".utf8)

/// Field in which a server announces a property of its file.
private enum Field: CaseIterable {
    case contentMD5, contentDigest, amazon, google, reprDigest

    /// Of an answer's content where the field is about that, of the file otherwise.
    func line(file: [UInt8], content: ArraySlice<UInt8>, isWhole: Bool) -> (
        name: String, value: String
    )? {
        // Of a part the server announces the part's.
        let content = isWhole ? file : Array(content)
        func text(_ bytes: [UInt8], _ algorithm: Digest.Algorithm) -> String {
            Base64.encode(Digest.of(bytes, algorithm))
        }
        switch self {
        case .contentMD5: return ("Content-MD5", text(content, .md5))
        case .contentDigest: return ("Content-Digest", "sha-512=:\(text(content, .sha512)):")
        case .amazon: return isWhole ? ("x-amz-checksum-sha1", text(file, .sha1)) : nil
        case .google: return ("x-goog-hash", "md5=\(text(file, .md5))")
        case .reprDigest: return ("Repr-Digest", "sha-256=:\(text(file, .sha256)):")
        }
    }
}

/// Announced properties of a file hold also when the file comes in several answers.
@Suite(.serialized, .onOwnThread) struct AnnouncedResumeTests {
    /// Answers that announce a property.
    private enum Speaker { case all, whole, parts }

    private final class Phase: Sendable {
        let isCutting: Atomic<Bool>
        init(isCutting: Bool) { self.isCutting = Atomic(isCutting) }
    }

    /// While `phase` says so, the first answer ends after 200 kB, and the others before their bodies.
    private static func origin(
        _ field: Field, isRight: Bool, _ speaker: Speaker = .all, _ phase: Phase? = nil
    ) throws -> RangeOrigin {
        try RangeOrigin(bytes) { answer, asked, number in
            let isWhole = answer.body.count == bytes.count
            if phase?.isCutting.load(ordering: .sequentiallyConsistent) ?? false {
                answer.cutAfter = number == 0 ? 200_000 : 0
            }
            guard speaker == .all || isWhole == (speaker == .whole),
                let line = field.line(file: isRight ? bytes : wrong, content: answer.body, isWhole: isWhole)
            else { return }
            answer.headers[line.name] = line.value
        }
    }

    private static func expect(_ isRight: Bool, _ result: AttemptResult, _ fixture: Fixture) {
        if isRight {
            #expect(result.success?.verified == .digest && result.success?.sha256 == sha256(bytes))
            if let failure = result.failure { Issue.record("\(failure)") }
        } else {
            #expect(result.failure?.code == .digestMismatch && result.failure?.isRetryable == true)
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    @Test(
        "the first range's announced digest of the whole file holds for a download in parts",
        arguments: Field.allCases, [true, false])
    fileprivate func segments(field: Field, isRight: Bool) throws {
        let origin = try Self.origin(field, isRight: isRight)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = 4
            })
        Self.expect(isRight, result, fixture)
    }

    /// A first attempt that is cut, and a second one that resumes.
    private static func resume(
        _ field: Field, isRight: Bool, _ speaker: Speaker, segments: Int
    ) throws {
        let phase = Phase(isCutting: true)
        let origin = try origin(field, isRight: isRight, speaker, phase)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        func run(_ number: Int32, _ job: JobID? = nil) throws -> AttemptResult {
            try #require(
                fixture.run(.download, origin.url, job: job, number: number) {
                    $0.to("file")
                    $0.spec.segmentCountMax = segments
                })
        }
        let failed = try run(1)
        #expect(failed.failure?.code == .incompleteBody && failed.leavesBytes)
        phase.isCutting.store(false, ordering: .sequentiallyConsistent)
        let count = origin.requests.count
        let result = try run(2, failed.attempt.job)
        let asked = origin.requests.dropFirst(count)
        #expect(asked.first?.range.map { $0.lowerBound > 0 } == true)
        if !isRight, speaker == .parts {
            // Joined bytes that seem wrong are fetched again at once, and nothing is announced of the whole.
            return #expect(result.success?.verified == .length && result.success?.sha256 == sha256(bytes))
        }
        expect(isRight, result, fixture)
    }

    @Test(
        "a digest from the first response holds for the file that a later attempt completes",
        arguments: Field.allCases, [true, false])
    fileprivate func resumed(field: Field, isRight: Bool) throws {
        for segments in [1, 4] {
            try Self.resume(field, isRight: isRight, .whole, segments: segments)
            // And what the others say of their parts is no word about the file.
            try Self.resume(field, isRight: isRight, .all, segments: segments)
        }
    }

    @Test(
        "a digest of the whole file in a later response holds too",
        arguments: [1, 4], [true, false])
    func rest(segments: Int, isRight: Bool) throws {
        try Self.resume(.reprDigest, isRight: isRight, .parts, segments: segments)
    }
}
