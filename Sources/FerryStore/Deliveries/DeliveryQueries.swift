package import FerryCore
import Postgres
import Synchronization

// Reads of deliveries, and redelivery.
/// Reads deliveries with their tries, and redelivers them. Any thread.
package final class DeliveryQueries: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let jobs: any JobLookup
    private let signals: StoreSignals
    private let holds: DeliveryHolds

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ jobs: any JobLookup, _ signals: StoreSignals,
        _ nodeState: NodeState, _ credits: DeliveryCredits
    ) {
        holds = DeliveryHolds(nodeState: nodeState, credits: credits)
        self.commands = commands
        self.reads = reads
        self.jobs = jobs
        self.signals = signals
    }

    /// Reads a page of the deliveries of a job or an endpoint with their tries, newest first. `state` and
    /// `type` filter them if given.
    package func deliveries(
        of subject: DeliverySubject, tenant: String, state: DeliveryRecord.State? = nil, type: String? = nil,
        before: DeliveryID? = nil, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        let page = DeliveryListReading(
            subject: subject, tenant: tenant, state: state, type: type, limit: limit, before: before ?? .last,
            holds)
        reads.readPage("list_deliveries", of: .tenant(tenant), page, reply)
    }

    /// Like `deliveries(of:)` for a job. Fails with `notFound` for another tenant's job.
    package func deliveries(
        of job: JobID, tenant: String, before: DeliveryID?, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        jobs.job(job, tenant: tenant) { [self] found in
            if case .failure(let error) = found { return reply(.failure(error)) }
            deliveries(of: .job(job), tenant: tenant, before: before, limit: limit, reply: reply)
        }
    }

    /// Reads a delivery with its tries.
    package func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        reads.read("delivery", of: .tenant(tenant), reply) { [holds] connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            let found = DeliveryRecord.all(
                try connection.execute(Statements.readDelivery, parameters), holds)
            return found.first.map { .success($0) } ?? .failure(.notFound)
        }
    }

    /// Makes a delivery due at once, whatever its state is, and reads it.
    package func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        let signals = signals
        let read: Reply<Void> = { [self] result in
            switch result {
            case .success: delivery(id, tenant: tenant, reply: reply)
            case .failure(let error): reply(.failure(error))
            }
        }
        commands.perform("redeliver", read) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            guard try connection.execute(Statements.redeliver, parameters).rowCount == 1 else {
                return .failure(.notFound)
            }
            signals.commitObserver?.deliveriesAdded(1)
            return .success(())
        }
    }
}

/// The job or endpoint whose deliveries are listed.
package enum DeliverySubject: Sendable {
    case job(JobID)
    case webhook(WebhookID)
}

/// State of a page of deliveries that is read in several turns.
private struct DeliveryListReading: ListReading {
    let subject: DeliverySubject
    let tenant: String
    let state: DeliveryRecord.State?
    let type: String?
    let limit: Int
    let holds: DeliveryHolds
    /// Identifier below which the next turn begins.
    var before: DeliveryID
    private var records: [DeliveryRecord] = []
    private var scan = ListScan()
    private(set) var value: ListPage<DeliveryRecord, DeliveryKindTag>?

    init(
        subject: DeliverySubject, tenant: String, state: DeliveryRecord.State?, type: String?, limit: Int,
        before: DeliveryID, _ holds: DeliveryHolds
    ) {
        self.holds = holds
        (self.subject, self.tenant, self.state, self.type) = (subject, tenant, state, type)
        (self.limit, self.before) = (limit, before)
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        let rowCount = scan.turnRowCount
        let rows = try connection.execute(Statements.listDeliveries, parameters(rowCount))
        var stoppedAt: DeliveryID?
        if rows.rowCount > 0, rows.int64(rows.rowCount - 1, 18) == Int64(rowCount) {
            stoppedAt = rows.identifier(rows.rowCount - 1, 0)
        }
        records += DeliveryRecord.all(rows, holds)
        guard records.count < limit, let stoppedAt else {
            return value = ListPage(records)
        }
        before = stoppedAt
        if !scan.add(rowCount) { value = ListPage(records, stoppedAt: stoppedAt) }
    }

    private func parameters(_ rowCount: Int) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: tenant)
        parameters.append(before)
        var (job, webhook): (JobID?, WebhookID?)
        switch subject {
        case .job(let id): job = id
        case .webhook(let id): webhook = id
        }
        parameters.append(job)
        parameters.append(text: state?.rawValue)
        parameters.append(int32: Int32(clamping: limit - records.count))
        parameters.append(webhook)
        parameters.append(text: type)
        parameters.append(int32: Int32(rowCount))
        return parameters
    }
}

/// Reasons for which pending deliveries are held back on this node: operators, and the circuit breakers of
/// its sender.
private struct DeliveryHolds {
    let nodeState: NodeState
    let credits: DeliveryCredits
}

extension DeliveryRecord {
    /// Reads rows of list_deliveries.sql: one for each try, or one that only says how far the list was
    /// scanned.
    fileprivate static func all(_ rows: borrowing ResultSet, _ holds: DeliveryHolds) -> [DeliveryRecord] {
        var all: [DeliveryRecord] = []
        for row in 0..<rows.rowCount where !rows.isNull(row, 1) {
            let delivery = DeliveryRecord(rows, row, holds)
            if all.last?.id != delivery.id { all.append(delivery) }
            if !rows.isNull(row, 12) { all[all.count - 1].tries.append(Try(rows, row)) }
        }
        return all
    }

    private init(_ rows: borrowing ResultSet, _ row: Int, _ holds: DeliveryHolds) {
        let state = State(rawValue: rows.text(row, 9)) ?? .givenUp
        self.init(
            id: rows.identifier(row, 0), event: rows.identifier(row, 1), type: rows.text(row, 2),
            tenant: rows.text(row, 3), session: rows.text(row, 4), job: rows.identifierOrNil(row, 5),
            webhook: rows.identifierOrNil(row, 11), sequence: rows.int64(row, 6),
            occurredAt: rows.instant(row, 7), url: rows.text(row, 8),
            state: state, nextTryAt: state == .pending ? rows.instant(row, 10) : nil)
        guard state == .pending else { return }
        isHeld = holds.nodeState.isHeld.load(ordering: .relaxed)
        pausedUntil = holds.credits.pausedUntil(rows.identifier(row, 19))
    }
}

extension DeliveryRecord.Try {
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            number: rows.int32(row, 12), startedAt: rows.instant(row, 13), duration: rows.float64(row, 14),
            status: rows.int32OrNil(row, 15), error: rows.textOrNil(row, 16),
            responseExcerpt: rows.text(row, 17))
    }
}
