import Curl
import FerryCore
import Synchronization

/// Makes received bytes the content at their location. Made by the loop, carried out by a thread of the
/// place.
///
/// The order is fixed: the bytes are verified, the bytes are on stable storage, the lease is still held and
/// the publication not revoked, the content is committed, its location is on stable storage, the result is
/// reported. The content store has the whole object before the lease is looked at: its key is new, so that
/// nothing refers to the object before the result does.
final class Publication: Sendable {
    enum Outcome: Sendable {
        case stored(TransferResult)
        case failed(TransferError)
        /// The content store cannot take the bytes for now; those that are left to a later attempt, if any.
        case postponed(TransferError, PartialDownload?)
        /// Revoked before the content was committed; the bytes that are left to a later attempt, if any.
        case revoked(PartialDownload?)
    }

    struct Plan: Sendable {
        let content: any PendingContent
        let digests: Digests
        let verified: TransferResult.Verification
        /// Whether the bytes become the result itself. They went to the place only for lack of memory, and
        /// are removed there.
        let isInline: Bool
        let syncs: Bool
        /// The object that the content becomes; `nil` for a content at its place.
        var object: ObjectTarget?
        /// Whether this node still holds the attempt's lease. Called right before the content is committed.
        let holdsLease: @Sendable () -> Bool
        let loop: CurlLoop
        /// Called on the place's thread as soon as the content is committed.
        let report: @Sendable (TransferResult) -> Void
        /// Called on the loop's thread, after `report` if that was called.
        let deliver: @Sendable (CurlMulti, Outcome) -> Void
    }

    /// An object of the content store that does not exist yet.
    struct ObjectTarget: Sendable {
        let objects: ContentObjects
        let key: String
        let stop = StopSignal()
        let fileThreads: FileThreadPool
    }

    private enum State: Int { case open, revoked, publishing }
    private let plan: Plan
    private let state = Atomic<Int>(State.open.rawValue)

    init(_ plan: Plan) { self.plan = plan }

    /// Stops the publication and the hashing before it. Returns `false` if the content is about to be
    /// committed, or is. Any thread.
    @discardableResult
    func revoke() -> Bool {
        let (exchanged, found) = state.compareExchange(
            expected: State.open.rawValue, desired: State.revoked.rawValue, ordering: .sequentiallyConsistent)
        if exchanged {
            plan.content.stopHashing()
            plan.object?.stop.set()
        }
        return exchanged || found == State.revoked.rawValue
    }

    /// Called before the last step: the publication can no longer be revoked. Returns `false` if it was
    /// revoked. The place's thread.
    private func settle() -> Bool {
        state.compareExchange(
            expected: State.open.rawValue, desired: State.publishing.rawValue,
            ordering: .sequentiallyConsistent
        ).exchanged
    }

    private var isRevoked: Bool { state.load(ordering: .sequentiallyConsistent) == State.revoked.rawValue }

    /// A publication whose bytes are verified, and their SHA-256.
    private typealias Verified = (publication: Publication, sha256: String)

    /// Carries out all publications of a batch, then reports to the loops. The place's thread.
    static func publish(_ batch: [Publication]) {
        let shared = CommitBatch()
        var verified: [Verified] = []
        var outcomes: [(Publication, Outcome)] = []
        for publication in batch {
            if publication.plan.isInline {
                outcomes.append((publication, publication.readBack()))
                continue
            }
            do throws(TransferError) {
                guard let sha256 = try publication.verify(shared) else {
                    outcomes.append((publication, .revoked(publication.putAside())))
                    continue
                }
                if let object = publication.plan.object {
                    publication.send(sha256, to: object)
                } else {
                    verified.append((publication, sha256))
                }
            } catch {
                publication.plan.content.abort()
                outcomes.append((publication, .failed(error)))
            }
        }
        let failures = sync(verified)
        let first = outcomes.count
        for (one, failure) in zip(verified, failures) {
            outcomes.append((one.publication, one.publication.commit(one.sha256, failure)))
        }
        for index in outcomes.indices.dropFirst(first) {
            outcomes[index].1 = outcomes[index].0.synced(outcomes[index].1, shared)
        }
        deliver(outcomes)
    }

    /// Brings the bytes that need it to stable storage. Returns one failure or `nil` for each publication.
    ///
    /// The sync of all begins before the first is waited for, so that one commit of a file system's journal
    /// serves the others too.
    private static func sync(_ verified: [Verified]) -> [TransferError?] {
        let needed = verified.map { $0.publication.plan.syncs && !$0.publication.isRevoked }
        let isShared = needed.count(where: \.self) > 1
        if isShared {
            for (one, isNeeded) in zip(verified, needed) where isNeeded {
                one.publication.plan.content.beginSync()
            }
        }
        return zip(verified, needed).map { one, isNeeded in
            guard isNeeded else { return nil }
            do throws(TransferError) {
                try one.publication.plan.content.sync()
                return nil
            } catch {
                return error
            }
        }
    }

    /// Brings the location of a committed content to stable storage. Turns the success into a failure if that
    /// fails: the content may be lost with a power cut. The next attempt publishes it again.
    private func synced(_ outcome: Outcome, _ batch: CommitBatch) -> Outcome {
        guard case .stored = outcome, plan.syncs else { return outcome }
        do throws(TransferError) {
            try plan.content.syncLocation(batch)
            return outcome
        } catch {
            return .failed(error)
        }
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

    /// Verifies the bytes and brings them to their place. Returns their SHA-256, or `nil` if the publication
    /// was revoked while its bytes were hashed.
    private func verify(_ batch: CommitBatch) throws(TransferError) -> String? {
        do throws(TransferError) {
            try plan.content.finishHashing(plan.digests, batch)
        } catch {
            // `revoke` sets the state first and stops the hashing afterwards.
            if isRevoked { return nil }
            throw error
        }
        guard !isRevoked else { return nil }
        let sha256 = try plan.digests.finish()
        if plan.object == nil { try plan.content.store() }
        return sha256
    }

    // MARK: The content store

    /// Passes the verified bytes to the content store.
    private func send(_ sha256: String, to object: ObjectTarget) {
        let content = plan.content
        let upload = ContentUpload(
            bytes: content.bytesToSend, byteCount: content.byteCount, sha256: sha256, key: object.key,
            stop: object.stop)
        object.objects.store(upload) { [self] error in
            object.fileThreads.send(.run { [self] in Self.deliver([(self, sent(sha256, object, error))]) })
        }
    }

    /// Decides what follows the request to the content store, and removes the bytes at their place.
    private func sent(_ sha256: String, _ object: ObjectTarget, _ error: TransferError?) -> Outcome {
        if let error {
            if isRevoked { return .revoked(putAside()) }
            guard error.isRetryable else {
                plan.content.abort()
                return .failed(error)
            }
            return .postponed(error, putAside())
        }
        guard plan.holdsLease() else {
            object.objects.remove(object.key)
            return .postponed(.lostTouch, putAside())
        }
        guard settle() else {
            object.objects.remove(object.key)
            return .revoked(putAside())
        }
        let byteCount = plan.content.byteCount
        plan.content.abort()
        return .stored(
            TransferResult(
                location: .object(key: object.key), size: byteCount, sha256: sha256, verified: plan.verified))
    }

    /// Reads back the bytes of an inline result.
    private func readBack() -> Outcome {
        defer { plan.content.abort() }
        guard !isRevoked else { return .revoked(nil) }
        do throws(TransferError) {
            let bytes = try plan.content.contents()
            let sha256 = try plan.digests.finish()
            guard settle() else { return .revoked(nil) }
            return .stored(
                TransferResult(
                    size: plan.content.byteCount, sha256: sha256, body: bytes, verified: plan.verified))
        } catch {
            return .failed(error)
        }
    }

    /// Commits the content if the lease is held and the publication is not revoked. `failure`: of the sync.
    private func commit(_ sha256: String, _ failure: TransferError?) -> Outcome {
        let content = plan.content
        if let failure {
            content.abort()
            return .failed(failure)
        }
        guard plan.holdsLease() else {
            _ = putAside()
            return .failed(.lostTouch)
        }
        guard settle() else { return .revoked(putAside()) }
        do throws(TransferError) {
            let committed = try content.commit()
            var result = TransferResult(
                location: committed.location, size: content.byteCount, sha256: sha256, verified: plan.verified
            )
            result.file = committed.identity
            return .stored(result)
        } catch {
            content.abort()
            return .failed(error)
        }
    }

    /// Leaves the bytes to a later attempt, since this one may not publish them.
    private func putAside() -> PartialDownload? { plan.content.putAside(syncs: plan.syncs) }
}

extension EngineLoop {
    /// Makes the publication of an attempt's bytes. When the content is committed, `ended` is reported with
    /// the outcome `succeeded`. Every other outcome comes back to the attempt as an event. `sent`: the result
    /// of an upload, whose response the bytes are. `isInline`: no content is left at its place.
    func publication(
        of content: any PendingContent, _ digests: Digests, _ verified: TransferResult.Verification,
        _ ended: AttemptResult, resumedAt offset: Int64?, sent: TransferResult? = nil,
        isInline: Bool = false, isRejection: Bool = false
    ) -> Publication {
        let (state, context, key) = (state, context, AttemptKey(ended.attempt))
        let objects = isInline ? nil : context.places.objects
        let object = objects.flatMap { _ in context.places.object(for: ended.attempt) }
        return Publication(
            Publication.Plan(
                content: content, digests: digests, verified: verified, isInline: isInline,
                syncs: context.syncs, object: object,
                holdsLease: { context.lease.holdsLease(of: key.job, attempt: key.number) }, loop: loop,
                report: { result in
                    var result = sent?.keeping(result) ?? result
                    if let offset { result.resumedAtOffset = offset }
                    let outcome = isRejection ? ended.outcome : .succeeded(result)
                    context.report(
                        ended.stored(
                            outcome, rejected: isRejection ? result : nil, at: context.clock.now()))
                },
                deliver: { multi, outcome in
                    let state = state.get(multi)
                    switch outcome {
                    case .stored: state.handle(.published, for: key)
                    case .failed(let error): state.handle(.storageFailed(error), for: key)
                    case .postponed(let error, let bytes):
                        state.putAside(bytes, for: key)
                        state.handle(.placeLost(error), for: key)
                    case .revoked(let bytes):
                        state.putAside(bytes, for: key)
                        state.handle(.revoked, for: key)
                    }
                }))
    }
}

extension TransferError {
    fileprivate static let lostTouch = TransferError(
        .nodeLost, "The node lost touch with the database.", phase: .finishing, isRetryable: true)
}
