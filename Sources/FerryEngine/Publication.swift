import Curl
import FerryCore
import Glibc
import OpenSSL
import Synchronization

/// A received body on its way to its final name. Made by the loop, carried out by a file thread.
///
/// The order is the promise: bytes verified, bytes on stable storage, lease still held and nobody cancelled, final
/// name, name on stable storage; then the result.
final class Publication: Sendable {
    enum Outcome: Sendable {
        case stored(TransferResult)
        case failed(TransferError)
        case revoked
    }

    /// How the bytes come: small bodies whole, others in their partial file.
    enum Bytes: Sendable {
        case memory([UInt8])
        case file(PartialFile, DigestTail?)
    }

    struct Plan: Sendable {
        let bytes: Bytes
        let destination: Destination
        let digests: Digests
        let verified: TransferResult.Verification
        let syncs: Bool
        let lease: any LeaseHolder
        let leftovers: Leftovers
        let loop: CurlLoop
        /// Runs on the loop's thread.
        let deliver: @Sendable (CurlMulti, Outcome) -> Void
    }

    private enum Fate: Int { case open, revoked, publishing }
    private let plan: Plan
    private let fate = Atomic<Int>(Fate.open.rawValue)

    init(_ plan: Plan) { self.plan = plan }

    /// Any thread: stops the publication unless the file is about to get its name already.
    func revoke() {
        _ = fate.compareExchange(
            expected: Fate.open.rawValue, desired: Fate.revoked.rawValue, ordering: .sequentiallyConsistent)
    }

    private var isRevoked: Bool { fate.load(ordering: .sequentiallyConsistent) == Fate.revoked.rawValue }

    /// File thread: carries out all of them, then tells the loops.
    static func publish(_ batch: [Publication]) {
        var ready: [(Publication, Staged)] = []
        var outcomes: [(Publication, Outcome)] = []
        for publication in batch {
            do throws(TransferError) {
                ready.append((publication, try publication.stage()))
            } catch {
                outcomes.append((publication, .failed(error)))
            }
        }
        var directories: [String: StorageDirectory] = [:]
        for (publication, staged) in ready {
            let outcome = publication.name(staged)
            outcomes.append((publication, outcome))
            if case .stored = outcome, publication.plan.syncs { directories[staged.key] = staged.place }
        }
        for directory in directories.values { fsync(directory.descriptor) }
        deliver(outcomes)
    }

    private static func deliver(_ outcomes: [(Publication, Outcome)]) {
        var commands: [ObjectIdentifier: (loop: CurlLoop, commands: [CurlLoop.Command])] = [:]
        for (publication, outcome) in outcomes {
            let plan = publication.plan
            commands[ObjectIdentifier(plan.loop), default: (plan.loop, [])].commands.append { multi in
                plan.deliver(multi, outcome)
            }
        }
        for (loop, commands) in commands.values { loop.perform(contentsOf: commands) }
    }

    /// A verified partial that is on stable storage.
    private struct Staged {
        let place: StorageDirectory
        let file: PartialFile
        let size: Int64
        let sha256: String
        var key: String
    }

    private func stage() throws(TransferError) -> Staged {
        let destination = plan.destination
        let place = try destination.root.directory(destination.directory, making: true)
        let file: PartialFile
        switch plan.bytes {
        case .memory(let bytes):
            plan.digests.update(bytes)
            let sha256 = try plan.digests.finish()
            file = try PartialFile(destination, in: place)
            do throws(TransferError) {
                try file.append(bytes)
                return try finishStaging(place, file, sha256)
            } catch {
                file.discard()
                throw error
            }
        case .file(let partial, let tail):
            file = partial
            do throws(TransferError) {
                if let failure = tail?.failure { throw failure }
                return try finishStaging(place, file, try plan.digests.finish())
            } catch {
                file.discard()
                throw error
            }
        }
    }

    private func finishStaging(
        _ place: StorageDirectory, _ file: PartialFile, _ sha256: String
    ) throws(TransferError) -> Staged {
        if plan.syncs, !isRevoked { try file.sync() }
        let key = "\(plan.destination.root.descriptor):\(plan.destination.directory)"
        return Staged(place: place, file: file, size: file.byteCount, sha256: sha256, key: key)
    }

    /// Gives the file its name, if it still may have it.
    private func name(_ staged: Staged) -> Outcome {
        guard plan.lease.holdsLease else {
            staged.file.discard()
            return .failed(
                TransferError(.nodeLost, "The node lost touch with the database.", phase: .finishing, isRetryable: true))
        }
        let (mayPublish, _) = fate.compareExchange(
            expected: Fate.open.rawValue, desired: Fate.publishing.rawValue, ordering: .sequentiallyConsistent)
        guard mayPublish else {
            staged.file.discard()
            return .revoked
        }
        do throws(TransferError) {
            let name = try give(staged)
            return .stored(
                TransferResult(
                    path: plan.destination.isKept ? nil : plan.destination.path(of: name), size: staged.size,
                    sha256: staged.sha256, body: nil, isKept: plan.destination.isKept, verified: plan.verified))
        } catch {
            staged.file.discard()
            return .failed(error)
        }
    }

    /// `replace` renames. The others link, so that nothing is overwritten, and keep the partial until the result
    /// is committed: it proves to the next attempt whose file that is.
    private func give(_ staged: Staged) throws(TransferError) -> String {
        let (destination, place) = (plan.destination, staged.place.descriptor)
        let partial = destination.partialName
        if destination.ifExists == .replace {
            guard renameat(place, partial, place, destination.name) == 0 else { throw storageError(errno) }
            return destination.name
        }
        let last = destination.ifExists == .rename ? EngineLimits.renameCountMax : 0
        for number in 0...last {
            let name = destination.name(numbered: number)
            if linkat(place, partial, place, name, 0) == 0 {
                plan.leftovers.add(destination)
                return name
            }
            guard errno == EEXIST else { throw storageError(errno) }
        }
        throw storageError(EEXIST)
    }
}

/// A partial file and the descriptor that writes it. Closed with its last owner; removed only by `discard()`.
final class PartialFile: Sendable {
    let descriptor: Int32
    private let destination: Destination
    private let written = Atomic<Int64>(0)

    init(_ destination: Destination, in place: StorageDirectory) throws(TransferError) {
        self.destination = destination
        descriptor = try place.newFile(destination.partialName)
    }

    deinit { close(descriptor) }

    var byteCount: Int64 { written.load(ordering: .relaxed) }

    /// One thread at a time. Throws `storage_full` or `storage_failed`.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        try writeAll(descriptor, bytes, at: byteCount)
        written.wrappingAdd(Int64(bytes.count), ordering: .relaxed)
    }

    func append(_ bytes: [UInt8]) throws(TransferError) {
        try bytes.withUnsafeBufferPointer { (buffer) throws(TransferError) in
            try append(UnsafeRawBufferPointer(buffer))
        }
    }

    func sync() throws(TransferError) {
        guard fdatasync(descriptor) == 0 else { throw storageError(errno) }
    }

    /// Removes the name. File thread: a large file takes milliseconds.
    func discard() {
        // Whoever moved the directory away took the partial along.
        guard let place = try? destination.root.directory(destination.directory, making: false) else { return }
        place.remove(destination.partialName)
    }
}

/// Partials that stay beside their linked final name until the result is committed.
final class Leftovers: Sendable {
    private let waiting = Mutex<[JobID: Destination]>([:])

    func add(_ destination: Destination) { waiting.withLock { $0[destination.job] = destination } }

    /// What is left of these jobs, once.
    func take(_ jobs: [JobID]) -> [Destination] {
        waiting.withLock { waiting in
            guard !waiting.isEmpty else { return [] }
            return jobs.compactMap { waiting.removeValue(forKey: $0) }
        }
    }
}

extension Destination {
    func removePartial() {
        guard let place = try? root.directory(directory, making: false) else { return }
        place.remove(partialName)
    }
}
