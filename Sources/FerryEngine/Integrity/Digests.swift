import CSys
import FerryCore
import Glibc
import OpenSSL
import Synchronization

/// The digests of one body: always SHA-256, and those that the job demands or the server has announced.
///
/// Unchecked: one thread at a time uses it, first the loop's, then (behind a lock) a file thread's. Digests
/// that any thread may add have a lock of their own.
final class Digests: @unchecked Sendable {
    private var sha256 = Digest(.sha256)
    private let others: [RunningDigest]
    /// An algorithm that the job demands and this node lacks; the node that accepted the job has it.
    private let missing: DigestAlgorithm?
    /// Those of the job if it has some, else those of the server.
    private let expected: [ExpectedDigest]
    /// Those of the server that do not count, because the job has its own.
    private let outvoted: [ExpectedDigest]
    /// Whether announcements count: the job neither ignores them nor has its own digests.
    private let checksAnnounced: Bool
    private let expectedSize: Int64?
    private let isRepeatable: Bool
    /// An algorithm that is computed although no digest of it is expected; `nil` for none.
    let additional: DigestAlgorithm?
    /// The digest of `additional`; `nil` before `finish`.
    private(set) var additionalValue: [UInt8]?
    /// Digests that were announced after the hashing had begun.
    private let later = Mutex<[ExpectedDigest]>([])
    private(set) var byteCount: Int64 = 0

    /// `isRepeatable`: whether another attempt may fetch (or send) the bytes again. `additional`: an
    /// algorithm that is computed in any case.
    init(
        _ integrity: JobSpec.Integrity, announced: [ExpectedDigest] = [], isRepeatable: Bool = true,
        additional: DigestAlgorithm? = nil
    ) {
        let own = integrity.expected
        checksAnnounced = integrity.announced == .verify && own.isEmpty
        expected = checksAnnounced ? announced : own
        outvoted = checksAnnounced ? [] : announced
        expectedSize = integrity.size
        self.isRepeatable = isRepeatable
        self.additional = additional
        var others: [RunningDigest] = []
        var missing: DigestAlgorithm?
        for one in expected
        where one.algorithm != .sha256 && !others.contains(where: { $0.algorithm == one.algorithm }) {
            if let running = RunningDigest(one.algorithm) {
                others.append(running)
            } else {
                missing = one.algorithm
            }
        }
        if let additional, additional != .sha256, !others.contains(where: { $0.algorithm == additional }),
            let running = RunningDigest(additional)
        {
            others.append(running)
        }
        self.others = others
        self.missing = missing
    }

    /// Whether a digest proves the bytes if `finish` succeeds.
    var isProof: Bool { !expected.isEmpty || later.withLock { !$0.isEmpty } }

    /// Adds expected digests, as far as their algorithms are computed anyway: bytes that are hashed already
    /// are not hashed again. Any thread, before `finish`.
    func expect(_ announced: [ExpectedDigest]) {
        guard checksAnnounced else { return }
        for one in announced where one.algorithm == .sha256 || others.contains(where: one.isOf) {
            guard !expected.contains(one) else { continue }
            later.withLock { later in
                guard !later.contains(one), later.count < EngineLimits.laterDigestCountMax else { return }
                later.append(one)
            }
        }
    }

    /// Returns the verification of the bytes, for after `finish` has returned without an error.
    /// `isDelimited`: whether the response says where its body ends.
    func verification(_ integrity: JobSpec.Integrity, isDelimited: Bool) -> TransferResult.Verification {
        if isProof { return .digest }
        return integrity.size != nil || isDelimited ? .length : .none
    }

    func update(_ bytes: UnsafeRawBufferPointer) {
        byteCount += Int64(bytes.count)
        sha256.update(bytes)
        for one in others { one.update(bytes) }
    }

    func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { update($0) } }

    /// Starts over.
    func reset() {
        byteCount = 0
        _ = sha256.finish()
        for one in others { _ = one.finish() }
    }

    /// Returns the SHA-256 in hexadecimal. Throws `size_mismatch` or `digest_mismatch`. Called once.
    func finish() throws(TransferError) -> String { hexEncoded(try sha256OfAll()) }

    /// Like `finish()`, with the bytes of the SHA-256.
    func sha256OfAll() throws(TransferError) -> [UInt8] {
        if let expectedSize, expectedSize != byteCount {
            throw TransferError(
                .sizeMismatch, "The size is \(byteCount) bytes instead of \(expectedSize).",
                phase: .finishing, isRetryable: isRepeatable)
        }
        if let missing {
            throw TransferError(
                .digestMismatch,
                "The \(missing.rawValue) that the job demands cannot be computed by this node's libcrypto.",
                phase: .finishing, isRetryable: isRepeatable)
        }
        let actual = sha256.finish()
        let expected = expected + later.withLock { $0 }
        if additional == .sha256 { additionalValue = actual }
        for one in expected where one.algorithm == .sha256 { try check(one, actual) }
        for other in others {
            let actual = other.finish()
            if additional == other.algorithm { additionalValue = actual }
            for one in expected where one.algorithm == other.algorithm { try check(one, actual) }
        }
        return actual
    }

    private func check(_ one: ExpectedDigest, _ actual: [UInt8]) throws(TransferError) {
        guard one.value != actual else { return }
        let name = one.algorithm.rawValue
        var text = "The \(name) of the bytes is \(hexEncoded(actual)). "
        switch one.source {
        case .job: text += "The job demands "
        case .server: text += "The server has announced "
        case .client: text += "The request names "
        }
        text += hexEncoded(one.value) + "."
        if one.source == .job,
            let other = outvoted.first(where: { $0.algorithm == one.algorithm }) ?? outvoted.first
        {
            text += " The server has announced the \(other.algorithm.rawValue) \(hexEncoded(other.value))."
        }
        throw TransferError(
            .digestMismatch, text,
            phase: .finishing, isRetryable: isRepeatable)
    }
}

/// Hashes a file behind its writer or reader, on file threads, and starts its write-back.
///
/// The loop reports how many bytes exist. At most one file thread works on the file at a time.
final class DigestTail: Sendable {
    private struct State {
        var available: Int64
        var isScheduled = false
        var whenFinished: FileWork?
        var failure: TransferError?
    }

    private static let sliceByteCount: Int64 = 8 << 20
    private static let signalByteCount: Int64 = 1 << 20

    /// The file that is read, the object that keeps it open, and whether it is being written, so that its
    /// write-back has to be started.
    struct Bytes: Sendable {
        let descriptor: Int32
        let owner: any AnyObject & Sendable
        let isWritten: Bool
    }

    private let bytes: Bytes
    private let digests: Digests
    private let fileThreads: FileThreadPool
    private let onProgress: @Sendable () -> Void
    private let state: Mutex<State>
    private let digested: Atomic<Int64>
    private let signalled: Atomic<Int64>

    /// `digests` has seen the first `offset` bytes already. `onProgress` is called on
    /// a file thread after each slice.
    init(
        _ bytes: Bytes, _ digests: Digests, fileThreads: FileThreadPool,
        onProgress: @escaping @Sendable () -> Void
    ) {
        self.bytes = bytes
        self.digests = digests
        self.fileThreads = fileThreads
        self.onProgress = onProgress
        state = Mutex(State(available: digests.byteCount))
        digested = Atomic(digests.byteCount)
        signalled = Atomic(digests.byteCount)
    }

    /// Returns how many bytes are not hashed yet.
    func lag(at available: Int64) -> Int64 { available - digested.load(ordering: .relaxed) }

    /// Reports that so many bytes exist. Cheap; wakes a file thread once per megabyte. Loop thread.
    func advance(to available: Int64) {
        guard available - signalled.load(ordering: .relaxed) >= Self.signalByteCount else { return }
        signalled.store(available, ordering: .relaxed)
        schedule { $0.available = max($0.available, available) }
    }

    /// Reports that all bytes exist. `work` runs on a file thread as soon as all are hashed. Called once.
    func finish(at available: Int64, then work: FileWork) {
        schedule {
            $0.available = available
            $0.whenFinished = work
        }
    }

    /// Ends the hashing: `failure` is set, and pending work runs soon.
    func stop() {
        schedule { state in
            state.failure = TransferError(
                .internalError, "The hashing was stopped.", phase: .finishing, isRetryable: true)
            state.available = min(state.available, digested.load(ordering: .relaxed))
        }
    }

    /// The failure of reading the file, or `nil` if there was none so far.
    var failure: TransferError? { state.withLock { $0.failure } }

    private func schedule(_ change: (inout State) -> Void) {
        let mustSend = state.withLock { state in
            change(&state)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSend { fileThreads.send(.digest(self)) }
    }

    /// Hashes one slice, and queues itself again if there are more. File thread.
    func run(_ buffer: UnsafeMutableRawBufferPointer) {
        let target = state.withLock { $0.available }
        let start = digested.load(ordering: .relaxed)
        let end = max(start, min(target, start + Self.sliceByteCount))
        var offset = start
        while offset < end {
            let count = pread(
                bytes.descriptor, buffer.baseAddress, min(buffer.count, Int(end - offset)), off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                fail()
                return
            }
            digests.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += Int64(count)
        }
        digested.store(offset, ordering: .relaxed)
        if bytes.isWritten, offset > start { csys_start_writeback(bytes.descriptor, start, offset - start) }
        let (again, work) = state.withLock { state -> (Bool, FileWork?) in
            if state.available > offset { return (true, nil) }
            state.isScheduled = false
            defer { state.whenFinished = nil }
            return (false, state.whenFinished)
        }
        if again { fileThreads.send(.digest(self)) }
        if let work { fileThreads.send(work) }
        onProgress()
    }

    /// The file is shorter than before, or cannot be read. Work that waits for the end runs and sees
    /// `failure`.
    private func fail() {
        let work = state.withLock { state -> FileWork? in
            state.failure = TransferError(
                .storageFailed, "The file could not be read while it was hashed.", phase: .finishing,
                isRetryable: true)
            state.isScheduled = false
            state.available = digested.load(ordering: .relaxed)
            defer { state.whenFinished = nil }
            return state.whenFinished
        }
        if let work { fileThreads.send(work) }
        onProgress()
    }
}
