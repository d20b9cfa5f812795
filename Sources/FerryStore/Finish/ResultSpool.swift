import FerryCore
import Glibc
import Logging
import Postgres
import Synchronization
import Sys

/// A file in the node's data directory for results of jobs and deliveries that the node could not commit
/// before its end. The next start commits them before it gives back the node's jobs.
///
/// An entry is a statement with the parameters of one job or of some tries. The statements are fenced
/// (finish_jobs.sql): a job that another node has taken stays as it is, and a result that is written twice
/// counts once. One process at a time has the directory, and one thread of it the file.
package struct ResultSpool: Sendable {
    private struct Entry {
        let statement: Statement
        let parameters: Parameters

        init(_ statement: Statement, _ parameters: Parameters) {
            (self.statement, self.parameters) = (statement, parameters)
        }

        init(_ ending: AttemptEnding) { (statement, parameters) = ending.statement }

        var byteCount: Int { parameters.values.reduce(0) { $0 + ($1?.count ?? 0) } }
    }

    /// Numbers of jobs that have their result now (`changed`), and for which the result came too late
    /// (`late`).
    private struct Done { var (changed, late) = (0, 0) }

    /// First text of a file. A file with another one is of another version.
    private static let format = "ferry results 1"
    /// Statements of entries. A file has their texts, because parameters belong to a text.
    private static let statements = [
        Statements.tellJobs, Statements.changeJobs, Statements.finishJobs, Statements.recordTries,
        Statements.countTransfers,
    ]
    /// Statements that return one row for each changed job.
    private static let endings = AttemptEnding.statements
    /// Entries of one transaction, and the bytes after which none is added, so that a transaction does not
    /// take longer than a statement may.
    private static let batchMax = 50
    private static let batchByteCount = 1 << 20

    private let directory: String
    private var path: String { directory + "/uncommitted" }

    /// `directory` belongs to the node and survives restarts.
    package init(directory: String) { self.directory = directory }

    // MARK: Keeping

    /// Writes events and results to stable storage. Returns `false` if it could not, and logs the error.
    func keep(
        _ resumptions: [ResumptionEvent], _ endings: [AttemptEnding], _ transfers: [AttemptTransfer],
        of node: NodeID,
        _ logger: Logger
    ) -> Bool {
        keep(logger) { bytes in
            // Before the results (count_transfers.sql).
            for transfer in transfers {
                let entry = Entry(Statements.countTransfers, .transfers([transfer], of: node))
                Self.encode(entry, into: &bytes)
            }
            for one in resumptions {
                Self.encode(Entry(Statements.tellJobs, .resumptions([one])), into: &bytes)
            }
            for ending in endings {
                if let begin = ending.begin {
                    Self.encode(Entry(Statements.changeJobs, .changes([begin])), into: &bytes)
                }
                Self.encode(Entry(ending), into: &bytes)
            }
        }
    }

    /// Adds tries of deliveries, in the same way. remind_jobs.sql finds acknowledgements that they bring.
    func keep(_ tries: [DeliveryTry], _ logger: Logger) -> Bool {
        keep(logger) { Self.encode(Entry(Statements.recordTries, .tries(tries)), into: &$0) }
    }

    private func keep(_ logger: Logger, _ add: (inout [UInt8]) -> Void) -> Bool {
        do {
            var bytes = try contents() ?? Self.head
            add(&bytes)
            try replacePrivateFile(path, bytes)
            return true
        } catch {
            logger.error("results could not be kept", metadata: ["error": "\(error)"])
            return false
        }
    }

    private static var head: [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendPacked(format)
        bytes.appendPacked(UInt64(statements.count))
        for statement in statements {
            bytes.appendPacked(statement.name)
            bytes.appendPacked(statement.sql)
        }
        return bytes
    }

    private static func encode(_ entry: Entry, into bytes: inout [UInt8]) {
        // No input reaches this: callers choose among the same statements.
        guard let index = statements.firstIndex(where: { $0.name == entry.statement.name }) else {
            preconditionFailure("\(entry.statement.name) writes no result")
        }
        bytes.appendPacked(UInt64(index))
        for value in entry.parameters.values {
            bytes.append(value == nil ? 0 : 1)
            if let value { bytes.appendPacked(bytes: Array(value)) }
        }
    }

    // MARK: Committing

    /// Commits the entries, if there are any, and removes the file. Throws if the database does not take them
    /// now; then they stay. Leaves out entries that the database refuses for good, and logs that: their jobs
    /// run again.
    func commit(
        _ database: ReconnectingConnection, _ context: StoreContext, _ signals: StoreSignals
    ) throws(PostgresError) {
        guard let entries = read(context.logger) else { return }
        var (changed, late) = (0, 0)
        func count(_ done: Done) { (changed, late) = (changed + done.changed, late + done.late) }
        for batch in batches(of: entries) {
            do {
                count(try commit(batch, database))
            } catch {
                guard !mayPass(error) else { throw error }
                for entry in batch { count(try commit(alone: entry, database, context.logger)) }
            }
        }
        unlink(path)
        context.metrics.recordedResults.add(Int64(changed), ordering: .relaxed)
        context.metrics.fencedResults.add(Int64(late), ordering: .relaxed)
        context.logger.notice(
            "results that waited for the database are committed",
            metadata: ["count": "\(changed)", "late": "\(late)"])
        signals.noteDependencies()
        signals.events.written(isWanted: true)
    }

    /// Reads the entries; `nil` if there are none, or none that can be read.
    private func read(_ logger: Logger) -> [Entry]? {
        let bytes: [UInt8]
        do {
            guard let found = try contents() else { return nil }
            bytes = found
        } catch {
            logger.error("kept results cannot be read: their jobs run again", metadata: ["error": "\(error)"])
            return nil
        }
        do {
            return try decode(bytes)
        } catch {
            logger.error("kept results are of another version: their jobs run again")
            unlink(path)
            return nil
        }
    }

    private func contents() throws(SystemError) -> [UInt8]? {
        do {
            return try readFile(path, byteCountMax: .max)
        } catch {
            guard error.code == ENOENT else { throw error }
            return nil
        }
    }

    private func decode(_ bytes: [UInt8]) throws(PackedReader.Damage) -> [Entry] {
        var reader = PackedReader(bytes)
        guard try reader.text() == Self.format else { throw PackedReader.Damage() }
        guard try reader.number(Int.self) == Self.statements.count else { throw PackedReader.Damage() }
        for statement in Self.statements {
            guard try reader.text() == statement.name, try reader.text() == statement.sql else {
                throw PackedReader.Damage()
            }
        }
        var entries: [Entry] = []
        while !reader.isAtEnd {
            let index = try reader.number(Int.self)
            guard Self.statements.indices.contains(index) else { throw PackedReader.Damage() }
            var parameters = Parameters()
            for _ in 0..<Self.statements[index].parameterCount {
                let isThere = try reader.bytes(1) == [1]
                parameters.append(bytea: isThere ? try reader.blob() : nil)
            }
            entries.append(Entry(Self.statements[index], parameters))
        }
        return entries
    }

    private func batches(of entries: [Entry]) -> [ArraySlice<Entry>] {
        var batches: [ArraySlice<Entry>] = []
        var (start, byteCount) = (0, 0)
        for (index, entry) in entries.enumerated() {
            byteCount += entry.byteCount
            let isFull = index - start + 1 == Self.batchMax || byteCount >= Self.batchByteCount
            guard isFull || index == entries.count - 1 else { continue }
            batches.append(entries[start...index])
            (start, byteCount) = (index + 1, 0)
        }
        return batches
    }

    private func commit(
        _ entries: ArraySlice<Entry>, _ database: ReconnectingConnection
    ) throws(PostgresError) -> Done {
        try database.withConnection { connection throws(PostgresError) in
            var results = try connection.pipeline(timeout: .seconds(5)) { pipeline in
                for entry in entries { pipeline.send(entry.statement, entry.parameters) }
            }
            var done = Done()
            for (index, entry) in entries.enumerated() {
                let count = results.take(index).rowCount
                guard Self.endings.contains(entry.statement.name) else { continue }
                done.changed += count
                done.late += 1 - count
            }
            return done
        }
    }

    private func commit(
        alone entry: Entry, _ database: ReconnectingConnection, _ logger: Logger
    ) throws(PostgresError) -> Done {
        do {
            return try commit([entry], database)
        } catch {
            guard !mayPass(error) else { throw error }
            logger.error(
                "a kept result was refused by the database and is left out", metadata: ["error": "\(error)"])
            return Done()
        }
    }

    private func mayPass(_ error: PostgresError) -> Bool {
        error.isConnectionLost || error.isRetryable || error.isShortage
    }
}
