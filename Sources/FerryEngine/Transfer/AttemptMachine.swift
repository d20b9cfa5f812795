package import FerryCore

/// The state machine of one attempt: takes an event and returns the actions to perform. A pure value without
/// clock and I/O.
///
/// Whatever the order of events, exactly one `report` or `leave` is returned, and nothing after it.
package struct AttemptMachine: Sendable {
    /// The decision about a response at its head.
    package enum HeadVerdict: Sendable, Equatable {
        case accept
        /// Another request follows; the caller keeps it. `isDelayed`: after a delay, which the caller knows.
        case redirect(isDelayed: Bool)
        /// The same request is sent again with a change, which the caller keeps.
        case again
        /// The same request is sent again after a delay, which the caller knows.
        case wait
        case refuse(TransferError, retryAfter: Double?)
        /// Like `refuse`, but the body is stored: the client wants to read why its upload was rejected.
        case refuseKeepingBody(TransferError, retryAfter: Double?)
        /// The client is asked how the job continues.
        case ask(JobQuestion)
    }

    /// A transfer that ended without a complete response.
    package struct Failure: Sendable, Equatable {
        /// The error that the attempt reports if it does not repeat the request.
        package let error: TransferError
        /// Whether a kept connection was dead, no byte of a response came, and the request may be repeated.
        package let mayRepeatAtOnce: Bool
        /// Makes a failure.
        package init(_ error: TransferError, mayRepeatAtOnce: Bool) {
            self.error = error
            self.mayRepeatAtOnce = mayRepeatAtOnce
        }
    }

    /// An occurrence that concerns the attempt.
    package enum Event: Sendable {
        /// Nothing but a check of the destination is left to prepare: the attempt may end before it.
        case onlyChecks
        case prepared
        case preparationFailed(TransferError)
        case head(HeadVerdict)
        /// An unwanted body is longer, or takes longer, than is worth reading.
        case enoughDiscarded
        /// The body cannot be read or written any further (for example too long, or no space).
        case bodyRefused(TransferError)
        /// `nil` if libcurl has received the whole response.
        case transferEnded(Failure?)
        /// The body has stopped before its end, and the next request continues it.
        case interrupted
        case timedOut(TransferError)
        case stored(TransferResult)
        /// The file has its name, and the publication has reported the result.
        case published
        case storageFailed(TransferError)
        /// The bytes were wrong; another source may have the right ones.
        case fetchAgain
        /// The publication was stopped before the file got its name.
        case revoked
        /// The place of the content cannot be used for now: a file thread has been blocked for so long that
        /// the attempt gives up, or the content store does not take the bytes. What has come is kept.
        case placeLost(TransferError)
        /// The attempt has to end, for a client or for the store.
        case stop(AttemptStop)
        /// The next request goes to a host that may not be used now; the job waits for it.
        case putOff(HostHold)
        /// The node drains, or another node has to run the job.
        case release
    }

    /// A step that the caller has to take, in the order of the array.
    package enum Action: Sendable {
        /// Send the current request. `fresh`: on a new connection.
        case start(fresh: Bool)
        /// End the running transfer; it reports nothing more.
        case stopTransfer
        /// The redirect that the head named becomes the current request.
        case follow
        /// Make the change that the head demands, for all requests from now on.
        case change
        /// Send the current request, or the job's own if it continues a body, after the delay.
        case startLater
        /// Make `prepared` or `preparationFailed` come soon, whatever is left to prepare.
        case endPreparation
        case store
        case revokeStorage
        /// Remove the bytes: they are wrong, or unwanted.
        case discardBytes
        /// Leave the bytes to a later attempt.
        case keepBytes
        case report(AttemptResult.Outcome)
        /// Like `report`, without a report.
        case leave
    }

    private enum Stop {
        case asked(AttemptStop), released, timedOut(TransferError)
        var outcome: AttemptResult.Outcome {
            switch self {
            case .asked(.cancel), .asked(.cancelKeepingBytes): .cancelled
            case .asked(.suspend): .suspended
            case .released: .released
            case .timedOut(let error): .failed(error, retryAfter: nil)
            }
        }
        var keepsBytes: Bool { if case .asked(.cancel) = self { false } else { true } }
    }

    private enum State {
        case preparing(Stop?)
        /// Nothing is held that a file thread has to give back.
        case checking
        case exchanging(HeadVerdict?)
        /// `rejection`: the outcome if the body is that of a refused response, else `nil`.
        case storing(Stop?, rejection: AttemptResult.Outcome?)
        case ended
    }

    private var state = State.preparing(nil)
    private var hasRepeated = false
    private var changeCount = 0
    /// Once without each of `Expect`, `If-Range`, `Range` and `Accept-Encoding`.
    private static let changeCountMax = 4

    /// Begins with the preparation.
    package init() {}

    /// `true` once `report` or `leave` was returned.
    package var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Outcome of the attempt while the body of a refused response is stored, else `nil`.
    package var rejection: AttemptResult.Outcome? {
        if case .storing(_, let rejection) = state { rejection } else { nil }
    }

    /// Whether the response was not accepted: its body is taken to be stored (`refuseKeepingBody`), or read
    /// only so that its connection can be used again.
    package var isDiscarding: Bool {
        if case .exchanging(let verdict?) = state { verdict != .accept } else { false }
    }

    /// Whether the next event comes from a file thread.
    package var waitsForDisk: Bool {
        switch state {
        case .preparing, .checking, .storing: true
        case .exchanging, .ended: false
        }
    }

    /// Takes an event and returns the actions that follow, in order. Events after the end return none.
    package mutating func handle(_ event: Event) -> [Action] {
        switch state {
        case .preparing(let stop): whilePreparing(event, stop)
        case .checking: whileChecking(event)
        case .exchanging(let verdict): whileExchanging(event, verdict)
        case .storing(let stop, let rejection): whileStoring(event, stop, rejection)
        case .ended: []
        }
    }

    private mutating func end(
        _ outcome: AttemptResult.Outcome, keepsBytes: Bool, after actions: [Action] = []
    ) -> [Action] {
        state = .ended
        return actions + [keepsBytes ? .keepBytes : .discardBytes, .report(outcome)]
    }

    private mutating func end(_ stop: Stop, after actions: [Action] = []) -> [Action] {
        end(stop.outcome, keepsBytes: stop.keepsBytes, after: actions)
    }

    private mutating func fail(
        _ error: TransferError, retryAfter: Double? = nil, after actions: [Action] = []
    ) -> [Action] {
        end(.failed(error, retryAfter: retryAfter), keepsBytes: error.leavesBytesUsable, after: actions)
    }

    /// Fails and keeps the bytes: none are known to be wrong.
    private mutating func failKeeping(_ error: TransferError, after actions: [Action] = []) -> [Action] {
        end(.failed(error, retryAfter: nil), keepsBytes: true, after: actions)
    }

    private mutating func whilePreparing(_ event: Event, _ stop: Stop?) -> [Action] {
        switch event {
        case .onlyChecks:
            if let stop { return end(stop) }
            state = .checking
            return []
        case .prepared:
            if let stop { return end(stop) }
            state = .exchanging(nil)
            return [.start(fresh: false)]
        case .preparationFailed(let error):
            return stop.map { end($0) } ?? failKeeping(error)
        case .placeLost(let error):
            return [.endPreparation] + (stop.map { end($0) } ?? failKeeping(error))
        case .stop(let how): return endPreparation(.asked(how))
        case .release: return endPreparation(stop ?? .released)
        case .timedOut(let error): return endPreparation(stop ?? .timedOut(error))
        case .head, .enoughDiscarded, .bodyRefused, .transferEnded, .stored, .published, .storageFailed,
            .fetchAgain, .revoked, .putOff, .interrupted:
            return []
        }
    }

    private mutating func whileChecking(_ event: Event) -> [Action] {
        switch event {
        case .prepared, .preparationFailed, .placeLost: return whilePreparing(event, nil)
        case .stop(let how): return end(.asked(how))
        case .release: return end(.released)
        case .timedOut(let error): return end(.timedOut(error))
        case .onlyChecks, .head, .enoughDiscarded, .bodyRefused, .transferEnded, .stored, .published,
            .storageFailed, .fetchAgain, .revoked, .putOff, .interrupted:
            return []
        }
    }

    private mutating func endPreparation(_ stop: Stop) -> [Action] {
        state = .preparing(stop)
        return [.endPreparation]
    }

    private mutating func whileExchanging(_ event: Event, _ verdict: HeadVerdict?) -> [Action] {
        switch event {
        case .head(let verdict):
            state = .exchanging(verdict)
            return []
        case .enoughDiscarded:
            guard let verdict, verdict != .accept else { return [] }
            return rejectWithoutBody(verdict) ?? [.stopTransfer] + conclude(verdict, nil)
        case .bodyRefused(let error), .timedOut(let error):
            return rejectWithoutBody(verdict) ?? fail(error, after: [.stopTransfer])
        case .placeLost(let error):
            return failKeeping(error, after: [.stopTransfer])
        case .transferEnded(let failure):
            guard let verdict else { return endedWithoutHead(failure) }
            return conclude(verdict, failure)
        case .stop(let how):
            return end(.asked(how), after: [.stopTransfer])
        case .release:
            return end(.released, after: [.stopTransfer])
        case .putOff(let hold):
            return end(.putOff(hold), keepsBytes: true, after: [.stopTransfer])
        case .interrupted:
            (hasRepeated, changeCount) = (false, 0)
            state = .exchanging(nil)
            return [.stopTransfer, .startLater]
        case .onlyChecks, .prepared, .preparationFailed, .stored, .published, .storageFailed, .fetchAgain,
            .revoked:
            return []
        }
    }

    /// Ends the attempt with the rejection of its upload before the whole body has come that says why.
    /// Returns `nil` for another response.
    private mutating func rejectWithoutBody(_ verdict: HeadVerdict?) -> [Action]? {
        guard case .refuseKeepingBody(let error, let retryAfter)? = verdict else { return nil }
        return end(.failed(error, retryAfter: retryAfter), keepsBytes: false, after: [.stopTransfer])
    }

    private mutating func endedWithoutHead(_ failure: Failure?) -> [Action] {
        guard let failure else {
            let error = TransferError(
                .responseInvalid, "The server's answer had no head.", phase: .waiting, isRetryable: true)
            return fail(error)
        }
        guard failure.mayRepeatAtOnce, !hasRepeated else {
            return fail(failure.error)
        }
        hasRepeated = true
        return [.start(fresh: true)]
    }

    /// The response has ended, complete or not. Only a response whose body is stored has to be complete.
    private mutating func conclude(_ verdict: HeadVerdict, _ failure: Failure?) -> [Action] {
        switch verdict {
        case .accept:
            if let failure { return fail(failure.error) }
            state = .storing(nil, rejection: nil)
            return [.store]
        case .redirect(let isDelayed):
            state = .exchanging(nil)
            return [.follow, isDelayed ? .startLater : .start(fresh: false)]
        case .again:
            guard changeCount < Self.changeCountMax else {
                let error = TransferError(
                    .responseInvalid, "The server answered with a part that nobody asked for.",
                    phase: .waiting, isRetryable: true)
                return fail(error)
            }
            changeCount += 1
            state = .exchanging(nil)
            return [.change, .start(fresh: false)]
        case .wait:
            state = .exchanging(nil)
            return [.startLater]
        case .refuse(let error, let retryAfter):
            return fail(error, retryAfter: retryAfter)
        case .refuseKeepingBody(let error, let retryAfter):
            let rejection = AttemptResult.Outcome.failed(error, retryAfter: retryAfter)
            if failure != nil { return end(rejection, keepsBytes: false) }
            state = .storing(nil, rejection: rejection)
            return [.store]
        case .ask(let question):
            return end(.asked(question), keepsBytes: true)
        }
    }

    private mutating func whileStoring(
        _ event: Event, _ stop: Stop?, _ rejection: AttemptResult.Outcome?
    ) -> [Action] {
        switch event {
        case .stored(let result):
            if let rejection { return end(rejection, keepsBytes: false) }
            // The file was published before the stop: the success counts.
            state = .ended
            return [.report(.succeeded(result))]
        case .published:
            state = .ended
            return [.leave]
        // Without the body of its response, an upload is rejected all the same.
        case .storageFailed(let error):
            return stop.map { end($0) } ?? rejection.map { end($0, keepsBytes: false) } ?? fail(error)
        case .placeLost(let error):
            return stop.map { end($0) } ?? rejection.map { end($0, keepsBytes: false) } ?? failKeeping(error)
        case .fetchAgain:
            if let stop { return end(stop) }
            state = .exchanging(nil)
            return [.discardBytes, .start(fresh: false)]
        case .revoked:
            return end(stop ?? .released)
        case .stop(let how):
            state = .storing(.asked(how), rejection: rejection)
            return [.revokeStorage]
        case .release, .onlyChecks, .prepared, .preparationFailed, .head, .enoughDiscarded, .bodyRefused,
            .transferEnded, .timedOut, .putOff, .interrupted:
            // A drain waits for attempts that are nearly done.
            return []
        }
    }
}

extension TransferError {
    /// Whether the bytes received before the error may still be right. After `storage_full` those already
    /// written are.
    fileprivate var leavesBytesUsable: Bool {
        switch code {
        case .sizeMismatch, .digestMismatch, .responseTooLarge, .responseInvalid, .storageUnavailable,
            .storageFailed, .storageQuotaExceeded,
            .destinationExists, .destinationInvalid:
            false
        case .hostNotFound, .couldNotConnect, .hostHeld, .connectionLost, .timedOut, .resourceTimeout,
            .deadlineExceeded, .tlsFailed,
            .certificateInvalid, .clientCertificateRequired, .authenticationRequired, .unacceptableStatus,
            .unacceptableContentType, .tooManyRedirects, .redirectInvalid, .incompleteBody, .sourceNotFound,
            .sourceChanged, .storageFull, .blockedAddress, .requestNotRepeatable, .dependencyFailed,
            .cancelled, .nodeLost, .internalError:
            true
        }
    }
}
