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
    /// Removes what the attempts of a deleted job have left here. Returns at once.
    func forget(_ point: ResumePoint)
    /// Removes what the attempts of these finished jobs have left beside their contents. Returns at once.
    func removePartialFiles(of jobs: [JobID])
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

/// The places of a node. A new place is a folder beside `LocalFiles`, and one more element of `all`.
struct Places: Sendable {
    /// The disks of this node, whose free space the whole service watches.
    let localFiles: LocalFiles
    let all: [any Place]

    init(_ localFiles: LocalFiles) {
        self.localFiles = localFiles
        all = [localFiles]
    }

    /// Returns the place of a location.
    subscript(location: ContentLocation) -> any Place {
        // No input reaches this: each case of `ContentLocation` belongs to a place.
        guard let place = all.first(where: { $0.keeps(location) }) else {
            preconditionFailure("no place keeps \(location)")
        }
        return place
    }
}

extension EngineContext {
    /// Opens the file that a job names as its source.
    func source(_ path: String, of attempt: Attempt) throws(TransferError) -> any ByteSource {
        let location = ContentLocation.namedFile(path: path)
        return try places[location].source(
            of: PlacedContent(location: location, job: attempt.job, tenant: attempt.tenant))
    }
}
