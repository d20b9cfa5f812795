import FerryCore

/// The bytes that an attempt continues from an earlier one, and those that it leaves to a later one. Loop
/// thread only.
struct PartialHandover {
    /// The bytes of an earlier attempt, until the server has refused to continue them or they are published.
    private(set) var resumption: Resumption?
    /// The file for a later attempt, until that is reported.
    private var file: PartialFile?
    /// The outcome that is reported as soon as a file thread has saved the file.
    private(set) var awaitedOutcome: AttemptResult.Outcome?

    mutating func take(_ resumption: Resumption?) { self.resumption = resumption }

    /// The publication has the bytes of the earlier attempt now.
    mutating func release() { resumption = nil }

    /// Removes the bytes of the earlier attempt. Returns `false` if there are none.
    mutating func drop(_ fileThreads: FileThreadPool) -> Bool {
        guard let resumption else { return false }
        self.resumption = nil
        fileThreads.send(.run { resumption.file.discard() })
        return true
    }

    /// Leaves the file to a later attempt; `nil`: there is none.
    mutating func leave(_ file: PartialFile?) {
        self.file = file
        resumption = nil
    }

    /// Returns the file that is left to a later attempt, once: it is to be saved, and the outcome reported
    /// afterwards. `nil` if there is none.
    mutating func takeFile(_ outcome: AttemptResult.Outcome) -> PartialFile? {
        guard let file else { return nil }
        (self.file, awaitedOutcome) = (nil, outcome)
        return file
    }
}

extension EngineLoop {
    /// Lets a file thread save the file for a later attempt, and report the outcome then, so that the next
    /// attempt finds the bytes. `ranges`: of the file; `nil`: all of it.
    func save(
        _ file: PartialFile, ranges: ByteRanges? = nil, then outcome: AttemptResult.Outcome,
        for key: AttemptKey
    ) {
        let (onLoop, keptPartialFiles, syncs) = (runner, context.keptPartialFiles, context.syncs)
        context.fileThreads.send(
            .run {
                let kept = file.keep(syncs: syncs, ranges: ranges)
                if let kept { keptPartialFiles.add(kept) } else { file.discard() }
                onLoop { $0.report(outcome, for: key, partial: kept?.partialDownload) }
            })
    }
}
