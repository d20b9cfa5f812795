import CSys
import Curl
import FerryCore
import Glibc
import OpenSSL
import Synchronization

/// A received body on its way to its final name. Made by the loop, carried out by a file thread.
///
/// The order is the promise: bytes verified, bytes on stable storage, lease still held and nobody cancelled,
/// final name, name on stable storage; then the result.
final class Publication: Sendable {
    enum Outcome: Sendable {
        case stored(TransferResult)
        case failed(TransferError)
        /// What was put aside of the bytes for a later attempt.
        case revoked(PartialDownload?)
    }

    /// How the bytes come: small bodies whole, others in their partial file.
    enum Bytes: Sendable {
        case memory([UInt8], BufferReservation?)
        case file(PartialFile, DigestTail?)
    }

    struct Plan: Sendable {
        let bytes: Bytes
        let destination: Destination
        let digests: Digests
        let verified: TransferResult.Verification
        /// The bytes are the result itself: they went to a file for want of memory, which is removed.
        let isInline: Bool
        let syncs: Bool
        let space: StorageSpace
        /// Whether the attempt is still ours, asked right before the file gets its name.
        let holdsLease: @Sendable () -> Bool
        let leftovers: Leftovers
        let loop: CurlLoop
        /// Runs on the file thread when the file has its name: nobody waits for the loop.
        let report: @Sendable (TransferResult) -> Void
        /// Runs on the loop's thread, after `report` if there was one.
        let deliver: @Sendable (CurlMulti, Outcome) -> Void
    }

    private enum Fate: Int { case open, revoked, publishing }
    private let plan: Plan
    private let fate = Atomic<Int>(Fate.open.rawValue)

    init(_ plan: Plan) { self.plan = plan }

    /// Any thread: stops the publication, and the hashing before it. False: the file is about to get its
    /// name, or has it.
    @discardableResult
    func revoke() -> Bool {
        let (exchanged, found) = fate.compareExchange(
            expected: Fate.open.rawValue, desired: Fate.revoked.rawValue, ordering: .sequentiallyConsistent)
        if exchanged, case .file(_, let tail) = plan.bytes { tail?.stop() }
        return exchanged || found == Fate.revoked.rawValue
    }

    /// File thread, before the last step: nobody may stop it any more. False: somebody has.
    private func settle() -> Bool {
        fate.compareExchange(
            expected: Fate.open.rawValue, desired: Fate.publishing.rawValue, ordering: .sequentiallyConsistent
        ).exchanged
    }

    private var isRevoked: Bool { fate.load(ordering: .sequentiallyConsistent) == Fate.revoked.rawValue }

    /// File thread: carries out all of them, then tells the loops.
    static func publish(_ batch: [Publication]) {
        var staged: [(Publication, Staged)] = []
        var outcomes: [(Publication, Outcome)] = []
        var places: [[UInt8]: StorageDirectory] = [:]
        for publication in batch {
            if publication.plan.isInline {
                outcomes.append((publication, publication.readBack()))
                continue
            }
            do throws(TransferError) {
                guard let one = try publication.stage(&places) else {
                    outcomes.append((publication, publication.leave()))
                    continue
                }
                staged.append((publication, one))
            } catch {
                outcomes.append((publication, .failed(error)))
            }
        }
        let failures = sync(staged)
        var directories: [[UInt8]: StorageDirectory] = [:]
        for (index, (publication, one)) in staged.enumerated() {
            let outcome = publication.name(one, failures[index] ?? nil)
            outcomes.append((publication, outcome))
            if case .stored = outcome, publication.plan.syncs { directories[one.key] = one.place }
        }
        let synced = zip(directories.keys, StorageSync.directories(Array(directories.values)))
        let failed = Dictionary(uniqueKeysWithValues: synced).compactMapValues(\.self)
        deliver(outcomes.map { ($0, $0.after($1, failed[Staged.key(of: $0.plan.destination)])) })
    }

    /// By index in `staged`: what went wrong with those that have to be on stable storage.
    private static func sync(_ staged: [(Publication, Staged)]) -> [Int: TransferError?] {
        let chosen = staged.indices.filter { staged[$0].0.plan.syncs && !staged[$0].0.isRevoked }
        return Dictionary(
            uniqueKeysWithValues: zip(chosen, StorageSync.files(chosen.map { staged[$0].1.file })))
    }

    /// The name may be lost with a power cut, so it is not a success. The next attempt does it again.
    /// `failure`: of its directory's sync.
    private func after(_ outcome: Outcome, _ failure: TransferError?) -> Outcome {
        guard let failure, case .stored = outcome, plan.syncs, !plan.isInline else { return outcome }
        return .failed(failure)
    }

    private static func deliver(_ outcomes: [(Publication, Outcome)]) {
        for (publication, outcome) in outcomes {
            let plan = publication.plan
            guard case .stored(let result) = outcome else {
                plan.loop.perform { plan.deliver($0, outcome) }
                continue
            }
            plan.report(result)
            plan.loop.performLater { plan.deliver($0, outcome) }
        }
    }

    /// A verified partial.
    private struct Staged {
        let place: StorageDirectory
        let file: PartialFile
        let size: Int64
        let sha256: String
        /// The same for the same directory, and as strings those of others may be the same: é has two forms.
        let key: [UInt8]

        static func key(of destination: Destination) -> [UInt8] {
            Array("\(destination.root.descriptor):\(destination.directory)".utf8)
        }

        init(_ place: StorageDirectory, _ file: PartialFile, _ sha256: String, _ destination: Destination) {
            self.place = place
            self.file = file
            self.size = file.byteCount
            self.sha256 = sha256
            key = Self.key(of: destination)
        }
    }

    /// `places`: the directories that this batch has opened. Nil: it was revoked while its bytes were hashed.
    private func stage(_ places: inout [[UInt8]: StorageDirectory]) throws(TransferError) -> Staged? {
        let destination = plan.destination
        let key = Staged.key(of: destination)
        let place: StorageDirectory
        if let opened = places[key] {
            place = opened
        } else {
            place = try destination.root.directory(destination.directory, making: true)
        }
        places[key] = place
        switch plan.bytes {
        case .memory(let bytes, let gathering):
            // What is small is written whatever the reserve says: it was fetched already.
            let claim =
                gathering == nil ? nil : try plan.space.claim(at: place, expecting: Int64(bytes.count))
            plan.digests.update(bytes)
            let sha256 = try plan.digests.finish()
            let file = try PartialFile(destination, in: place)
            do throws(TransferError) {
                try claim?.take(bytes.count, file.descriptor)
                try file.append(bytes)
            } catch {
                file.discard()
                throw error
            }
            return Staged(place, file, sha256, destination)
        case .file(let file, let tail):
            // In this order: who revokes the publication stops the hashing afterwards.
            let failure = tail?.failure
            guard !isRevoked else { return nil }
            do throws(TransferError) {
                if let failure { throw failure }
                return Staged(place, file, try plan.digests.finish(), destination)
            } catch {
                file.discard()
                throw error
            }
        }
    }

    /// The bytes of a file that nobody is to see.
    private func readBack() -> Outcome {
        guard case .file(let file, let tail) = plan.bytes else {
            preconditionFailure("what is in memory is the result already")
        }
        defer { file.discard() }
        guard !isRevoked else { return .revoked(nil) }
        do throws(TransferError) {
            if let failure = tail?.failure { throw failure }
            let sha256 = try plan.digests.finish()
            let bytes = try file.contents()
            guard settle() else { return .revoked(nil) }
            return .stored(
                TransferResult(
                    path: nil, size: file.byteCount, sha256: sha256, body: bytes, isKept: false,
                    verified: plan.verified))
        } catch {
            return .failed(error)
        }
    }

    /// Gives the file its name, if it still may have it.
    private func name(_ staged: Staged, _ failure: TransferError?) -> Outcome {
        if let failure {
            staged.file.discard()
            return .failed(failure)
        }
        guard plan.holdsLease() else {
            putAside(staged.file)
            return .failed(
                TransferError(
                    .nodeLost, "The node lost touch with the database.", phase: .finishing, isRetryable: true)
            )
        }
        guard settle() else { return .revoked(putAside(staged.file)) }
        do throws(TransferError) {
            let identity = staged.file.identity
            let name = try give(staged)
            staged.file.forgetRecord()
            var result = TransferResult(
                path: plan.destination.isKept ? nil : plan.destination.path(of: name), size: staged.size,
                sha256: staged.sha256, body: nil, isKept: plan.destination.isKept, verified: plan.verified)
            // Nobody else writes where the service keeps files.
            if !plan.destination.isKept { result.file = identity }
            return .stored(result)
        } catch {
            staged.file.discard()
            return .failed(error)
        }
    }

    /// What becomes of bytes that nobody has looked at yet.
    private func leave() -> Outcome {
        guard case .file(let file, _) = plan.bytes else { return .revoked(nil) }
        return .revoked(putAside(file))
    }

    /// This attempt may not publish the bytes: a later one may go on from them.
    @discardableResult
    private func putAside(_ file: PartialFile) -> PartialDownload? {
        guard let leftover = file.keep(syncs: plan.syncs) else {
            file.discard()
            return nil
        }
        plan.leftovers.add(leftover)
        return leftover.kept
    }

    /// `replace` renames. The others link, so that nothing is overwritten, and keep the partial until the
    /// result is committed: it proves to the next attempt whose file that is.
    private func give(_ staged: Staged) throws(TransferError) -> String {
        let (destination, place) = (plan.destination, staged.place.descriptor)
        let partial = staged.file.name
        if destination.ifExists == .replace {
            guard renameat(place, partial, place, destination.name) == 0 else { throw storageError(errno) }
            return destination.name
        }
        let last = destination.ifExists == .rename ? EngineLimits.renameCountMax : 0
        for number in 0...last {
            let name = destination.name(numbered: number)
            if linkat(place, partial, place, name, 0) == 0 {
                plan.leftovers.add(Leftover(destination, partial: partial))
                return name
            }
            if errno == EEXIST { continue }
            if try Self.moved(partial, to: name, in: place) { return name }
        }
        throw storageError(EEXIST)
    }

    /// Where there are no hard links, as with many file systems in user space, the name is given in one step
    /// as well, but nothing proves afterwards whose file that is. False: the name is taken.
    private static func moved(
        _ partial: String, to name: String, in place: Int32
    ) throws(TransferError) -> Bool {
        if csys_rename_noreplace(place, partial, place, name) == 0 { return true }
        switch errno {
        case EEXIST: return false
        case EINVAL, ENOSYS, EOPNOTSUPP:
            throw TransferError(
                .destinationInvalid,
                "The disk cannot give a name only if it is free; there if_exists has to be replace.",
                phase: .finishing, isRetryable: false, osError: errno)
        default: throw storageError(errno)
        }
    }
}
