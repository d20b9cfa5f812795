import Curl
import FerryCore

/// How an attempt goes on from the bytes of an earlier one, and leaves its own to a later one.
extension LiveTransfer {
    func prepared(_ resumption: Resumption?) {
        self.resumption = resumption
        if let resumption {
            progress.resume(at: resumption.offset)
            progress.expect(toReceive: resumption.record.total)
        }
        do throws(TransferError) {
            try awaitRoom(resumption)
            handle(.prepared)
        } catch {
            handle(.preparationFailed(error))
        }
    }

    /// What earlier attempts have left is of no use.
    func dropResumption() {
        guard let resumption else { return }
        self.resumption = nil
        progress.set(received: 0)
        context.lane.send(.run { resumption.file.discard() })
    }

    /// Makes a new file one that a later attempt can go on from. Nil when the body is small, or the answer
    /// does not allow it.
    func recorder(_ head: ResponseHead, length: Int64?) -> ((PartialFile) -> Void)? {
        guard attempt.spec.kind == .download, length ?? .max > Int64(context.configuration.memoryByteCountMax)
        else { return nil }
        return { [attempt, hop, lane = context.lane] file in
            guard let record = PartialRecord(head, of: attempt.spec, from: hop) else { return }
            file.becomeResumable(record)
            if let length, length >= EngineLimits.recordedByteCountMin {
                lane.send(.run { file.checkpoint(syncs: false) })
            }
        }
    }

    /// Once a second: from time to time the record of a long body says how far it is.
    func recordProgress(_ now: Int64) {
        guard case .drain(let drain) = sink else { return }
        do throws(TransferError) {
            guard let file = try drain.fileToRecord(now) else { return }
            let syncs = context.configuration.fileSync == .full
            context.lane.send(.run { file.checkpoint(syncs: syncs) })
        } catch {
            handle(.bodyRefused(error))
        }
    }

    func discardBytes() {
        putAside = nil
        if case .drain(let drain) = sink { drain.discard(context.lane) }
        sink = .none
        dropResumption()
    }

    /// The report follows when the bytes are safe, so that the next attempt finds them.
    func keepBytes() {
        if case .drain(let drain) = sink {
            kept = drain.keep()
            if kept == nil { drain.discard(context.lane) }
        } else {
            // Nothing was written: what was found stays.
            kept = resumption?.file
        }
        sink = .none
        resumption = nil
    }

    /// Reports once a file thread has seen to the bytes that are kept.
    func report(_ outcome: AttemptResult.Outcome, keeping file: PartialFile) {
        kept = nil
        awaitedReport = outcome
        let (key, tell, leftovers) = (key, loop.teller, context.leftovers)
        let syncs = context.configuration.fileSync == .full
        context.lane.send(
            .run {
                let leftover = file.keep(syncs: syncs)
                if let leftover { leftovers.add(leftover) } else { file.discard() }
                tell { $0.report(outcome, for: key, kept: leftover?.kept) }
            })
    }
}
