import CSys
import Curl
import FerryCore
import Glibc
import OpenSSL
import Synchronization

/// Gives a received body its final name. Made by the loop, carried out by a file thread.
///
/// The order is fixed: the bytes are verified, the bytes are on stable storage, the lease is still held and
/// the publication not revoked, the file gets its final name, the name is on stable storage, the result is
/// reported.
final class Publication: Sendable {
    enum Outcome: Sendable {
        case stored(TransferResult)
        case failed(TransferError)
        /// Revoked before the file got its name; the bytes that are left to a later attempt, if any.
        case revoked(PartialDownload?)
    }

    /// The bytes: small bodies in memory, others in their partial file.
    enum Bytes: Sendable {
        case memory([UInt8], BufferReservation?)
        case file(PartialFile, DigestTail?)
    }

    struct Plan: Sendable {
        let bytes: Bytes
        let destination: Destination
        let digests: Digests
        let verified: TransferResult.Verification
        /// Whether the bytes become the result itself. They went to a file only for lack of memory; the file
        /// is removed.
        let isInline: Bool
        let syncs: Bool
        let space: StorageSpace
        /// Whether this node still holds the attempt's lease. Called right before the file gets its name.
        let holdsLease: @Sendable () -> Bool
        let keptPartialFiles: KeptPartialFiles
        let loop: CurlLoop
        /// Called on the file thread as soon as the file has its name.
        let report: @Sendable (TransferResult) -> Void
        /// Called on the loop's thread, after `report` if that was called.
        let deliver: @Sendable (CurlMulti, Outcome) -> Void
    }

    private enum State: Int { case open, revoked, publishing }
    private let plan: Plan
    private let state = Atomic<Int>(State.open.rawValue)

    init(_ plan: Plan) { self.plan = plan }

    /// Stops the publication and the hashing before it. Returns `false` if the file is about to get its name
    /// or has it. Any thread.
    @discardableResult
    func revoke() -> Bool {
        let (exchanged, found) = state.compareExchange(
            expected: State.open.rawValue, desired: State.revoked.rawValue, ordering: .sequentiallyConsistent)
        if exchanged, case .file(_, let tail) = plan.bytes { tail?.stop() }
        return exchanged || found == State.revoked.rawValue
    }

    /// Called before the last step: the publication can no longer be revoked. Returns `false` if it was
    /// revoked. File thread.
    private func settle() -> Bool {
        state.compareExchange(
            expected: State.open.rawValue, desired: State.publishing.rawValue,
            ordering: .sequentiallyConsistent
        ).exchanged
    }

    private var isRevoked: Bool { state.load(ordering: .sequentiallyConsistent) == State.revoked.rawValue }

    /// Carries out all publications of a batch, then reports to the loops. File thread.
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

    /// Brings the files that need it to stable storage. Returns the failures by index in `staged`.
    private static func sync(_ staged: [(Publication, Staged)]) -> [Int: TransferError?] {
        let chosen = staged.indices.filter { staged[$0].0.plan.syncs && !staged[$0].0.isRevoked }
        return Dictionary(
            uniqueKeysWithValues: zip(chosen, StorageSync.files(chosen.map { staged[$0].1.file })))
    }

    /// Turns a success into a failure if the directory's sync failed (`failure`): the name may be lost with a
    /// power cut. The next attempt publishes the file again.
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

    /// A partial file whose digests are verified.
    private struct Staged {
        let place: StorageDirectory
        let file: PartialFile
        let size: Int64
        let sha256: String
        /// Equal for the same directory. Bytes, since two directories may have names that are equal as
        /// strings: é has two forms.
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

    /// Verifies the bytes. `places`: the directories that this batch has opened. Returns `nil` if the
    /// publication was revoked while its bytes were hashed.
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
            // A small body is written even if only the reserve is left: it was fetched already.
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
            // In this order: `revoke` sets the state first and stops the hashing afterwards.
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

    /// Reads back the bytes of an inline result from its file.
    private func readBack() -> Outcome {
        // No input reaches this: only a body in a file is read back.
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
                    size: file.byteCount, sha256: sha256, body: bytes,
                    verified: plan.verified))
        } catch {
            return .failed(error)
        }
    }

    /// Gives the file its final name if the lease is held and the publication is not revoked.
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
                location: plan.destination.location(of: name), size: staged.size, sha256: staged.sha256,
                verified: plan.verified)
            // Managed files need no identity: only the service writes in their directory.
            if !plan.destination.isManaged { result.file = identity }
            return .stored(result)
        } catch {
            staged.file.discard()
            return .failed(error)
        }
    }

    /// Leaves bytes that are not verified yet to a later attempt.
    private func leave() -> Outcome {
        guard case .file(let file, _) = plan.bytes else { return .revoked(nil) }
        return .revoked(putAside(file))
    }

    /// Leaves the bytes to a later attempt, since this one may not publish them.
    @discardableResult
    private func putAside(_ file: PartialFile) -> PartialDownload? {
        guard let kept = file.keep(syncs: plan.syncs) else {
            file.discard()
            return nil
        }
        plan.keptPartialFiles.add(kept)
        return kept.partialDownload
    }

    /// `replace` renames the partial file. The other values of `if_exists` link it, so that no file is
    /// overwritten, and keep the partial file until the result is committed: it proves to the next attempt
    /// that the published file is this job's.
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
                plan.keptPartialFiles.add(KeptPartialFile(destination, partial: partial))
                return name
            }
            if errno == EEXIST { continue }
            if try Self.moved(partial, to: name, in: place) { return name }
        }
        throw storageError(EEXIST)
    }

    /// Renames without overwriting, for file systems without hard links, such as many in user space. Nothing
    /// proves afterwards whose file it is. Returns `false` if the name is taken.
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

extension EngineLoop {
    /// Makes the publication of an attempt's bytes. When the file has its name, `ended` is reported with the
    /// outcome `succeeded`. Every other outcome comes back to the attempt as an event. `sent`: the result of
    /// an upload, whose response the bytes are. `isInline`: no file is left.
    func publication(
        _ bytes: Publication.Bytes, to destination: Destination, _ digests: Digests,
        _ verified: TransferResult.Verification, _ ended: AttemptResult, resumedAt offset: Int64?,
        sent: TransferResult? = nil, isInline: Bool = false, isRejection: Bool = false
    ) -> Publication {
        let (state, context, key) = (state, context, AttemptKey(ended.attempt))
        return Publication(
            Publication.Plan(
                bytes: bytes, destination: destination, digests: digests, verified: verified,
                isInline: isInline, syncs: context.syncs, space: context.space,
                holdsLease: { context.lease.holdsLease(of: key.job, attempt: key.number) },
                keptPartialFiles: context.keptPartialFiles, loop: loop,
                report: { result in
                    var result = sent?.keeping(result) ?? result
                    if let offset { result.resumedAtOffset = offset }
                    let outcome = isRejection ? ended.outcome : .succeeded(result)
                    var whole = ended.with(outcome, at: context.clock.now())
                    if isRejection { whole.keepRejected(result) }
                    context.report(whole)
                },
                deliver: { multi, outcome in
                    let state = state.get(multi)
                    switch outcome {
                    case .stored: state.handle(.published, for: key)
                    case .failed(let error): state.handle(.storageFailed(error), for: key)
                    case .revoked(let bytes):
                        state.putAside(bytes, for: key)
                        state.handle(.revoked, for: key)
                    }
                }))
    }
}
