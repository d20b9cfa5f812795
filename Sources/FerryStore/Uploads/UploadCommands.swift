package import FerryCore
import Postgres

/// Creates, reads, advances, completes and deletes staged uploads. Any thread.
package final class UploadCommands: UploadLookup {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let context: StoreContext
    private let signals: StoreSignals

    init(_ commands: CommandQueue, _ reads: ReadPool, _ context: StoreContext, _ signals: StoreSignals) {
        self.commands = commands
        self.reads = reads
        self.context = context
        self.signals = signals
    }

    // MARK: Reading

    /// Reads an upload. Fails with `notFound` if the tenant has none of that identifier or name.
    package func upload(
        _ reference: UploadReference, tenant: String, reply: @escaping Reply<StagedUpload>
    ) {
        reads.read("upload", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            try Self.upload(reference, tenant, &connection)
        }
    }

    /// Reads a page of a tenant's uploads, newest first.
    package func uploads(_ query: UploadQuery, reply: @escaping Reply<[StagedUpload]>) {
        reads.read("uploads", of: .tenant(query.tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[StagedUpload], StoreError> in
            let rows = try connection.execute(Statements.listUploads, .query(query))
            var uploads: [StagedUpload] = []
            for row in 0..<rows.rowCount { uploads.append(StagedUpload(rows, row)) }
            return .success(uploads)
        }
    }

    /// Reads which of the uploads exist and have their bytes in a file.
    package func known(_ uploads: [UploadID], reply: @escaping Reply<Set<UploadID>>) {
        reads.read("known_uploads", of: .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Set<UploadID>, StoreError> in
            let rows = try connection.execute(Statements.knownUploads, .identifiers(uploads))
            return .success(Set(rows.identifiers()))
        }
    }

    /// Uploads that `localUploads` returns at most.
    package static let localCountMax = 100

    /// Reads complete uploads on the disk of this node that may be moved to the content store, in order.
    /// `last`: the one before the first; `nil` for the first page.
    package func localUploads(after last: UploadID?, reply: @escaping Reply<[StagedUpload]>) {
        let context = context
        reads.read("local_uploads", of: .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[StagedUpload], StoreError> in
            var parameters = Parameters.identifier(context.configuration.node)
            parameters.append(context.clock.now())
            parameters.append(int32: Int32(Self.localCountMax))
            parameters.append(last ?? UploadID(high: 0, low: 0))
            let rows = try connection.execute(Statements.listLocalUploads, parameters)
            return .success((0..<rows.rowCount).map { StagedUpload(rows, $0) })
        }
    }

    // MARK: Changing

    /// Notes that the bytes of a complete upload are in an object. Fails with `notFound` if it is gone.
    package func moveUpload(_ id: UploadID, to object: String, reply: @escaping Reply<Void>) {
        commands.perform("move_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            var parameters = Parameters.identifier(id)
            parameters.append(text: object)
            let rows = try connection.execute(Statements.moveUpload, parameters)
            return rows.rowCount == 1 ? .success(()) : .failure(.notFound)
        }
    }

    /// Creates an upload. If the tenant has one with the same name, replies with that one, which is then not
    /// new. Fails with `tooManyUploads` if the tenant has `Limits.uploadCountMax` uploads.
    package func createUpload(_ upload: StagedUpload, reply: @escaping Reply<Created<StagedUpload>>) {
        commands.perform("create_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Created<StagedUpload>, StoreError>
            in
            let rows = try connection.execute(Statements.createUpload, .new(upload))
            if rows.bool(0, 0) { return .success(Created(upload, isReplay: false)) }
            guard let name = upload.name else { return .failure(.tooManyUploads) }
            switch try Self.upload(.name(name), upload.tenant, &connection) {
            case .success(let found): return .success(Created(found, isReplay: false, isNew: false))
            // The other upload was deleted meanwhile.
            case .failure(.notFound) where rows.bool(0, 1): return .failure(.unavailable)
            case .failure(.notFound): return .failure(.tooManyUploads)
            case .failure(let error): return .failure(error)
            }
        }
    }

    /// Begins an incomplete upload again, with the fields and the size of `upload`. Fails with `notFound` if
    /// it is not incomplete any more.
    package func restartUpload(_ upload: StagedUpload, reply: @escaping Reply<StagedUpload>) {
        commands.perform("restart_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<StagedUpload, StoreError> in
            var parameters = Parameters.identifier(upload.id)
            parameters.append(upload.node)
            parameters.append(upload.expiresAt)
            parameters.append(int64: upload.size)
            parameters.append(upload.fields)
            return Self.only(try connection.execute(Statements.restartUpload, parameters))
        }
    }

    /// Keeps that the first `offset` bytes of an incomplete upload are durable. `size`: the size of the
    /// complete upload if it has become known. Fails with `notFound` if it is not incomplete any more.
    package func advanceUpload(
        _ id: UploadID, to offset: Int64, size: Int64?, expiresAt: Timestamp, reply: @escaping Reply<Void>
    ) {
        commands.perform("advance_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            var parameters = Parameters.identifier(id)
            parameters.append(int64: offset)
            parameters.append(int64: size)
            parameters.append(expiresAt)
            let rows = try connection.execute(Statements.advanceUpload, parameters)
            return rows.rowCount == 1 ? .success(()) : .failure(.notFound)
        }
    }

    /// Prepares uploads for the submission of jobs that name them. Replies with those that the tenant has. To
    /// be called before the submission.
    package func prepareUploads(
        _ references: [UploadReference], tenant: String, reply: @escaping Reply<[NamedUpload]>
    ) {
        commands.perform("prepare_uploads", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[NamedUpload], StoreError> in
            .success(try Self.prepare(references, of: tenant, &connection))
        }
    }

    /// Prepares uploads, as part of the transaction that inserts the jobs or before it. Returns those that
    /// the tenant has.
    static func prepare(
        _ references: [UploadReference], of tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> [NamedUpload] {
        let rows = try connection.execute(Statements.prepareUploads, .uploads(references, of: tenant))
        var found: [NamedUpload] = []
        for row in 0..<rows.rowCount {
            found.append(
                NamedUpload(
                    id: rows.identifier(row, 0), name: rows.textOrNil(row, 1), isComplete: rows.bool(row, 2)))
        }
        return found
    }

    /// Completes an upload whose bytes are durable. Fails with `notFound` if it is not incomplete any more.
    package func completeUpload(
        _ id: UploadID, byteCount: Int64, sha256: [UInt8], expiresAt: Timestamp,
        reply: @escaping Reply<StagedUpload>
    ) {
        let signals = signals
        commands.perform("complete_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<StagedUpload, StoreError> in
            var parameters = Parameters.identifier(id)
            parameters.append(int64: byteCount)
            parameters.append(bytea: sha256)
            parameters.append(expiresAt)
            let rows = try connection.execute(Statements.completeUpload, parameters)
            if rows.rowCount == 1, rows.bool(0, 16) { signals.noteDependencies() }
            return Self.only(rows)
        }
    }

    /// Deletes an upload. Fails with `notFound` if the tenant does not have it, and with `uploadInUse` if an
    /// unfinished job needs it, unless `isForced`. Replies with the place of its bytes.
    package func deleteUpload(
        _ id: UploadID, tenant: String, isForced: Bool, reply: @escaping Reply<UploadBytes>
    ) {
        let signals = signals
        commands.perform("delete_upload", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<UploadBytes, StoreError> in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(id)
            parameters.append(bool: isForced)
            let rows = try connection.execute(Statements.deleteUpload, parameters)
            if rows.bool(0, 2) { signals.noteDependencies() }
            guard !rows.bool(0, 0) else {
                return .success(UploadBytes(upload: id, object: rows.textOrNil(0, 3)))
            }
            return .failure(rows.bool(0, 1) ? .uploadInUse : .notFound)
        }
    }

    /// Uploads that one call removes at most.
    package static let expiredCountMax = 500

    /// Removes expired uploads, at most `expiredCountMax`. Replies with the places of their bytes that this
    /// node is to remove.
    package func removeExpiredUploads(reply: @escaping Reply<[UploadBytes]>) {
        let (context, signals) = (context, signals)
        commands.perform("remove_expired_uploads", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[UploadBytes], StoreError> in
            var parameters = Parameters.identifier(context.configuration.node)
            parameters.append(context.clock.now())
            parameters.append(int32: Int32(Self.expiredCountMax))
            let rows = try connection.execute(Statements.removeExpiredUploads, parameters)
            if (0..<rows.rowCount).contains(where: { rows.bool($0, 1) }) { signals.noteDependencies() }
            return .success(
                (0..<rows.rowCount).map {
                    UploadBytes(upload: rows.identifier($0, 0), object: rows.textOrNil($0, 2))
                })
        }
    }

    private static func upload(
        _ reference: UploadReference, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<StagedUpload, StoreError> {
        var parameters = Parameters()
        parameters.append(text: tenant)
        switch reference {
        case .id(let id):
            parameters.append(id)
            return only(try connection.execute(Statements.readUpload, parameters))
        case .name(let name):
            parameters.append(text: name)
            return only(try connection.execute(Statements.readNamedUpload, parameters))
        }
    }

    private static func only(_ rows: borrowing ResultSet) -> Result<StagedUpload, StoreError> {
        rows.rowCount == 1 ? .success(StagedUpload(rows, 0)) : .failure(.notFound)
    }
}

extension StagedUpload {
    /// Reads the columns of read_upload.sql.
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        var fields = UploadFields()
        fields.fileName = rows.textOrNil(row, 9)
        fields.contentType = rows.textOrNil(row, 10)
        // Checked when the client sent it.
        fields.metadata = UploadMetadata(rows.text(row, 11)) ?? UploadMetadata()
        fields.reprDigest = rows.textOrNil(row, 12)
        fields.concatenation = rows.textOrNil(row, 14)
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 7), node: rows.identifier(row, 3),
            name: rows.textOrNil(row, 8), fields: fields, size: rows.int64OrNil(row, 6),
            createdAt: rows.instant(row, 1), expiresAt: rows.instant(row, 2))
        offset = rows.int64(row, 4)
        isComplete = rows.bool(row, 5)
        sha256 = rows.bytesOrNil(row, 13)
        object = rows.textOrNil(row, 15)
    }
}

extension Parameters {
    /// The parameters of create_upload.sql.
    fileprivate static func new(_ upload: StagedUpload) -> Parameters {
        var parameters = identifier(upload.id)
        parameters.append(upload.createdAt)
        parameters.append(upload.expiresAt)
        parameters.append(upload.node)
        parameters.append(int64: upload.size)
        parameters.append(text: upload.tenant)
        parameters.append(text: upload.name)
        parameters.append(upload.fields)
        parameters.append(int64: Limits.uploadCountMax)
        return parameters
    }

    /// Seconds by which `created_at` may differ from the time of the upload's id: the clocks of nodes differ.
    private static let creationSeconds = 300.0

    /// The parameters of list_uploads.sql.
    fileprivate static func query(_ query: UploadQuery) -> Parameters {
        let last = query.createdBefore.map { UploadID.first(at: $0 + creationSeconds) } ?? .last
        var parameters = Parameters()
        parameters.append(text: query.tenant)
        parameters.append(min(query.before ?? .last, last))
        parameters.append(int32: Int32(clamping: query.limit))
        parameters.append(bool: query.isComplete)
        parameters.append(text: query.name)
        parameters.append(query.createdAfter)
        parameters.append(query.createdBefore)
        parameters.append(query.createdAfter.map { UploadID.first(at: $0 + -creationSeconds) })
        return parameters
    }

    /// The parameters of prepare_uploads.sql.
    fileprivate static func uploads(_ references: [UploadReference], of tenant: String) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: tenant)
        parameters.append(references)
        return parameters
    }

    /// Appends the identifiers and the names among references to uploads.
    mutating func append(_ uploads: [UploadReference]) {
        var ids: [UploadID] = []
        var names: [String] = []
        for upload in uploads {
            switch upload {
            case .id(let id): ids.append(id)
            case .name(let name): names.append(name)
            }
        }
        appendArray(.uuid, ids) { $0.append($1) }
        appendArray(.text, names) { $0.append(text: $1) }
    }

    fileprivate mutating func append(_ fields: UploadFields) {
        append(text: fields.fileName)
        append(text: fields.contentType)
        append(text: fields.metadata.text)
        append(text: fields.reprDigest)
        append(text: fields.concatenation)
    }
}
