import FerryCore

/// A place that keeps contents: local files, or an object store, or another server. Any thread, unless it
/// says otherwise.
protocol Place: Sendable {
    /// Whether a content of that location is, or will be, at this place.
    func keeps(_ location: ContentLocation) -> Bool
    /// Makes the sink of an attempt whose bytes come one after the other. Loop thread.
    func sink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any StreamSink
    /// Makes the sink of an attempt whose bytes come in parts. Loop thread.
    func partsSink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any PartsSink
    /// Opens a content at its location. Throws `source_not_found` or `storage_failed`.
    func source(of content: PlacedContent) throws(TransferError) -> any ByteSource
    /// Removes the content of a deleted job, if the place keeps it under a name that Ferry has chosen.
    /// Returns at once. `location`: `nil` if the job has left no content.
    func removeContent(of job: JobID, at location: ContentLocation?)
    /// Removes what the attempts of a deleted job have left here. Returns at once.
    func forget(_ point: ResumePoint)
    /// Removes what the attempts of these finished jobs have left beside their contents. Returns at once.
    func removePartialFiles(of jobs: [JobID])
    /// Removes what these attempts have left for later ones, unless a later one uses it. Returns at once.
    func removePartialFiles(of attempts: [LostAttempt])
    /// Keeps what the attempts of these jobs have left, until it expires.
    func keepBytes(of jobs: [JobID])
    /// Called about once a second, by one loop.
    func secondPassed()
    /// Ends the place's own work.
    func stop()
}

/// A content at a place, as a job names it.
struct PlacedContent {
    let location: ContentLocation
    /// The job whose content it is, which determines the name of a managed file.
    let job: JobID
    let tenant: String
}
