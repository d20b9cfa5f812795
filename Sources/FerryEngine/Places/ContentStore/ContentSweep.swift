import Curl
package import FerryCore
package import Logging

/// Removes objects and incomplete multipart uploads of the content store that their owner does not need, if
/// they are old enough. Keys of another form are left alone. One thread calls the methods, which block; any
/// thread calls `stop`.
package final class ContentSweep: Sendable {
    /// An object, or a multipart upload that is not complete.
    package struct Content: Sendable {
        package let owner: ContentOwner
        /// Key of the object; `nil` for a multipart upload, which only an unfinished owner needs.
        package let key: String?
    }

    /// Result of a sweep.
    package struct Outcome: Sendable {
        /// Objects and multipart uploads that it has removed.
        package internal(set) var removedCount = 0
        /// `false` if the store or the database did not answer, or the sweep was stopped.
        package internal(set) var isComplete = false
    }

    /// Reason for which a sweep ends early.
    private enum Failure: Error {
        case store(ContentClient.Failure)
        /// The database did not say which contents are needed.
        case database
    }

    /// Entries of a page of a listing, and contents that the database is asked about at once.
    private static let pageCount = 500
    /// Bytes of a page at most: keys of another form may have 1,024 characters, each an XML reference.
    private static let pageByteCountMax = 8 << 20

    private let objects: ContentObjects
    private let unusedSeconds: Double
    private let ask: @Sendable ([Content]) -> Set<Int>?
    private let clock: any WallClock
    private let logger: Logger
    private let stopping = StopSignal()

    /// `unusedSeconds`: age from which contents are removed, by the clock of the store. `ask`: returns the
    /// indexes of the contents that are not needed; `nil` if the database does not answer.
    package init(
        _ objects: ContentObjects, unusedSeconds: Double, clock: any WallClock, logger: Logger,
        ask: @escaping @Sendable ([Content]) -> Set<Int>?
    ) {
        self.objects = objects
        self.clock = clock
        self.unusedSeconds = unusedSeconds
        self.ask = ask
        self.logger = logger
    }

    private var client: ContentClient { objects.client }

    /// Ends the running request, and the sweep.
    package func stop() { stopping.set() }

    // MARK: Generation

    /// Returns the generation of the store; `nil` if it cannot be read.
    package func storeGeneration() -> Int64? {
        guard client.isAvailable else { return nil }
        do throws(ContentClient.Failure) {
            return try ContentGeneration.read(client, stopping)
        } catch {
            note(error)
            return nil
        }
    }

    /// Writes the generation of the store. Returns `false` if that failed.
    package func raiseStoreGeneration(to generation: Int64) -> Bool {
        do throws(ContentClient.Failure) {
            try ContentGeneration.write(generation, client, stopping)
            return true
        } catch {
            note(error)
            return false
        }
    }

    private func note(_ failure: ContentClient.Failure) {
        guard case .unavailable(let reason) = failure else { return }
        // Of a store that cannot be used, the client logs that.
        guard client.isAvailable else { return }
        logger.error("The content store could not be swept.", metadata: ["error": "\(reason)"])
    }

    // MARK: Sweep

    /// Removes what is not needed. The generations of the database and the store have been raised before.
    package func run() -> Outcome {
        var outcome = Outcome()
        do throws(Failure) {
            for folder in ContentOwner.folders {
                try removeObjects(in: folder, &outcome)
                try removeUploads(in: folder, &outcome)
            }
            outcome.isComplete = true
        } catch {
            if case .store(let failure) = error { note(failure) }
        }
        return outcome
    }

    private func removeObjects(in folder: String, _ outcome: inout Outcome) throws(Failure) {
        var token: String?
        repeat {
            var query = token.map { "continuation-token=\(percentEncoded($0))&" } ?? ""
            query += "list-type=2&max-keys=\(Self.pageCount)&prefix=\(prefix(of: folder))"
            let (page, oldest) = try list(query) { ObjectPage($0) }
            let contents = page.entries.compactMap { entry -> (Content, ContentClient.Request)? in
                guard entry.modifiedAt < oldest, let key = key(entry.key),
                    let owner = ContentOwner(key: key)
                else { return nil }
                return (Content(owner: owner, key: key), ContentClient.Request("DELETE", key))
            }
            try remove(contents, &outcome)
            token = page.next
        } while token != nil
    }

    private func removeUploads(in folder: String, _ outcome: inout Outcome) throws(Failure) {
        var marker: MultipartUploadPage.Marker?
        repeat {
            var query = marker.map { "key-marker=\(percentEncoded($0.key))&" } ?? ""
            query += "max-uploads=\(Self.pageCount)&prefix=\(prefix(of: folder))"
            query += marker.map { "&upload-id-marker=\(percentEncoded($0.upload))" } ?? ""
            let (page, oldest) = try list("\(query)&uploads=") { MultipartUploadPage($0) }
            let contents = page.entries.compactMap { entry -> (Content, ContentClient.Request)? in
                guard entry.initiatedAt < oldest, !entry.upload.isEmpty, let key = key(entry.key),
                    let owner = ContentOwner(key: key)
                else { return nil }
                var request = ContentClient.Request("DELETE", key)
                request.query = "uploadId=\(percentEncoded(entry.upload))"
                return (Content(owner: owner, key: nil), request)
            }
            try remove(contents, &outcome)
            marker = page.next
        } while marker != nil
    }

    /// Begin of the keys in a folder of contents, percent-encoded.
    private func prefix(of folder: String) -> String { percentEncoded(client.bucket.prefix + folder) }

    /// Returns the key below the prefix of the cluster.
    private func key(_ whole: String) -> String? {
        whole.hasPrefix(client.bucket.prefix) ? String(whole.dropFirst(client.bucket.prefix.count)) : nil
    }

    /// Returns a page of a listing, and the time before which contents are old enough to be removed.
    private func list<Page>(
        _ query: String, _ read: ([UInt8]) -> Page?
    ) throws(Failure) -> (Page, oldest: Timestamp) {
        var request = ContentClient.Request("GET", nil)
        request.query = query
        request.byteLimit = Self.pageByteCountMax
        let response = try send(request)
        guard let page = read(response.body) else {
            throw .store(.unavailable("its listing is not complete"))
        }
        // The clock of this node does not matter: it may be wrong.
        guard let date = response.header("date").flatMap({ Timestamp(httpDate: $0, now: clock.now()) }) else {
            throw .store(.unavailable("its listing has no date"))
        }
        return (page, date + -unusedSeconds)
    }

    private func remove(
        _ contents: [(Content, ContentClient.Request)], _ outcome: inout Outcome
    ) throws(Failure) {
        // A store may send larger pages than it was asked for.
        for start in stride(from: 0, to: contents.count, by: Self.pageCount) {
            let part = contents[start..<min(start + Self.pageCount, contents.count)]
            guard let unused = ask(part.map(\.0)) else { throw .database }
            for index in unused.sorted() where part.indices.contains(start + index) {
                try remove(contents[start + index].1, &outcome)
            }
        }
    }

    private func remove(_ request: ContentClient.Request, _ outcome: inout Outcome) throws(Failure) {
        do throws(Failure) {
            _ = try send(request)
        } catch {
            // Removed meanwhile, such as by the deletion of its owner.
            if case .store(.missing) = error { return }
            throw error
        }
        outcome.removedCount += 1
        objects.counts.noteRemoval()
    }

    private func send(_ request: ContentClient.Request) throws(Failure) -> BufferedRequest.Response {
        do throws(ContentClient.Failure) {
            return try client.send(request, stopping)
        } catch {
            throw .store(error)
        }
    }
}
