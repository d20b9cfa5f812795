package import FerryCore

/// Stores staged uploads. An upload of another tenant is `notFound`.
package protocol UploadStore: UploadLookup {
    /// Replies with uploads, newest first.
    func uploads(_ query: UploadQuery, reply: @escaping Reply<[StagedUpload]>)
    /// Stores a new upload. If the tenant has an upload of the same name, replies with that, which is not
    /// new.
    func createUpload(_ upload: StagedUpload, reply: @escaping Reply<Created<StagedUpload>>)
    /// Begins an incomplete upload again, with the fields and the size of `upload`.
    func restartUpload(_ upload: StagedUpload, reply: @escaping Reply<StagedUpload>)
    /// Keeps that the first `offset` bytes of an incomplete upload are durable. `size`: the size of the
    /// complete upload if it has become known.
    func advanceUpload(
        _ id: UploadID, to offset: Int64, size: Int64?, expiresAt: Timestamp, reply: @escaping Reply<Void>)
    /// Completes an upload whose bytes are durable.
    func completeUpload(
        _ id: UploadID, byteCount: Int64, sha256: [UInt8], expiresAt: Timestamp,
        reply: @escaping Reply<StagedUpload>)
    /// Deletes an upload. If an unfinished job needs it, it is `uploadInUse`, unless `isForced`. Replies with
    /// the place of its bytes.
    func deleteUpload(_ id: UploadID, tenant: String, isForced: Bool, reply: @escaping Reply<UploadBytes>)
    /// Prepares uploads for the submission of jobs that name them. Replies with those that the tenant has. To
    /// be called before the submission.
    func prepareUploads(
        _ references: [UploadReference], tenant: String, reply: @escaping Reply<[NamedUpload]>)
}

/// Ports and settings of the handlers of uploads.
struct UploadServices: Sendable {
    let store: any UploadStore
    /// The files of this node; `nil` if it transfers no files.
    let files: (any UploadFiles)?
    /// The contents of the content store.
    let content: any ContentStore
    let node: NodeID
    let quotas: TenantQuotas
    let clock: any WallClock
    let identifiers: IdentifierGenerator
    let others: any OtherNodes
    /// Bytes of an upload at most; `nil` for no limit.
    let byteCountMax: Int64?
    /// Time for which a complete upload is kept, in seconds.
    let retentionSeconds: Double
    let queue = UploadQueue()
    let load = UploadLoad()

    /// The time at which an incomplete upload that gets bytes now is removed.
    var incompleteExpiry: Timestamp { clock.now() + Limits.incompleteUploadSeconds }
    /// The time at which an upload that is completed now is removed.
    var completeExpiry: Timestamp { clock.now() + retentionSeconds }
}
