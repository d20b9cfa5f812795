package import FerryCore
import Postgres

/// Begins the sweeps of the content store, and finds out which of its objects are not needed. Any thread.
package final class ContentStoreCommands: Sendable {
    /// The row of the database about the content store.
    package struct State: Sendable, Equatable {
        /// Raised by each sweep.
        package let generation: Int64
        /// When the last sweep began; `nil` if none has.
        package let sweptAt: Timestamp?
    }

    /// The reply to a node that wants to sweep.
    package struct Claim: Sendable, Equatable {
        /// Generation of the database, which the sweep has raised if it begins.
        package let generation: Int64
        /// `true` if this node begins a sweep.
        package let begins: Bool
        /// Seconds until a node may begin another one.
        package let nextSeconds: Double
    }

    /// An object of the content store, or a multipart upload that is not complete.
    package struct Content: Sendable {
        fileprivate var job: JobID?
        fileprivate var upload: UploadID?
        fileprivate let key: String?

        /// A content of a job. `key`: `nil` for a multipart upload.
        package init(of job: JobID, key: String?) {
            self.job = job
            self.key = key
        }

        /// A content of a staged upload. `key`: `nil` for a multipart upload.
        package init(of upload: UploadID, key: String?) {
            self.upload = upload
            self.key = key
        }
    }

    /// Contents that one call asks about at most.
    package static let contentCountMax = 500

    private let commands: CommandQueue
    private let reads: ReadPool

    init(_ commands: CommandQueue, _ reads: ReadPool) {
        self.commands = commands
        self.reads = reads
    }

    /// Reads the state.
    package func state(reply: @escaping Reply<State>) {
        reads.read("content_store", of: .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<State, StoreError> in
            State(try connection.execute(Statements.readContentStore)).map { .success($0) }
                ?? .failure(.failed)
        }
    }

    /// Begins a sweep, unless one has begun within the last `seconds`, or the store has a higher generation
    /// than the database.
    package func claimSweep(storeGeneration: Int64, every seconds: Double, reply: @escaping Reply<Claim>) {
        commands.perform("claim_content_sweep", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Claim, StoreError> in
            var parameters = Parameters()
            parameters.append(int64: storeGeneration)
            parameters.append(float64: seconds)
            let rows = try connection.execute(Statements.claimContentSweep, parameters)
            guard rows.rowCount == 1 else { return .failure(.failed) }
            return .success(
                Claim(
                    generation: rows.int64(0, 0), begins: rows.bool(0, 1), nextSeconds: rows.float64(0, 2)))
        }
    }

    /// Takes over the generation of the store. Replies with `nil` if the database has none that is lower.
    package func accept(storeGeneration: Int64, reply: @escaping Reply<State?>) {
        commands.perform("accept_content_store", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<State?, StoreError> in
            var parameters = Parameters()
            parameters.append(int64: storeGeneration)
            return .success(State(try connection.execute(Statements.acceptContentStore, parameters)))
        }
    }

    /// Replies with the indexes of the contents that their owner does not need. `contents`: at most
    /// `contentCountMax`.
    package func unused(_ contents: [Content], reply: @escaping Reply<Set<Int>>) {
        reads.read("unused_contents", of: .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Set<Int>, StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, contents) { $0.append($1.job) }
            parameters.appendArray(.uuid, contents) { $0.append($1.upload) }
            parameters.appendArray(.text, contents) { $0.append(text: $1.key) }
            let rows = try connection.execute(Statements.unusedContents, parameters)
            return .success(Set((0..<rows.rowCount).map { Int(rows.int64($0, 0)) - 1 }))
        }
    }
}

extension ContentStoreCommands.State {
    /// Reads the row of read_content_store.sql; `nil` if there is none.
    fileprivate init?(_ rows: borrowing ResultSet) {
        guard rows.rowCount == 1 else { return nil }
        self.init(generation: rows.int64(0, 0), sweptAt: rows.instantOrNil(0, 1))
    }
}
