import FerryCore
import Synchronization

/// Opens a body that is more than the payload or one file: looks up the jobs whose results are sent on, opens
/// files on a file thread, and writes the heads of parts. No loop waits for that.
struct BodyAssembly: Sendable {
    enum Failure: Error {
        case failed(TransferError)
        /// A file is on the disk of that other node.
        case elsewhere(NodeID)
    }

    /// The file that is being hashed, until the assembly is stopped.
    private final class Hashing: Sendable {
        private struct State {
            var tail: DigestTail?
            var isStopped = false
        }
        private let state = Mutex(State())

        func begin(_ tail: DigestTail) {
            let isStopped = state.withLock { state in
                state.tail = tail
                return state.isStopped
            }
            if isStopped { tail.stop() }
        }

        func stop() {
            let tail = state.withLock { state in
                state.isStopped = true
                return state.tail
            }
            tail?.stop()
        }
    }

    private let attempt: Attempt
    private let context: EngineContext
    private let hashing: Hashing
    /// Ends the copying of contents from the content store.
    private let fetching = StopSignal()

    /// `nil` if the body needs no assembly.
    init?(_ attempt: Attempt, _ context: EngineContext) {
        guard attempt.spec.needsAssembly else { return nil }
        self.attempt = attempt
        self.context = context
        hashing = Hashing()
    }

    /// Assembles the body. `reply` is called once, on a thread that must not block.
    func open(_ reply: @escaping @Sendable (Result<BodyContents, Failure>) -> Void) {
        findSources { found in
            fetchObjects(found) { found in
                var unverified: [UnverifiedFile] = []
                do throws(TransferError) {
                    let contents = try contents(try found.get(), &unverified)
                    settle(unverified[...]) { error in
                        guard let error else { return reply(.success(contents)) }
                        reply(.failure(.failed(error)))
                    }
                } catch {
                    // If the lookup itself failed, no job was found.
                    reply(.failure(failure(error, (try? found.get()) ?? Found())))
                }
            }
        }
    }

    /// Makes the assembly end: hashing and copying stop, and `reply` is called soon.
    func stop() {
        hashing.stop()
        fetching.set()
    }

    private struct Source {
        let content: JobContent
        /// The node that has fetched it.
        let node: NodeID?
        /// A copy of its bytes, if they are in the content store.
        var copy: FetchedObject?

        /// Key of its bytes in the content store; `nil` if they are not there.
        var key: String? {
            if case .stored(.object(let key)) = content.place { key } else { nil }
        }
    }
    /// The jobs and the uploads that the body refers to.
    private struct Found {
        var jobs: [JobID: Source] = [:]
        var uploads: [UploadID: StagedUpload] = [:]
        /// Copies of uploads that are in the content store.
        var copies: [UploadID: FetchedObject] = [:]

        /// Returns the upload that a job names, which has its identifier.
        func upload(_ reference: UploadReference) throws(TransferError) -> StagedUpload {
            guard case .id(let id) = reference, let upload = uploads[id] else {
                throw BodyAssembly.missing("The upload does not exist.")
            }
            return upload
        }
    }

    /// A file that is not the one that its job has published: it is sent only if its bytes have the same
    /// digest.
    private struct UnverifiedFile {
        let bytes: DigestTail.Bytes
        let byteCount: Int64
        let sha256: String
    }

    /// Looks up the jobs and the uploads.
    private func findSources(_ done: @escaping @Sendable (Result<Found, TransferError>) -> Void) {
        find(Array(Set(attempt.spec.sourceJobs)), Found()) { result in
            guard case .success(let found) = result else { return done(result) }
            findUploads(attempt.spec.sourceUploadIDs[...], found, done)
        }
    }

    /// Looks up the uploads one after the other, since there are few.
    private func findUploads(
        _ uploads: ArraySlice<UploadID>, _ found: Found,
        _ done: @escaping @Sendable (Result<Found, TransferError>) -> Void
    ) {
        guard let id = uploads.first else { return done(.success(found)) }
        guard let lookup = context.configuration.uploads else {
            return done(.failure(Self.missing("The upload does not exist.")))
        }
        lookup.upload(.id(id), tenant: attempt.tenant) { result in
            switch result {
            case .success(let upload) where upload.isComplete:
                var found = found
                found.uploads[id] = upload
                findUploads(uploads.dropFirst(), found, done)
            case .success: done(.failure(Self.missing("The upload is not complete.")))
            case .failure(.notFound): done(.failure(Self.missing("The upload does not exist.")))
            case .failure:
                done(
                    .failure(
                        TransferError(
                            .storageFailed, "The upload could not be looked up.", phase: .sending,
                            isRetryable: true)))
            }
        }
    }

    /// Looks up the jobs one after the other, since there are few.
    private func find(
        _ jobs: [JobID], _ found: Found, _ done: @escaping @Sendable (Result<Found, TransferError>) -> Void
    ) {
        guard let job = jobs.last else { return done(.success(found)) }
        context.jobs.job(job, tenant: attempt.tenant) { result in
            do throws(TransferError) {
                var found = found
                found.jobs[job] = try Self.source(result)
                find(jobs.dropLast(), found, done)
            } catch {
                done(.failure(error))
            }
        }
    }

    private static func source(_ result: Result<JobRecord, StoreError>) throws(TransferError) -> Source {
        let record: JobRecord
        switch result {
        case .success(let found): record = found
        case .failure(.notFound): throw missing("The source's job does not exist.")
        case .failure:
            throw TransferError(
                .storageFailed, "The source's job could not be looked up.", phase: .sending, isRetryable: true
            )
        }
        guard record.state.isTerminal else {
            throw missing("The source's job has not finished yet: it is \(record.state.rawValue).")
        }
        guard record.state == .succeeded else {
            throw missing("The source's job has not succeeded: it is \(record.state.rawValue).")
        }
        guard let content = JobContent(record) else { throw missing("The source's job has left no bytes.") }
        return Source(content: content, node: record.node)
    }

    private static func missing(_ message: String) -> TransferError {
        TransferError(.sourceNotFound, message, phase: .sending, isRetryable: false)
    }

    // MARK: On a thread of the content store

    /// Copies contents that are in the content store to files without names, which are sent as others are.
    /// `done` is called on a file thread.
    private func fetchObjects(
        _ result: Result<Found, TransferError>,
        _ done: @escaping @Sendable (Result<Found, TransferError>) -> Void
    ) {
        let finish = { @Sendable (result: Result<Found, TransferError>) in
            context.fileThreads.send(.run { done(result) })
        }
        guard case .success(let found) = result,
            found.jobs.values.contains(where: { $0.key != nil })
                || found.uploads.values.contains(where: { $0.object != nil })
        else { return finish(result) }
        guard let objects = context.places.objects else { return finish(.failure(.noContentStore)) }
        let isTaken = objects.runCopying {
            var found = found
            do throws(TransferError) {
                for (job, source) in found.jobs {
                    guard let key = source.key else { continue }
                    found.jobs[job]?.copy = try fetch(key, source.content.size, objects)
                }
                for (id, upload) in found.uploads {
                    guard let key = upload.object, let size = upload.size else { continue }
                    found.copies[id] = try fetch(key, size, objects)
                }
                finish(.success(found))
            } catch {
                finish(.failure(error))
            }
        }
        if !isTaken { finish(.failure(.contentStoreUnavailable)) }
    }

    private func fetch(
        _ key: String, _ byteCount: Int64, _ objects: ContentObjects
    ) throws(TransferError) -> FetchedObject {
        let file = try context.places.localFiles.unnamedFile(expecting: byteCount)
        try objects.fetch(key, byteCount: byteCount, into: file, fetching)
        return FetchedObject(file, key: key, byteCount: byteCount)
    }

    // MARK: On a file thread

    /// Hashes the files one after the other, a slice at a time. `done` gets the error if they must not be
    /// sent.
    private func settle(
        _ unverified: ArraySlice<UnverifiedFile>, _ done: @escaping @Sendable (TransferError?) -> Void
    ) {
        guard let next = unverified.first else { return done(nil) }
        let digests = Digests(JobSpec.Integrity())
        let tail = DigestTail(next.bytes, digests, fileThreads: context.fileThreads) {}
        tail.finish(
            at: next.byteCount,
            then: .run {
                if let failure = tail.failure { return done(failure) }
                // A digest that cannot be computed does not match either.
                guard (try? digests.finish()) == next.sha256 else { return done(.contentChanged) }
                settle(unverified.dropFirst(), done)
            })
        hashing.begin(tail)
    }

    private func contents(_ found: Found, _ unverified: inout [UnverifiedFile]) throws(TransferError)
        -> BodyContents
    {
        var payload = (attempt.payload ?? [])[...]
        let isUpload = attempt.spec.kind == .upload
        guard let parts = attempt.spec.parts else {
            if case .upload(let upload)? = attempt.spec.source {
                return try uploaded(found.upload(upload), found)
            }
            guard case .job(let job)? = attempt.spec.source, let source = found.jobs[job] else {
                throw Self.missing("The job names no source.")
            }
            let (content, piece) = (source.content, try piece(of: job, source, &unverified))
            var contents = BodyContents([piece], subject: isUpload ? 0 : nil)
            contents.contentType = content.mediaType
            contents.integrity = content.integrity
            return contents
        }
        var opened: [MultipartForm.Part] = []
        for part in parts { opened.append(try open(part, found, &payload, &unverified)) }
        var contents = MultipartForm.contents(
            opened, subject: isUpload ? parts.count - 1 : nil,
            form: MultipartForm(boundary: attempt.upload?.boundary))
        if isUpload, case .job(let job)? = parts.last?.source, let content = found.jobs[job]?.content {
            contents.integrity = content.integrity
        }
        if isUpload, case .upload(let upload)? = parts.last?.source {
            contents.integrity = try found.upload(upload).integrity
        }
        return contents
    }

    private func uploaded(_ upload: StagedUpload, _ found: Found) throws(TransferError) -> BodyContents {
        var contents = BodyContents([try piece(of: upload, found)], subject: 0)
        contents.contentType = upload.fields.contentType
        contents.integrity = upload.integrity
        return contents
    }

    private func open(
        _ part: JobSpec.Part, _ found: Found, _ payload: inout ArraySlice<UInt8>,
        _ unverified: inout [UnverifiedFile]
    ) throws(TransferError) -> MultipartForm.Part {
        func make(_ content: BodyContents.Piece, _ fileName: String?, _ type: String?) -> MultipartForm.Part {
            MultipartForm.Part(
                name: part.name, fileName: part.fileName ?? fileName, contentType: part.contentType ?? type,
                content: content)
        }
        switch part.source {
        case .path(let path): return make(.source(try context.places.source(path, of: attempt)), nil, nil)
        case .job(let job):
            guard let source = found.jobs[job] else {
                throw Self.missing("The source's job does not exist.")
            }
            let type = source.content.mediaType ?? "application/octet-stream"
            return make(try piece(of: job, source, &unverified), source.content.fileName, type)
        case .upload(let reference):
            let upload = try found.upload(reference)
            let type = upload.fields.contentType ?? "application/octet-stream"
            let name = upload.fields.fileName ?? upload.name ?? upload.id.description
            return make(try piece(of: upload, found), name, type)
        case .inline(let body):
            let bytes = payload.prefix(body.byteCount)
            payload = payload.dropFirst(body.byteCount)
            return make(.bytes(Array(bytes)), nil, nil)
        case .form, .object, .server:
            throw Self.missing("A part of a form cannot be a form, or a file of another server.")
        }
    }

    /// Returns why the body cannot be sent: a file that is missing here may be on the disk of the node that
    /// has fetched it.
    private func failure(_ error: TransferError, _ found: Found) -> Failure {
        guard error.code == .sourceNotFound, let own = context.configuration.node else {
            return .failed(error)
        }
        var unverified: [UnverifiedFile] = []
        // Why a file cannot be sent from here does not matter: another node has it.
        let owners =
            found.jobs.filter { job, source in
                source.key == nil && (try? piece(of: job, source, &unverified)) == nil
            }.map(\.value.node) + found.uploads.values.map(\.home)
        for node in owners.compactMap(\.self) where node != own {
            switch attempt.home {
            case nil: return .elsewhere(node)
            case own: return .failed(Self.missing("The files of the sources are on several nodes."))
            default:
                return .failed(
                    TransferError(
                        .storageFailed, "The node that has the source's file is not there.",
                        phase: .sending, isRetryable: true))
            }
        }
        return .failed(error)
    }

    private func piece(
        of upload: StagedUpload, _ found: Found
    ) throws(TransferError) -> BodyContents.Piece {
        if let copy = found.copies[upload.id] { return .source(copy) }
        return .source(try context.places.uploads.source(of: upload))
    }

    private func piece(
        of job: JobID, _ source: Source, _ unverified: inout [UnverifiedFile]
    ) throws(TransferError) -> BodyContents.Piece {
        if let copy = source.copy { return .source(copy) }
        let content = source.content
        let location: ContentLocation
        switch content.place {
        case .body(let bytes): return .bytes(bytes)
        case .stored(let at): location = at
        }
        let opened = try context.places.open(content, at: location, of: job, tenant: attempt.tenant)
        if !opened.isKnown, let bytes = opened.source.hashable {
            unverified.append(UnverifiedFile(bytes: bytes, byteCount: content.size, sha256: content.sha256))
        }
        return .source(opened.source)
    }
}

extension StagedUpload {
    /// An upload is sent only if it is as it was completed.
    fileprivate var integrity: JobSpec.Integrity {
        var integrity = JobSpec.Integrity()
        (integrity.size, integrity.sha256) = (size, sha256.map(hexEncoded))
        return integrity
    }
}

extension JobContent {
    /// A job's result is sent only if it is as it was fetched.
    fileprivate var integrity: JobSpec.Integrity {
        var integrity = JobSpec.Integrity()
        (integrity.size, integrity.sha256) = (size, sha256)
        return integrity
    }
}

extension JobSpec {
    /// Whether the body is more than the payload or one file.
    fileprivate var needsAssembly: Bool {
        switch source {
        case .job?, .upload?, .form?: true
        case .path?, .inline?, .object?, .server?: false
        case nil: request.body?.form == .multipart
        }
    }

    fileprivate var sourceJobs: [JobID] {
        if case .job(let job)? = source { return [job] }
        return (parts ?? []).compactMap { if case .job(let job) = $0.source { job } else { nil } }
    }
}
