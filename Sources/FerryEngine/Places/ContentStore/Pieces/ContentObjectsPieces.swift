import Curl
import FerryCore
import Sys

// Pieces of unfinished downloads.
extension ContentObjects {
    /// Returns the pieces of a job; `nil` if the store does not tell. Blocks.
    func pieces(of job: JobID, _ stop: StopSignal = StopSignal()) -> [PieceKey]? {
        var pieces: [PieceKey] = []
        var token: String?
        repeat {
            // The reason is in the log.
            guard let page = try? list(PieceKey.prefix(of: job), token, stop) else { return nil }
            pieces += page.entries.compactMap { PieceKey($0.key) }
            token = page.next
        } while token != nil && pieces.count < Self.pieceCountMax
        return pieces
    }

    /// Pieces of a job that are looked at, at most: 8 TB of bytes.
    private static let pieceCountMax = 1_000_000

    /// Sends a piece. Returns `false` if that has failed. Blocks.
    func store(_ record: PartialRecord, _ file: PartialFile, _ key: PieceKey, _ stop: StopSignal) -> Bool {
        let bytes = ContentUpload.Bytes.file(file.descriptor, owner: file)
        // The attempt itself finds a disk that cannot be read, and the log has the store's reason.
        guard let read = try? bytes.read(key.range) else { return false }
        var request = ContentClient.Request("PUT", key.text)
        request.body = PieceObject.encode(record, read)
        return (try? client.send(request, stop)) != nil
    }

    /// Removes the pieces of a job. If that fails, the sweep removes them later. Blocks.
    func removePieces(of job: JobID) {
        for piece in pieces(of: job) ?? [] {
            guard client.isAvailable else { return }
            _ = try? client.send(.init("DELETE", piece.text))
        }
    }

    /// Copies the pieces of earlier attempts of a job to a partial file, as if an attempt on this node had
    /// left them: the longest run of bytes of one content. `identity`: of the request that the bytes must
    /// come from. Blocks. Throws `storage_unavailable`, and as `ClaimedFile.write`.
    func fetchPieces(
        into destination: Destination, identity: String, _ space: StorageSpace
    ) throws(TransferError) {
        let job = destination.job
        guard isAvailable, let all = pieces(of: job) else { throw .contentStoreUnavailable }
        let chains = Dictionary(grouping: all, by: \.content).values.map { PieceKey.chain($0) }
        let longest = chains.max { $0.last?.range.upperBound ?? 0 < $1.last?.range.upperBound ?? 0 }
        guard let chain = longest, let end = chain.last?.range.upperBound else { return }
        let directory = try destination.root.directory(destination.directory, making: true)
        let name = PartialNames.partial(of: job, attempt: 0)
        let claim = try space.claim(at: directory, expecting: end)
        directory.remove(name)
        let file = ClaimedFile(
            descriptor: try directory.newFile(name), directory: directory, space: space, claim: claim)
        do throws(TransferError) {
            guard var record = try copy(chain, identity, to: file), let inode = directory.inode(name) else {
                directory.remove(name)
                return
            }
            record.inode = UInt64(inode)
            record.boot = Boot.identifier
            try file.sync()
            if !directory.replace(PartialNames.record(of: name), record.encode(), syncs: false) {
                directory.remove(name)
            }
        } catch {
            directory.remove(name)
            throw error
        }
    }

    /// Writes pieces to a file. Returns the record of the last one; `nil` if they are no longer in the store,
    /// are no pieces, or come from another request.
    private func copy(
        _ chain: [PieceKey], _ identity: String, to file: ClaimedFile
    ) throws(TransferError) -> PartialRecord? {
        var record: PartialRecord?
        for key in chain {
            var request = ContentClient.Request("GET", key.text)
            request.byteLimit = key.range.count + EngineLimits.recordByteCountMax + 64
            let body: [UInt8]
            do throws(ContentClient.Failure) {
                body = try client.send(request).body
            } catch {
                if case .missing = error { return nil }
                throw .contentStoreUnavailable
            }
            guard let piece = PieceObject(body), piece.bytes.count == key.range.count,
                piece.record.identity == identity
            else { return nil }
            try file.write(Array(piece.bytes), at: key.range.lowerBound)
            record = piece.record
        }
        return record
    }

    /// Lists a page of the objects whose keys begin with `prefix`. The keys are below the prefix of the
    /// cluster. Blocks.
    func list(
        _ prefix: String, _ token: String?, _ stop: StopSignal = StopSignal()
    ) throws(ContentClient.Failure) -> ObjectPage {
        var request = ContentClient.Request("GET", nil)
        request.query = "list-type=2&max-keys=1000&prefix=\(percentEncoded(client.bucket.prefix + prefix))"
        if let token { request.query? += "&continuation-token=\(percentEncoded(token))" }
        request.byteLimit = 8 << 20
        guard var page = ObjectPage(try client.send(request, stop).body) else {
            throw .unavailable("It lists objects in an unknown form.")
        }
        page.removePrefix(client.bucket.prefix)
        return page
    }
}
