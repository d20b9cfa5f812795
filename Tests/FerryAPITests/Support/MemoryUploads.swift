import FerryAPI
import FerryCore
import Synchronization

/// Uploads that have no file: the API is tested with the real store and files elsewhere.
extension MemoryStore: UploadStore {
    func upload(_ reference: UploadReference, tenant: String, reply: @escaping Reply<StagedUpload>) {
        let found = state.withLock { state in
            state.uploads.first { upload in
                guard upload.tenant == tenant else { return false }
                return switch reference {
                case .id(let id): upload.id == id
                case .name(let name): upload.name == name
                }
            }
        }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func uploads(_ query: UploadQuery, reply: @escaping Reply<[StagedUpload]>) {
        let found = state.withLock { $0.uploads }.filter { upload in
            upload.tenant == query.tenant && query.before.map { upload.id < $0 } ?? true
                && query.isComplete.map { $0 == upload.isComplete } ?? true
                && query.name.map { $0 == upload.name } ?? true
        }
        reply(.success(Array(found.sorted { $0.id > $1.id }.prefix(query.limit))))
    }

    func createUpload(_ upload: StagedUpload, reply: @escaping Reply<Created<StagedUpload>>) {
        state.withLock { $0.uploads.append(upload) }
        reply(.success(Created(upload, isReplay: false)))
    }

    func restartUpload(_ upload: StagedUpload, reply: @escaping Reply<StagedUpload>) {
        reply(.success(upload))
    }

    func advanceUpload(
        _ id: UploadID, to offset: Int64, size: Int64?, expiresAt: Timestamp, reply: @escaping Reply<Void>
    ) { reply(.success(())) }

    func completeUpload(
        _ id: UploadID, byteCount: Int64, sha256: [UInt8], expiresAt: Timestamp,
        reply: @escaping Reply<StagedUpload>
    ) { reply(.failure(.notFound)) }

    func prepareUploads(
        _ references: [UploadReference], tenant: String, reply: @escaping Reply<[NamedUpload]>
    ) {
        let found = state.withLock { $0.uploads }.filter { upload in
            upload.tenant == tenant
                && (references.contains(.id(upload.id))
                    || upload.name.map { references.contains(.name($0)) } ?? false)
        }
        reply(
            .success(
                found.map { NamedUpload(id: $0.id, name: $0.name, isComplete: $0.isComplete) }))
    }

    func deleteUpload(_ id: UploadID, tenant: String, isForced: Bool, reply: @escaping Reply<UploadBytes>) {
        let isGone = state.withLock { state in
            let count = state.uploads.count
            state.uploads.removeAll { $0.id == id && $0.tenant == tenant }
            return state.uploads.count < count
        }
        reply(isGone ? .success(UploadBytes(upload: id, object: nil)) : .failure(.notFound))
    }
}
