package import FerryCore
package import Logging

/// The places of a node, and the file threads that their work is done on. A new place is a folder beside
/// `LocalFiles`, and one more element of `all`. Any thread.
package struct Places: Sendable {
    let fileThreads: FileThreadPool
    /// The disks of this node, whose free space the whole service watches.
    let localFiles: LocalFiles
    /// The content store, if its contents are objects; `nil` if they are managed files.
    package let objects: ContentObjects?
    let all: [any Place]
    /// The files of staged uploads on this node.
    package let uploads: StagedUploads

    /// Starts the file threads. `objects`: stopped with the places.
    package init(_ configuration: EngineConfiguration, objects: ContentObjects? = nil, logger: Logger) {
        fileThreads = FileThreadPool(threadCount: configuration.fileThreadCount)
        localFiles = LocalFiles(configuration, fileThreads, objects: objects, logger)
        self.objects = objects
        all = [localFiles as any Place] + (objects.map { [$0] } ?? [])
        uploads = StagedUploads(configuration.uploadsDirectory, fileThreads, localFiles, objects: objects)
    }

    /// Returns the place of a location.
    subscript(location: ContentLocation) -> any Place {
        // No input reaches this: each case of `ContentLocation` belongs to a place.
        guard let place = all.first(where: { $0.keeps(location) }) else {
            preconditionFailure("no place keeps \(location)")
        }
        return place
    }

    /// Opens the file that a job names as its source.
    func source(_ path: String, of attempt: Attempt) throws(TransferError) -> any ByteSource {
        let location = ContentLocation.namedFile(path: path)
        return try self[location].source(
            of: PlacedContent(location: location, job: attempt.job, tenant: attempt.tenant))
    }

    /// Returns where the content of an attempt goes in the content store; `nil` if it is to be a file.
    func object(for attempt: Attempt) -> Publication.ObjectTarget? {
        guard let objects, attempt.spec.contentLocation.isManaged else { return nil }
        return .init(
            objects: objects, key: ContentObjects.key(for: attempt), fileThreads: fileThreads)
    }

    /// Opens the content that a job has left at a location, which is no object. Blocks. Throws
    /// `source_changed` if it is known to be another one, `source_not_found` if there is none, and
    /// `storage_failed`.
    package func open(
        _ content: JobContent, at location: ContentLocation, of job: JobID, tenant: String
    ) throws(TransferError) -> OpenedContent {
        let placed = PlacedContent(location: location, job: job, tenant: tenant)
        let source = try self[location].source(of: placed)
        if let count = source.byteCount, count != content.size { throw .contentChanged }
        let isKnown = source.isKnown(as: content)
        guard isKnown || source.hashable != nil else { throw .contentChanged }
        return OpenedContent(source, byteCount: content.size, isKnown: isKnown)
    }

    /// Removes the content of a deleted job, if a place keeps it under a name that Ferry has chosen. Returns
    /// at once. `location`: `nil` if the job has left no content.
    package func removeContent(of job: JobID, at location: ContentLocation?) {
        for place in all { place.removeContent(of: job, at: location) }
    }

    /// Ends the work of the places, and their threads. Returns how many threads hang.
    package func stop() -> Int {
        for place in all { place.stop() }
        return fileThreads.stop()
    }
}

extension TransferError {
    /// The content at a location is not the one that a job has left there.
    static let contentChanged = TransferError(
        .sourceChanged, "The file is no longer the one that the source's job has fetched.", phase: .sending,
        isRetryable: false)
}
