package import FerryCore
import Postgres

/// Creates, reads, closes and deletes groups of jobs. Any thread.
package final class GroupCommands: Sendable {
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

    /// Creates a group, or finds the one that the first request with the same key has created. Fails with
    /// `groupExists` if its name is taken, with `tooManyGroups` if the tenant has
    /// `Limits.jobGroupCountMax` groups.
    package func createGroup(
        _ group: JobGroup, _ idempotency: Submission.Idempotency?, reply: @escaping Reply<Created<JobGroup>>
    ) {
        let context = context
        commands.perform("create_job_group", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Created<JobGroup>, StoreError> in
            var refusal: StoreError?
            do throws(PostgresError) {
                let rows = try connection.execute(
                    Statements.createJobGroup, .new(group, idempotency, context))
                if rows.bool(0, 0) { return .success(Created(group, isReplay: false)) }
                refusal = rows.bool(0, 1) ? .groupExists : .tooManyGroups
            } catch {
                // Another request has inserted the key meanwhile.
                guard idempotency != nil, error.isUniqueViolation else { throw error }
            }
            if let idempotency {
                switch try FirstResponse.read(idempotency, &connection) {
                case .failure(let error): return .failure(error)
                case .success(nil): break
                case .success(let first?):
                    let found = try connection.execute(
                        Statements.readJobGroups, .identifiers([first.id(JobGroupKindTag.self)]))
                    // The group of the first response, as it is now.
                    guard found.rowCount == 1 else { return .failure(.notFound) }
                    return .success(Created(JobGroup(found, 0, context), isReplay: true))
                }
            }
            return .failure(refusal ?? .idempotencyKeyInProgress)
        }
    }

    /// Reads a group with its counts. Fails with `notFound` if the tenant has none with this name.
    package func group(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>) {
        let context = context
        reads.read("job_group", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            try Self.group(name, tenant, &connection, context)
        }
    }

    /// Reads a page of a tenant's groups, newest first.
    package func groups(
        tenant: String, before: JobGroupID?, limit: Int, reply: @escaping Reply<[JobGroup]>
    ) {
        let context = context
        reads.read("job_groups", of: .tenant(tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[JobGroup], StoreError> in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listJobGroups, parameters)
            var groups: [JobGroup] = []
            for row in 0..<rows.rowCount { groups.append(JobGroup(rows, row, context)) }
            return .success(groups)
        }
    }

    /// Returns which of the groups the tenant has, and whether an unfinished job depends on each.
    package func awaitedGroups(
        _ names: [String], tenant: String, reply: @escaping Reply<[String: Bool]>
    ) {
        reads.read("awaited_job_groups", of: .tenant(tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[String: Bool], StoreError> in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.appendArray(.text, names) { $0.append(text: $1) }
            let rows = try connection.execute(Statements.awaitedJobGroups, parameters)
            var groups: [String: Bool] = [:]
            for row in 0..<rows.rowCount { groups[rows.text(row, 0)] = rows.bool(row, 1) }
            return .success(groups)
        }
    }

    /// Closes a group: from now on only retries of its jobs join it. A closed group stays as it is.
    package func closeGroup(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>) {
        let (context, signals) = (context, signals)
        commands.perform("close_job_group", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobGroup, StoreError> in
            let isFound = try connection.transaction { connection throws(PostgresError) in
                var parameters = Parameters.group(name, tenant)
                _ = try connection.execute(Statements.lockJobGroup, parameters)
                parameters.append(context.clock.now())
                return try connection.execute(Statements.closeJobGroup, parameters).rowCount == 1
            }
            guard isFound else { return .failure(.notFound) }
            signals.events.written(isWanted: true)
            return try Self.group(name, tenant, &connection, context)
        }
    }

    /// Deletes a finished group; its jobs stay. Fails with `groupUnfinished` if it is not finished. `holds`
    /// returns `true` if `If-Match` matches the group.
    package func deleteGroup(
        _ name: String, tenant: String, if holds: @escaping @Sendable (JobGroup) -> Bool,
        reply: @escaping Reply<Void>
    ) {
        let context = context
        commands.perform("delete_job_group", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            try connection.transaction { connection throws(PostgresError) -> Result<Void, StoreError> in
                _ = try connection.execute(Statements.lockJobGroup, .group(name, tenant))
                let group: JobGroup
                switch try Self.group(name, tenant, &connection, context) {
                case .failure(let error): return .failure(error)
                case .success(let found): group = found
                }
                let finding = ChangeCheck.allowed(group)
                    .checkingState { $0.state == .finished ? nil : .groupUnfinished }
                    .matching { holds(group) }
                if case .refused(let error) = finding { return .failure(error) }
                _ = try connection.execute(Statements.deleteJobGroup, .group(name, tenant))
                return .success(())
            }
        }
    }

    private static func group(
        _ name: String, _ tenant: String, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> Result<JobGroup, StoreError> {
        let rows = try connection.execute(Statements.readJobGroup, .group(name, tenant))
        guard rows.rowCount == 1 else { return .failure(.notFound) }
        return .success(JobGroup(rows, 0, context))
    }
}

extension Parameters {
    /// Tenant and name of a group.
    fileprivate static func group(_ name: String, _ tenant: String) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: tenant)
        parameters.append(text: name)
        return parameters
    }

    /// The parameters of create_job_group.sql.
    fileprivate static func new(
        _ group: JobGroup, _ idempotency: Submission.Idempotency?, _ context: StoreContext
    ) -> Parameters {
        var parameters = Parameters()
        parameters.append(group.id)
        parameters.append(text: group.tenant)
        parameters.append(group.createdAt)
        parameters.append(text: group.draft.name)
        parameters.append(text: group.draft.encodeStored())
        parameters.append(bytea: group.sealedSecrets)
        parameters.append(text: idempotency?.route)
        parameters.append(text: idempotency?.key)
        parameters.append(bytea: idempotency?.fingerprint)
        parameters.append(context.configuration.node)
        parameters.append(int64: Limits.jobGroupCountMax)
        return parameters
    }
}
