import Postgres

@testable import FerryStore

/// A statement as a connection of the store executes it in the database of `LongHistory`, with arguments for
/// which it finds rows.
struct PlanCall {
    /// The connections, whose settings decide about plans.
    enum Role: CaseIterable {
        /// Of one thread each; they change rows.
        case writer
        /// The thread of commands.
        case command
        /// Reads of clients.
        case read
        /// The thread of bulk operations.
        case bulk
        /// Without settings.
        case plain

        var options: ConnectionOptions {
            var options = ConnectionOptions()
            switch self {
            case .writer: options.pinsPlans = true
            case .command: CommandQueue.adjust(&options)
            case .read: ReadPool.adjust(&options)
            case .bulk: BulkOperationRunner.adjust(&options)
            case .plain: break
            }
            options.statementTimeout = nil
            options.idleInTransactionTimeout = nil
            options.resultTimeout = .seconds(120)
            options.settings += [
                .init("ferry.shard", "test"), .init("ferry.claim_queues", "-1,-2"),
                .init("ferry.permits", "-1,-2;1,1"),
            ]
            return options
        }
    }

    let role: Role
    let statement: Statement
    /// In SQL.
    let arguments: String
    /// Rows that the statement looks at, where these are more than it returns or changes.
    let rowCount: Int
    /// Description of the rows of `rowCount`; `nil` if the statement looks at no others.
    let reason: String?

    private init(
        _ role: Role, _ statement: Statement, _ arguments: String, _ rowCount: Int, _ reason: String?
    ) {
        (self.role, self.statement, self.arguments) = (role, statement, arguments)
        (self.rowCount, self.reason) = (rowCount, reason)
    }

    private static func writer(
        _ statement: Statement, _ arguments: String = "", looksAt count: Int = 0, _ reason: String? = nil
    ) -> PlanCall { PlanCall(.writer, statement, arguments, count, reason) }

    private static func command(
        _ statement: Statement, _ arguments: String = "", looksAt count: Int = 0, _ reason: String? = nil
    ) -> PlanCall { PlanCall(.command, statement, arguments, count, reason) }

    private static func read(
        _ statement: Statement, _ arguments: String = "", looksAt count: Int = 0, _ reason: String? = nil
    ) -> PlanCall { PlanCall(.read, statement, arguments, count, reason) }

    private static func bulk(
        _ statement: Statement, _ arguments: String = "", looksAt count: Int = 0, _ reason: String? = nil
    ) -> PlanCall { PlanCall(.bulk, statement, arguments, count, reason) }

    private static func plain(_ statement: Statement) -> PlanCall { PlanCall(.plain, statement, "", 0, nil) }

    /// Statements that change the schema: they have no plan.
    static let withoutPlan: Set<String> = ["add_history", "detach_history", "drop_history"]

    /// Statements that read a whole table or partition, and why that is right.
    static let whole: [String: String] = [
        "check_rows": "verifies each row, when an operator asks for it",
        "count_tenants": "counts the unfinished jobs of each tenant, at most every few seconds",
        "finish_job_groups": "calls a function, whose plans are not shown",
        "free_session_count": "reads views of the server",
        "late_history": "reads a partition once, before it is dropped",
        "read_health": "reads views of the server",
        "read_history": "reads the catalog",
    ]

    /// All calls, in the order of the folders of `Sources/FerryStore`.
    static let all =
        admin + bulkOperations + claim + connection + contentStore + cookies + deliveries
        + events + groups + uploads + finish + hosts + jobs
        + leases + quotas + retention
        + schedules + schema + sessions + submit + waiting

    private static let changeArguments = """
        ARRAY[history_id(4200001), history_id(4200002)], '{1,1}', '{NULL,NULL}', '{running,running}',
        '{queued,queued}', '{NULL,NULL}', '{5,5}', '{0,0}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}',
        '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}',
        '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}'
        """

    private static let finishArguments = """
        ARRAY[history_id(4200001), history_id(4200002)], '{1,1}', '{1,1}', '{succeeded,succeeded}',
        '{0,0}', '{NULL,NULL}', '{"{}","{}"}', '{NULL,NULL}', '{NULL,NULL}', '{now,now}',
        ARRAY[history_id(1), history_id(2)], '{a,a}', '{NULL,NULL}', '{NULL,NULL}', '{}', '{}', '{}',
        '{}', '{NULL,NULL}', '{NULL,NULL}', '{1,NULL}', '{NULL,1}'
        """

    private static let submitArguments = """
        ARRAY[history_id(7000000)], '{acme}', '{default}', '{download}', '{0}', '{0.5}', '{NULL}',
        '{now}', '{https://a.example:443}', '{NULL}', '{NULL}', '{"{}"}', '{NULL}', '{NULL}', '{NULL}',
        now(), history_id(1), '{NULL}', '{NULL}', '{1}', '{now}', '{acme}', '{default}', '{a}',
        1000, '{false}', '{""}', '{true}', '{true}', '{acme}', '{night}', '{0}', ARRAY[history_id(7000001)],
        '{1}', 100000, '{a}'
        """

    private static let admin: [PlanCall] = [
        read(Statements.allKeys),
        command(
            Statements.beginAudit,
            """
            history_id(7000000), now(), history_id(1), 'pause', '/v1/pause', 'request'
            """),
        command(Statements.changeDrain, "history_id(1), true"),
        command(Statements.changePause, "true, true"),
        command(Statements.changeSetting, "'window', 'a', 'b'"),
        plain(Statements.countTenants),
        command(
            Statements.createKey,
            """
            history_id(7000000), 'acme', 'client', 'key', 'hash', now(), 'acme', 'keys', 'new', 'fingerprint',
            'sealed', history_id(1)
            """),
        command(Statements.endAudit, "history_id(100), 200, '{}'"),
        writer(Statements.foldCounts, "3600"),
        read(Statements.listAudit, "history_id(15000), 50"),
        read(Statements.listKeys, "history_id(15000), 50"),
        command(Statements.putSetting, "'name', 'value'"),
        command(Statements.readFirstKey, "'acme', '5001'"),
        read(Statements.readKey, "history_id(100)"),
        read(Statements.readOperations, "history_id(1), now()"),
        read(Statements.readSetting, "'window'"),
        read(Statements.readStatus, "0, 200, NULL"),
        writer(Statements.removeOldAudit, "1e9, 19900"),
        command(Statements.revokeKey, "history_id(100)"),
        writer(Statements.setSetting, "'name', 'value'"),
    ]

    private static let bulkOperations: [PlanCall] = [
        bulk(
            Statements.advanceBulkOperation,
            "history_id(20001), 'running', 1, 1, '{}', history_id(1), now(), NULL"),
        command(Statements.cancelBulkOperation, "history_id(20001), 'acme', now()"),
        bulk(
            Statements.claimBulkOperation, "now(), 100", looksAt: 1000, "identifiers of the operation"),
        command(
            Statements.createBulkOperation,
            """
            history_id(7000000), 'acme', now(), 'cancel', false, '{}', NULL, history_id(7000000), 'trace',
            'cancel', 'new bulk', 'fingerprint', history_id(1), 100
            """, looksAt: 100, "running operations of the tenant"),
        read(Statements.listBulkOperations, "'acme', history_id(9000000), 51"),
        bulk(Statements.lockRetries, "'acme'"),
        bulk(Statements.nextBulkOperation),
        bulk(Statements.postponeBulkOperation, "history_id(20001), now()"),
        read(
            Statements.readBulkOperation, "history_id(100), 'acme'",
            looksAt: 2, "the row, and its list of identifiers, which is stored apart"),
        bulk(
            Statements.readRetrySources, "ARRAY[history_id(1), history_id(500000), history_id(500001)]"),
        writer(Statements.removeOldBulkOperations, "60, 50"),
        bulk(Statements.changeJobs, changeArguments),
        bulk(Statements.finishJobs, finishArguments),
        bulk(Statements.submitJobs, submitArguments),
        bulk(
            Statements.listJobs,
            """
            'acme', history_id(9000000), NULL, NULL, NULL, NULL, NULL, NULL, 1000, NULL, NULL, NULL, NULL,
            1000, false, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL
            """),
        bulk(Statements.lockSuspendedJobs, "ARRAY[history_id(4400001)], '{1}'"),
        bulk(Statements.readJobs, "ARRAY[history_id(1), history_id(500000), history_id(4400001)], false"),
        bulk(Statements.knownJobs, "ARRAY[history_id(1), history_id(500000), history_id(4400001)], 'acme'"),
    ]

    private static let claim: [PlanCall] = [
        writer(
            Statements.claimJobs,
            """
            '{1}', '{50}', history_id(1), now(), false, false, false, '{-infinity}', 15, '{false}', '{NULL}',
            200
            """),
        writer(Statements.claimLimitedJobs, "history_id(1), now(), false, false, false"),
        writer(
            Statements.divertJobs, "'{1}', '{true}', 50",
            looksAt: 50, "jobs of the claim queue that it looks at"),
        writer(Statements.divertRunning, "history_id(1), '{2}'"),
        writer(
            Statements.findClaimQueues,
            """
            '{acme,backlog}', '{default,queue 7}', '{"",""}', '{NULL,NULL}', '{"",""}'
            """),
        writer(Statements.heldJobs, "history_id(1)"),
        writer(Statements.lockDueJobs, "50"),
        writer(Statements.lockClaimQueues, "'{-1,-2,-3}'", looksAt: 3, "claim queues, returned as one text"),
        writer(Statements.lockOldClaimQueues, "0, 50", looksAt: 50, "claim queues, returned as one text"),
        writer(
            Statements.lockUnreachableJobs, "'{-9,-19,-29}', 50",
            looksAt: 6, "jobs of the claim queues that it looks at"),
        writer(Statements.scanClaimQueues, "-600, 100, history_id(1), 15"),
        writer(Statements.restoreClaimQueues, "'{-1}', 50"),
        writer(Statements.nextDue),
        writer(Statements.removeOldClaimQueues),
        writer(
            Statements.readClaimBounds, "'{1}', '{-infinity}', 200",
            looksAt: 201, "jobs that a claim may step over"),
    ]

    private static let connection: [PlanCall] = [
        writer(Statements.notify, "'ferry'"),
        writer(Statements.setShard, "'shard'"),
        writer(Statements.tryLock, "1"),
    ]

    private static let contentStore: [PlanCall] = [
        command(Statements.acceptContentStore, "7"),
        command(Statements.claimContentSweep, "0, 3600"),
        read(Statements.readContentStore),
        read(
            Statements.unusedContents,
            """
            ARRAY[history_id(1), history_id(4200001), history_id(9000000), NULL],
            ARRAY[NULL, NULL, NULL, history_id(1)], '{a,NULL,a,a}'
            """),
    ]

    private static let deliveries: [PlanCall] = [
        writer(
            Statements.addDeliveries,
            """
            ARRAY[history_id(7000000)], ARRAY[history_id(1)], ARRAY[history_id(1)], '{1}', '{now}',
            '{job.succeeded}', '{acme}', '{default}', '{https://hook.example/}', '{"{}"}', '{NULL}', '{NULL}',
            ARRAY[history_id(5)], '{true}', '{false}', 30, history_id(1)
            """),
        writer(
            Statements.addSessionReceivers,
            """
            '{backlog}', '{session 1}', '{https://new.example/}', ARRAY[history_id(1)], '{1}', '{NULL}',
            '{NULL}'
            """),
        writer(
            Statements.claimDeliveries,
            """
            50, 30, ARRAY[history_id(16001), history_id(16002)], '{64,64}', '{false,false}', history_id(1),
            16384
            """),
        command(
            Statements.createWebhook,
            """
            history_id(7000000), 'new', now(), 'https://hook.example/', NULL, NULL, NULL, NULL, true, false,
            'standard', '{1}', 1, 'key', 'keys', 'webhooks', 'new', 'fingerprint', history_id(1), 100, NULL,
            NULL, false, NULL, true
            """),
        command(Statements.deleteWebhook, "history_id(500), 1"),
        command(
            Statements.editWebhook,
            """
            history_id(500), 1, 'https://hook.example/', NULL, NULL, NULL, NULL, true, false, 'standard',
            '{1}', 1, 'key', 'keys', NULL, NULL, true, NULL
            """),
        writer(Statements.expireDeliveries, "history_id(900000), 50, history_id(500000)"),
        writer(Statements.hashReceiverQueues, "'{acme}', '{https://hook.example/}'"),
        read(
            Statements.listDeliveries,
            """
            'acme', history_id(9000000), NULL, NULL, 51, history_id(6), NULL, 1000
            """),
        read(Statements.listWebhooks, "'other', history_id(9000000), 51"),
        command(
            Statements.pingWebhook,
            """
            history_id(500), 'other', history_id(7000000), history_id(7000000), now(), NULL
            """),
        read(Statements.readDelivery, "history_id(500001), 'acme'"),
        command(Statements.readFirstWebhook, "'acme', '5001'"),
        writer(Statements.readInterests, "'{other}'"),
        writer(Statements.readReceiverQueues, "'00000000-0000-0000-0000-000000000000', 1000"),
        read(Statements.readWebhook, "history_id(500), 'other'"),
        writer(
            Statements.recordTries,
            """
            ARRAY[history_id(6000001), history_id(6000002)], '{0,0}', '{now,now}', '{1,1}', '{200,500}',
            '{NULL,NULL}', '{a,a}', '{accepted,pending}', '{NULL,now}'
            """),
        command(Statements.redeliver, "history_id(500001), 'acme'"),
        writer(Statements.removeOldDeliveries, "history_id(0), 50"),
        command(Statements.replayDeliveries, "history_id(5), history_id(0), '-infinity', NULL, false, 50"),
        writer(
            Statements.takeBackDeliveries, "history_id(1), 30",
            looksAt: 20, "receiver queues with pending deliveries"),
        writer(Statements.takeSessionReceivers, "'{backlog}', '{session 1}', 1, 1, 50, ''"),
    ]

    private static let events: [PlanCall] = [
        read(Statements.followEvents, "history_id(500000), 'acme', NULL, 50"),
        read(Statements.hasEvent, "history_id(500001)"),
        writer(Statements.hasEvents, "0, false"),
        read(Statements.hasUnnumberedEvents, "'backlog', history_id(1)"),
        read(Statements.jobEvents, "'acme', 'default', history_id(500001), ARRAY[to_timestamp(1700500001)]"),
        writer(
            Statements.keepEvents,
            """
            ARRAY[history_id(7000000)], '{1}', '{now}', '{now}', '{1}', '{acme}', '{default}', '{a}',
            ARRAY[history_id(1)], '{1}', '{NULL}'
            """),
        writer(Statements.lastEvent),
        writer(Statements.tryLockRelay, "1"),
        read(Statements.listEvents, "'acme', history_id(9000000), NULL, -1, NULL, 50, NULL, 1000"),
        writer(Statements.numberEvents, "'{backlog}', '{session 5}', '{1}', '{1}', '{false}', '{now}'"),
        writer(Statements.putBackEvents, "'{100000}', '{acme}', '{default}', '{a}', '{NULL}'"),
        writer(Statements.rejectEvents, "'error', true, '{}'"),
        writer(Statements.removeOldEvents, "1e6, 50"),
        writer(Statements.takeEvents, "50, 1000000, 0, '{}', NULL"),
        writer(Statements.finishJobGroups, "ARRAY[history_id(1)], now()"),
        writer(Statements.readJobGroups, "ARRAY[history_id(1)]"),
    ]

    private static let groups: [PlanCall] = [
        read(Statements.awaitedJobGroups, "'acme', '{night}'"),
        command(Statements.closeJobGroup, "'acme', 'night', now()"),
        command(
            Statements.createJobGroup,
            """
            history_id(7000000), 'acme', now(), 'new', '{}', NULL, 'groups', 'new', 'fingerprint',
            history_id(1), 100000
            """),
        command(Statements.deleteJobGroup, "'acme', 'night'"),
        read(Statements.listJobGroups, "'acme', history_id(9000000), 51"),
        command(Statements.lockJobGroup, "'acme', 'night'"),
        read(Statements.readJobGroup, "'acme', 'night'"),
        writer(Statements.removeOldJobGroups, "1e9, 50"),
    ]

    private static let uploads: [PlanCall] = [
        command(Statements.advanceUpload, "history_id(5), 10, NULL, now()"),
        command(Statements.completeUpload, "history_id(5), 10, '\\x00', now()"),
        command(
            Statements.createUpload,
            """
            history_id(7000000), now(), now(), history_id(1), 10, 'acme', 'new', NULL, NULL, '', NULL, NULL,
            100000
            """, looksAt: 100, "uploads, which are counted because their number is limited"),
        command(Statements.deleteUpload, "'acme', history_id(5), false"),
        read(Statements.knownUploads, "ARRAY[history_id(5)]"),
        read(Statements.listLocalUploads, "history_id(1), now(), 50, history_id(5)"),
        read(Statements.listUploads, "'acme', history_id(9000000), 51, NULL, NULL, NULL, NULL, NULL"),
        read(Statements.listUploads, "'acme', history_id(9000000), 51, false, NULL, NULL, NULL, NULL"),
        read(Statements.listUploads, "'acme', history_id(9000000), 51, NULL, 'upload 5', NULL, NULL, NULL"),
        command(Statements.moveUpload, "history_id(5), 'uploads/a'"),
        command(Statements.prepareUploads, "'acme', ARRAY[history_id(5)], '{upload 6}'"),
        read(Statements.readNamedUpload, "'acme', 'upload 5'"),
        read(Statements.readUpload, "'acme', history_id(5)"),
        command(Statements.removeExpiredUploads, "history_id(1), now(), 50"),
        command(
            Statements.restartUpload, "history_id(5), history_id(1), now(), 10, NULL, NULL, '', NULL, NULL"),
    ]

    private static let finish: [PlanCall] = [
        writer(Statements.finishJobs, finishArguments),
        command(Statements.finishJobs, finishArguments),
        writer(Statements.nextExpiry),
        writer(Statements.tellJobs, "ARRAY[history_id(4200001)], '{1}', '{now}', '{7}', '{now}'"),
    ]

    private static let hosts: [PlanCall] = [
        writer(
            Statements.createHosts, "'{https://new.example:443}', '{10000}'",
            looksAt: 1051, "hosts, which are counted because their number is limited"),
        writer(Statements.forgetHosts, "'{https://500.example:443}'"),
        writer(
            Statements.grantConnections,
            "'{-1}', '{6}', '{-1}', ARRAY[history_id(4200010)], '{1}', '{\"\"}', history_id(1), 15",
            looksAt: 10, "connections to the origin"),
        writer(
            Statements.keepDecisions, "'{https://500.example:443}', '{\"{}\"}', 50",
            looksAt: 51, "decisions that stay"),
        read(Statements.listHosts, "'', 51, 20", looksAt: 2700, "running jobs, and decisions of the hosts"),
        writer(Statements.loadHosts, "10000"),
        writer(
            Statements.lockHosts, "'{https://500.example:443}', now(), 10, 10",
            looksAt: 1200, "running jobs, of which the slots of all nodes are the limit"),
        writer(
            Statements.countHostJobs, "'https://away-2.example:443', 'host.unreachable', '{acme}'",
            looksAt: 1_700, "running jobs, and jobs that wait for the host"),
        writer(Statements.tellHosts, "'{acme}', '{x}'"),
        writer(Statements.lockWaitingJobs, "'https://away-2.example:443', 50"),
        writer(Statements.putThroughputs, "'{https://500.example:443}', '{1}', now()"),
        read(Statements.readHost, "'https://50.example:443', 20", looksAt: 1700, "running jobs"),
        writer(Statements.readHostLimits, "10000, now()"),
        read(Statements.readHostLimits, "10000, now()"),
        writer(
            Statements.readPermits, "'{-1,-2}', '{5,5}', '{6,6}', history_id(1), 15",
            looksAt: 20, "connections to the origins"),
        writer(Statements.readThroughputs, "1000"),
        writer(Statements.removeOldThroughputs, "now(), 50"),
        writer(Statements.returnPermits, "history_id(1)"),
        writer(
            Statements.saveHostLimits,
            """
            '{https://500.example:443}', '{https://500.example:443}', '{""}', '{""}', '{5}', '{NULL}',
            '{NULL}'
            """),
        writer(
            Statements.saveHosts,
            """
            '{https://500.example:443}', '{"{}"}', '{now}', '{NULL}', '{NULL}', '{false}'
            """),
        writer(Statements.strandedHosts, "10", looksAt: 26, "hosts that jobs wait for"),
        writer(Statements.sweepConnections, "50"),
        writer(Statements.takePermits, "history_id(1), 15"),
        writer(
            Statements.writeConnections,
            """
            '{https://500.example:443}', ARRAY[history_id(4200001)], '{1}', '{backlog}', '{default}', '{1}',
            '{""}'
            """),
    ]

    private static let jobs: [PlanCall] = [
        command(Statements.acknowledgeJobs, "ARRAY[history_id(1), history_id(11)], '{NULL,NULL}', now()"),
        writer(Statements.changeJobs, changeArguments),
        command(Statements.changeJobs, changeArguments),
        command(Statements.deleteJob, "history_id(502), 3, NULL"),
        command(
            Statements.editSpec,
            """
            history_id(4400001), '{}', NULL, 0.5, now(), 'https://new.example:443', 2, now(), false,
            false, NULL, '', true, true, false, NULL, true
            """),
        read(
            Statements.listJobs,
            """
            'acme', history_id(9000000), NULL, NULL, NULL, NULL, NULL, NULL, 51, NULL, NULL, NULL, NULL, 1000,
            false, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL
            """),
        read(
            Statements.listJobs,
            """
            'acme', history_id(9000000), NULL, NULL, NULL, NULL, NULL, NULL, 51, NULL, NULL, NULL, NULL, 1000,
            false, false, NULL, NULL, NULL, NULL, NULL, NULL, 'night'
            """),
        command(Statements.lockSuspendedJobs, "ARRAY[history_id(4400001)], '{1}'"),
        read(Statements.readAttempts, "history_id(500000), 'acme'"),
        read(Statements.readEarlierSpecs, "ARRAY[history_id(1), history_id(500001)], '{1,1}'"),
        read(Statements.readJobs, "ARRAY[history_id(1), history_id(500000), history_id(4400001)], true"),
        read(
            Statements.readRemovableFiles, "ARRAY[history_id(1), history_id(500000), history_id(4400001)], 60"
        ),
        command(Statements.releaseAbandonedUpload, "history_id(20000)"),
        writer(Statements.remindJobs, "now(), 50"),
    ]

    private static let leases: [PlanCall] = [
        writer(Statements.checkLeases, "history_id(2), ARRAY[history_id(4200001), history_id(4200003)]"),
        writer(Statements.heartbeat, "history_id(1), 'node', '1', now(), 1, false, true, 30, NULL, NULL"),
        writer(Statements.lockHeartbeat, "1"),
        writer(Statements.lockJobsOfDeadNodes, "ARRAY[history_id(2)], '{2026-01-01}', 50, false"),
        writer(
            Statements.markRequests,
            "history_id(2), ARRAY[history_id(4200001), history_id(4200003)], ARRAY[1, 1], '{NULL,NULL}'"),
        writer(Statements.takeOverUpload, "history_id(2), history_id(4200001), 1, history_id(20000)"),
        writer(Statements.lockJobsOfNode, "history_id(1)"),
        writer(Statements.waitForLock, "1"),
        writer(Statements.readHealth),
        writer(Statements.readHeartbeats, "history_id(1)"),
        read(Statements.readNodes, "15"),
        read(Statements.readPeer, "history_id(1)"),
        writer(Statements.removeFormerNodes, "7776000"),
        writer(Statements.removeNode, "history_id(3)"),
    ]

    private static let quotas: [PlanCall] = [
        writer(Statements.countTenantJobs, "'{tenant-7}'"),
        writer(
            Statements.countTransfers,
            "history_id(1), ARRAY[history_id(4200001), history_id(4200002)], '{1,1}', '{acme,acme}', "
                + "'{1,1}'"),
        writer(
            Statements.endedJobs, "ARRAY[history_id(1), history_id(4200001)]",
            looksAt: 2, "jobs that have ended are not found"),
        writer(Statements.listTenantLimits, looksAt: 40, "tenants with limits, and their sums"),
        read(Statements.readTenantLimits, "'tenant-7'"),
        writer(Statements.sumStoredBytes, "'{tenant-7}'"),
        writer(Statements.removeOldTransfers, "200000, 50"),
        command(Statements.replaceTenantLimits, "'tenant-7', 5, NULL, NULL, NULL, 7, 1000, NULL, NULL"),
    ]

    private static let retention: [PlanCall] = [
        writer(Statements.claimAbandonedUploads, "16"),
        writer(Statements.forgetAbandonedUploads, "ARRAY[history_id(1), history_id(2)]"),
        writer(Statements.expiredJobs, "50"),
        writer(Statements.hasEventsUntil, "10"),
        writer(Statements.lateHistory, "'finished_jobs_018c46826580', now(), 50"),
        writer(Statements.oldDefaultJobs, "'acme', history_id(900000), now(), 50, history_id(500000)"),
        writer(Statements.oldJobs, "history_id(900000), now(), 50, history_id(500000)"),
        writer(Statements.oldRestJobs, "now(), 50, history_id(0)"),
        writer(
            Statements.oldSessionJobs, "'acme', 'rare', history_id(900000), now(), 50, history_id(500000)"),
        writer(Statements.readHistory),
        writer(Statements.removeJobs, "ARRAY[history_id(202), history_id(203), history_id(204)], now()"),
        writer(Statements.removeOldKeys, "0, 50"),
    ]

    private static let schedules: [PlanCall] = [
        writer(
            Statements.advanceSchedules,
            """
            ARRAY[history_id(1)], '{now}', '{now}', '{false}', '{now}', ARRAY[history_id(1)], '{0}', '{0}',
            now(), '{NULL}'
            """),
        command(
            Statements.createSchedule,
            """
            history_id(7000000), 'acme', now(), now(), now(), false, '{}', '{}', '{}', '{}', NULL, NULL,
            'schedules', 'new', 'fingerprint', history_id(1), ARRAY[history_id(5)], '{}'
            """),
        command(Statements.deleteSchedule, "history_id(1), 'acme', NULL"),
        writer(Statements.dropLocks),
        writer(Statements.dueSchedules, "50, now(), 1000000"),
        writer(Statements.holdLock, "1"),
        writer(Statements.insertRuns, "ARRAY[history_id(1)], '{now}', ARRAY[history_id(1)], '{0}'"),
        read(Statements.listSchedules, "'other', history_id(9000000), 51"),
        command(Statements.lockSchedule, "history_id(1)"),
        writer(Statements.nextSchedule),
        command(Statements.noteRun, "history_id(1), now(), history_id(1)"),
        writer(Statements.postponeSchedule, "history_id(1), now()"),
        read(Statements.readSchedule, "history_id(1), 'acme'"),
        command(
            Statements.replaceSchedule,
            """
            history_id(1), 1, now(), now(), now(), false, '{}', '{}', '{}', '{}', NULL, NULL,
            ARRAY[history_id(5)], '{}'
            """),
        writer(Statements.sweepRuns, "history_id(500000), 50"),
        writer(
            Statements.unfinishedRuns, "ARRAY[history_id(0)], 50",
            looksAt: 53, "runs of the schedule, of which the argument is the limit, and twice the last one"),
    ]

    private static let cookies: [PlanCall] = [
        read(Statements.changedCookies, "'{backlog,backlog}', '{session 15,session 16}', '{0,29}'"),
        writer(
            Statements.storeCookies,
            """
            '{backlog,backlog}', '{session 15,session 16}', '{2026-01-01,2026-01-01}', '{a,b}', '{NULL,c}',
            '{NULL,NULL}', now()
            """),
    ]

    private static let schema: [PlanCall] = [
        plain(Statements.checkRows),
        plain(Statements.freeSessionCount),
    ]

    private static let sessions: [PlanCall] = [
        writer(Statements.cancelSessions, "50"),
        read(Statements.changedCredentials, "990"),
        read(Statements.changedSessions, "990"),
        command(
            Statements.countCredentials, "'backlog', 'session 500'",
            looksAt: 2000, "credentials, which are counted because their number is limited"),
        read(
            Statements.countDefaultJobs, "'acme', 1000",
            looksAt: 1000, "jobs that are counted, of which the argument is the limit"),
        read(
            Statements.countSessionJobs, "'backlog', 'often', 1000",
            looksAt: 1000, "jobs that are counted, of which the argument is the limit"),
        command(
            Statements.countSessions, "'backlog'",
            looksAt: 1004, "sessions, which are counted because their number is limited"),
        command(Statements.deleteCredential, "'backlog', 'session 500', 'one', 1"),
        command(Statements.deleteSession, "'backlog', 'session 1', 1"),
        writer(Statements.drainSessions, "'{backlog}', '{session 1}', 0, now()"),
        writer(Statements.drainedSessions, "'', '', 50"),
        writer(Statements.endSessions, "now(), 10"),
        command(Statements.flushSession, "'backlog', 'session 500', now()"),
        command(Statements.invalidateSession, "'backlog', 'session 500', 1, 'finish', now(), '{}'"),
        read(Statements.listCredentials, "'backlog', 'session 500', 'one', 51"),
        read(Statements.listSessions, "'acme', 'session 5', 51"),
        command(Statements.lockSessionEpoch),
        command(
            Statements.putCredential, "'backlog', 'session 500', 'one', 1, true, '{}', '\\x00', now()"),
        command(Statements.putSession, "'backlog', 'session 500', 1, '{}', NULL, now(), true"),
        read(Statements.readCredential, "'backlog', 'session 500', 'one'"),
        read(Statements.readSession, "'acme', 'session 5'"),
        writer(Statements.readSessionEpoch),
        command(Statements.removeCredentials, "'backlog', 'session 501'"),
    ]

    private static let submit: [PlanCall] = [
        writer(
            Statements.addDependencies,
            """
            ARRAY[history_id(4000003)], ARRAY[history_id(2000001)], ARRAY[history_id(2000001)],
            ARRAY[history_id(4000003)], '{acme}', '{night}', ARRAY[history_id(4000003)],
            ARRAY[history_id(5)]
            """),
        writer(Statements.addUploadJobs, "ARRAY[history_id(5)], ARRAY[history_id(4000003)]"),
        writer(
            Statements.keepSubmissionKeys,
            """
            '{0}', '{acme}', '{jobs}', '{new}', '{a}', '{NULL}', '{0}', ARRAY[history_id(7000000)],
            '{queued}', '{NULL}', history_id(1), now()
            """),
        read(Statements.knownJobs, "ARRAY[history_id(1), history_id(500000), history_id(4400001)], NULL"),
        writer(Statements.lockUniqueKeys, "'{acme,acme}', '{one,two}'"),
        writer(Statements.readUniqueJobs, "'{acme,acme}', '{one,two}', '{NULL,now}'"),
        writer(Statements.readKeys, "'{0}', '{acme}', '{5001}'"),
        read(Statements.readKeys, "'{0}', '{acme}', '{5001}'"),
        writer(Statements.markRetried, "ARRAY[history_id(2000001), history_id(2001001)], 'finished'"),
        writer(Statements.submitJobs, submitArguments),
        writer(
            Statements.submitKeyedJobs,
            """
            ARRAY[history_id(7000000)], '{acme}', '{default}', '{download}', '{0}', '{0.5}', '{NULL}',
            '{now}', '{https://a.example:443}', '{NULL}', '{NULL}', '{"{}"}', '{NULL}', '{NULL}', '{NULL}',
            now(), history_id(1), '{0}', '{0}', '{acme}', '{jobs}', '{new}', '{a}', '{NULL}', '{NULL}',
            '{a}', '{1}', '{now}', 1000, '{false}', '{""}', '{true}', '{true}', '{acme}', '{night}', '{0}',
            ARRAY[history_id(7000001)], '{1}', 100000
            """),
    ]

    private static let waiting: [PlanCall] = [
        writer(Statements.discretionaryJobs, "50, now(), NULL, 0"),
        writer(Statements.dueBegins, "10"),
        writer(Statements.dueQuestions, "50"),
        command(
            Statements.flagDependencies,
            """
            ARRAY[history_id(1), history_id(2000001), history_id(2900011)], 'acme'
            """),
        writer(Statements.hasDependencyWork),
        writer(Statements.hasDueQuestions),
        writer(Statements.lockDependents, "ARRAY[history_id(4000004), history_id(4000012)]"),
        writer(
            Statements.lockFreeDependents, "ARRAY[history_id(4000004), history_id(4000012)]",
            looksAt: 2, "jobs that may have no dependency left"),
        writer(Statements.resolveDependencies, "50, 1000"),
    ]
}
