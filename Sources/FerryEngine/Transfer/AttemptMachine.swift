package import FerryCore

/// The life of one attempt as a pure function: an event in, what is to be done out. No clock, no I/O.
///
/// Whatever the order of events, `report` or `leave` comes exactly once and nothing after it.
package struct AttemptMachine: Sendable {
    /// What an answer's head decided; the bytes after it follow from that.
    package enum HeadVerdict: Sendable, Equatable {
        case accept
        /// Another request answers this one; the caller remembers which.
        case redirect
        /// The server does not know `Expect` (417): the same request without it.
        case resend
        /// The rest of the file cannot be had: the same request for all of it.
        case restart
        case refuse(TransferError, retryAfter: Double?)
        /// Somebody has to say how it goes on.
        case ask(JobQuestion)
    }

    /// A transfer that ended without a whole answer.
    package struct Failure: Sendable, Equatable {
        package let error: TransferError
        /// A kept connection was dead, no byte of an answer came, and the request may be repeated.
        package let mayRepeatAtOnce: Bool
        package init(_ error: TransferError, mayRepeatAtOnce: Bool) {
            self.error = error
            self.mayRepeatAtOnce = mayRepeatAtOnce
        }
    }

    package enum Event: Sendable {
        case prepared
        case preparationFailed(TransferError)
        case head(HeadVerdict)
        /// More of an unwanted body came than is worth reading.
        case enoughDiscarded
        /// The body cannot be taken any further (too long, no room).
        case bodyRefused(TransferError)
        /// nil: libcurl has seen the whole answer.
        case transferEnded(Failure?)
        case timedOut(TransferError)
        case stored(TransferResult)
        /// The file has its name, and whoever gave it has reported that already.
        case published
        case storageFailed(TransferError)
        /// The bytes were wrong, and another source may have the right ones.
        case fetchAgain
        /// The publication was stopped before the file got its name.
        case revoked
        /// A file thread has not come back for so long that nobody waits for it any more.
        case outwaited(TransferError)
        /// Somebody wants it to end.
        case stop(AttemptStop)
        /// The next request goes to a host that may not be used now.
        case putOff(HostHold)
        /// The node drains.
        case release
    }

    package enum Action: Sendable {
        /// Send the current request. `fresh`: not on a kept connection.
        case start(fresh: Bool)
        /// End the transfer that runs; nothing more is heard of it.
        case stopTransfer
        /// The redirect that the head named becomes the current request.
        case follow
        case leaveOutExpect
        /// What earlier attempts left is of no use.
        case leaveOutRange
        /// `prepared` or `preparationFailed` is to come soon, whatever is left to prepare.
        case endPreparation
        case store
        case revokeStorage
        /// The bytes are wrong, or nobody wants them.
        case discardBytes
        /// A later attempt may go on from the bytes.
        case keepBytes
        case report(AttemptResult.Outcome)
        /// What `report` does, but for the report.
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
        case exchanging(HeadVerdict?)
        case storing(Stop?)
        case ended
    }

    private var state = State.preparing(nil)
    private var hasRepeated = false
    private var hasResent = false
    private var hasRestarted = false

    package init() {}

    package var isEnded: Bool { if case .ended = state { true } else { false } }

    /// Whether a file thread is to say how it goes on.
    package var waitsForDisk: Bool {
        switch state {
        case .preparing, .storing: true
        case .exchanging, .ended: false
        }
    }

    package mutating func handle(_ event: Event) -> [Action] {
        switch state {
        case .preparing(let stop): whilePreparing(event, stop)
        case .exchanging(let verdict): whileExchanging(event, verdict)
        case .storing(let stop): whileStoring(event, stop)
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

    /// Nothing was written that may be wrong, or nobody has said that it is.
    private mutating func failKeeping(_ error: TransferError, after actions: [Action] = []) -> [Action] {
        end(.failed(error, retryAfter: nil), keepsBytes: true, after: actions)
    }

    private mutating func whilePreparing(_ event: Event, _ stop: Stop?) -> [Action] {
        switch event {
        case .prepared:
            if let stop { return end(stop) }
            state = .exchanging(nil)
            return [.start(fresh: false)]
        case .preparationFailed(let error):
            return stop.map { end($0) } ?? failKeeping(error)
        case .outwaited(let error):
            return [.endPreparation] + (stop.map { end($0) } ?? failKeeping(error))
        case .stop(let how): return endPreparation(.asked(how))
        case .release: return endPreparation(stop ?? .released)
        case .timedOut(let error): return endPreparation(stop ?? .timedOut(error))
        case .head, .enoughDiscarded, .bodyRefused, .transferEnded, .stored, .published, .storageFailed,
            .fetchAgain, .revoked, .putOff:
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
            return [.stopTransfer] + conclude(verdict, nil)
        case .bodyRefused(let error), .timedOut(let error):
            return fail(error, after: [.stopTransfer])
        case .outwaited(let error):
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
        case .prepared, .preparationFailed, .stored, .published, .storageFailed, .fetchAgain, .revoked:
            return []
        }
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

    /// The answer is over, whole or not; only an accepted one has to be whole.
    private mutating func conclude(_ verdict: HeadVerdict, _ failure: Failure?) -> [Action] {
        switch verdict {
        case .accept:
            if let failure { return fail(failure.error) }
            state = .storing(nil)
            return [.store]
        case .redirect:
            state = .exchanging(nil)
            return [.follow, .start(fresh: false)]
        case .resend:
            guard !hasResent else {
                let error = TransferError(
                    .unacceptableStatus, "The server answered with status 417.", phase: .waiting,
                    isRetryable: false)
                return fail(error)
            }
            hasResent = true
            state = .exchanging(nil)
            return [.leaveOutExpect, .start(fresh: false)]
        case .restart:
            guard !hasRestarted else {
                let error = TransferError(
                    .responseInvalid, "The server answered with a part that nobody asked for.",
                    phase: .waiting, isRetryable: true)
                return fail(error)
            }
            hasRestarted = true
            state = .exchanging(nil)
            return [.leaveOutRange, .start(fresh: false)]
        case .refuse(let error, let retryAfter):
            return fail(error, retryAfter: retryAfter)
        case .ask(let question):
            return end(.asked(question), keepsBytes: true)
        }
    }

    private mutating func whileStoring(_ event: Event, _ stop: Stop?) -> [Action] {
        switch event {
        case .stored(let result):
            // Published before anybody could stop it: what is done counts.
            state = .ended
            return [.report(.succeeded(result))]
        case .published:
            state = .ended
            return [.leave]
        case .storageFailed(let error):
            return stop.map { end($0) } ?? fail(error)
        case .outwaited(let error):
            return stop.map { end($0) } ?? failKeeping(error)
        case .fetchAgain:
            if let stop { return end(stop) }
            state = .exchanging(nil)
            return [.discardBytes, .start(fresh: false)]
        case .revoked:
            return end(stop ?? .released)
        case .stop(let how):
            state = .storing(.asked(how))
            return [.revokeStorage]
        case .release, .prepared, .preparationFailed, .head, .enoughDiscarded, .bodyRefused, .transferEnded,
            .timedOut, .putOff:
            // A drain waits for what is nearly done.
            return []
        }
    }
}

extension TransferError {
    /// Whether the bytes that had arrived before may still be right. Those that a disk had room for are.
    fileprivate var leavesBytesUsable: Bool {
        switch code {
        case .sizeMismatch, .digestMismatch, .responseTooLarge, .responseInvalid, .storageUnavailable,
            .storageFailed,
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
