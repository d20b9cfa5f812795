import CPostgres

/// The statements of one implicit transaction while they are added.
///
/// Valid only within the closure of `Connection.pipeline`. Does not own the PGconn. The server executes
/// nothing before the closure ends, but full buffers may be sent earlier.
public struct Pipeline: ~Copyable {
    private enum Slot {
        case preparation(String)
        case execution(String)
        /// Sets how the next statement is planned; its result is dropped.
        case setting(String)
    }

    /// Applies to this transaction only, because other transactions of the session may use generic plans.
    private static let planning = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"

    private let raw: OpaquePointer
    private let statements: StatementCache
    private var slots: [Slot] = []
    private var hasFailed = false

    init(raw: OpaquePointer, statements: StatementCache) {
        self.raw = raw
        self.statements = statements
    }

    /// Adds an execution. Its result has the index of the call, starting at 0. `parameters` can be reused at
    /// once.
    public mutating func send(_ statement: Statement, _ parameters: Parameters = Parameters()) {
        // No input reaches this: a test executes every statement.
        precondition(
            parameters.count == statement.parameterCount,
            "\(statement.name) takes \(statement.parameterCount) parameters and not \(parameters.count)")
        if !statement.usesCustomPlan, !statements.contains(statement) {
            slots.append(.preparation(statement.name))
            statements.insert(statement)
            check(PQsendPrepare(raw, statement.name, statement.sql, 0, nil))
        }
        if statement.usesCustomPlan {
            slots.append(.setting(statement.name))
            check(PQsendQueryParams(raw, Self.planning, 0, nil, nil, nil, nil, 1))
        }
        slots.append(.execution(statement.name))
        execute(statement, parameters)
    }

    private mutating func execute(_ statement: Statement, _ parameters: Parameters) {
        let count = parameters.count
        let code = withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count + 1) {
            values in
            withUnsafeTemporaryAllocation(of: Int32.self, capacity: 2 * count + 1) { numbers in
                parameters.bytes.withUnsafeBytes { bytes in
                    for (index, entry) in parameters.entries.enumerated() {
                        // libpq treats a null pointer as NULL, so an empty value needs a non-null address.
                        let start = bytes.baseAddress ?? UnsafeRawPointer(values.baseAddress)
                        let value = start.map { ($0 + entry.offset).assumingMemoryBound(to: CChar.self) }
                        values.initializeElement(at: index, to: entry.byteCount < 0 ? nil : value)
                        numbers.initializeElement(at: index, to: max(entry.byteCount, 0))
                        numbers.initializeElement(at: count + index, to: 1)
                    }
                    let formats = numbers.baseAddress.map { $0 + count }
                    if statement.usesCustomPlan {
                        return statement.sql.withCString {
                            PQsendQueryParams(
                                raw, $0, Int32(count), nil, values.baseAddress, numbers.baseAddress, formats,
                                1)
                        }
                    }
                    return statement.name.withCString {
                        PQsendQueryPrepared(
                            raw, $0, Int32(count), values.baseAddress, numbers.baseAddress, formats, 1)
                    }
                }
            }
        }
        check(code)
    }

    private mutating func check(_ code: Int32) {
        if code != 1 { hasFailed = true }
    }

    /// Ends the transaction and collects all results up to the synchronisation point. Sets `isInStep` to
    /// `true` if that point was reached. Otherwise later results belong to this pipeline, and the caller must
    /// close the connection, whatever the error.
    consuming func finish(
        _ wait: ResultWait, isInStep: inout Bool
    ) throws(PostgresError) -> PipelineResults {
        guard !hasFailed, PQpipelineSync(raw) == 1 else {
            throw PostgresError(.connectionLost, message: Connection.message(of: raw))
        }
        var results = PipelineResults()
        var failure: PostgresError?
        var index = 0
        do {
            while let result = try wait.nextResultOfPipeline() {
                let slot = index < slots.count ? slots[index] : nil
                index += 1
                let error = accept(result, slot, &results)
                failure = failure ?? error
            }
        } catch {
            throw failure ?? error
        }
        isInStep = true
        if let failure { throw failure }
        return results
    }

    /// Keeps or frees one result. Returns its error, or `nil`.
    private func accept(
        _ result: OpaquePointer, _ slot: Slot?, _ results: inout PipelineResults
    ) -> PostgresError? {
        let status = PQresultStatus(result)
        if status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK {
            if case .execution = slot { results.append(result) } else { PQclear(result) }
            return nil
        }
        defer { PQclear(result) }
        var name: String?
        switch slot {
        case .preparation(let statement):
            statements.remove(statement)
            name = statement
        case .execution(let statement), .setting(let statement): name = statement
        case nil: break  // The commit failed.
        }
        return status == PGRES_PIPELINE_ABORTED ? nil : PostgresError(result: result, statement: name)
    }
}

/// Results of a committed pipeline in the order of the `send` calls. Owns the PGresults that were not taken.
public struct PipelineResults: ~Copyable {
    private var raws: [OpaquePointer?] = []

    init() {}

    deinit {
        for raw in raws { PQclear(raw) }
    }

    /// Number of statements that were sent.
    public var count: Int { raws.count }

    /// Returns the result of the `send` call with this index, which the caller then owns. Call once for each
    /// index.
    public mutating func take(_ index: Int) -> ResultSet {
        // No input reaches this: the caller counts its own statements.
        guard let raw = raws[index] else { preconditionFailure("result \(index) was taken before") }
        raws[index] = nil
        return ResultSet(owning: raw)
    }

    mutating func append(_ raw: OpaquePointer) { raws.append(raw) }
}

extension PostgresError {
    /// Creates the error from an error result.
    init(result: OpaquePointer, statement: String?) {
        func field(_ code: Character) -> String? {
            PQresultErrorField(result, Int32(code.asciiValue ?? 0)).map { String(cString: $0) }
        }
        var message = field("M") ?? PQresultErrorMessage(result).map { String(cString: $0) } ?? ""
        if let detail = field("D") { message += ": \(detail)" }
        let state = field("C")
        // An error without SQLSTATE comes from libpq: the connection is lost. With these severities the
        // server has ended the session: a shutdown, an operator, or a transaction that was idle for too long.
        let isOver = state == nil || ["FATAL", "PANIC"].contains(field("V"))
        self.init(
            isOver ? .connectionLost : .statementFailed, sqlState: state, constraint: field("n"),
            statement: statement, message: message)
    }
}
