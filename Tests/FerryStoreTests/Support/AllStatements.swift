import Foundation
import Postgres
import Testing

@testable import FerryStore

extension Statements {
    /// All statements, by folder of `Sources/FerryStore`.
    static let all = [
        // Admin
        allKeys, beginAudit, changeDrain, changePause, changeSetting, countTenants, createKey, endAudit,
        foldCounts, listAudit, listKeys, putSetting, readFirstKey, readKey, readOperations, readSetting,
        readStatus, removeOldAudit, revokeKey, setSetting,
        // BulkOperations
        advanceBulkOperation, cancelBulkOperation, claimBulkOperation, createBulkOperation,
        listBulkOperations, lockRetries, nextBulkOperation, postponeBulkOperation, readBulkOperation,
        readRetrySources, removeOldBulkOperations,
        // Claim
        claimJobs, claimLimitedJobs, divertJobs, divertRunning, findClaimQueues, heldJobs, lockClaimQueues,
        lockDueJobs, lockOldClaimQueues, lockUnreachableJobs, scanClaimQueues, restoreClaimQueues, nextDue,
        removeOldClaimQueues,
        // Connection
        notify, setShard, tryLock,
        // Cookies
        changedCookies, storeCookies,
        // Deliveries
        addDeliveries, addSessionReceivers, claimDeliveries, createWebhook, deleteWebhook, editWebhook,
        expireDeliveries, listDeliveries, listWebhooks, readReceiverQueues, pingWebhook, readDelivery,
        readFirstWebhook, readInterests, hashReceiverQueues, readWebhook, recordTries, redeliver,
        removeOldDeliveries, replayDeliveries, takeBackDeliveries, takeSessionReceivers,
        // Events
        followEvents, hasEvent, hasEvents, hasUnnumberedEvents, jobEvents, keepEvents, lastEvent,
        tryLockRelay,
        finishJobGroups, readJobGroups,
        listEvents, numberEvents, putBackEvents, rejectEvents, removeOldEvents, takeEvents,
        // Groups
        awaitedJobGroups, closeJobGroup, createJobGroup, deleteJobGroup, listJobGroups, lockJobGroup,
        readJobGroup, removeOldJobGroups,
        // Uploads
        advanceUpload, completeUpload, createUpload, deleteUpload, knownUploads, listLocalUploads,
        listUploads, moveUpload, prepareUploads, readNamedUpload,
        readUpload, removeExpiredUploads, restartUpload,
        // ContentStore
        acceptContentStore, claimContentSweep, readContentStore, unusedContents,
        // Finish
        finishJobs, nextExpiry, tellJobs,
        // Hosts
        createHosts, forgetHosts, grantConnections, keepDecisions, listHosts, loadHosts, lockHosts,
        lockWaitingJobs, countHostJobs, tellHosts,
        putThroughputs, readHost, readHostLimits, readPermits, readThroughputs, removeOldThroughputs,
        returnPermits, saveHostLimits, saveHosts, strandedHosts, sweepConnections, takePermits,
        writeConnections,
        // Jobs
        acknowledgeJobs, changeJobs, deleteJob, editSpec, lockSuspendedJobs, readRemovableFiles, listJobs,
        releaseAbandonedUpload,
        readAttempts, readEarlierSpecs, readJobs, remindJobs,
        // Leases
        checkLeases, heartbeat, lockHeartbeat, lockJobsOfDeadNodes, lockJobsOfNode, markRequests,
        takeOverUpload, waitForLock, readHealth, readHeartbeats, readNodes, readPeer, removeFormerNodes,
        removeNode,
        // Quotas
        countTenantJobs, countTransfers, endedJobs, listTenantLimits, readTenantLimits,
        removeOldTransfers, replaceTenantLimits, sumStoredBytes,
        // Retention
        addHistory, claimAbandonedUploads, detachHistory, dropHistory, expiredJobs, forgetAbandonedUploads,
        hasEventsUntil, lateHistory, oldDefaultJobs,
        oldJobs, oldRestJobs, oldSessionJobs, readHistory, removeJobs, removeOldKeys,
        // Schedules
        advanceSchedules, createSchedule, deleteSchedule, dropLocks, dueSchedules, holdLock, insertRuns,
        listSchedules, lockSchedule, nextSchedule, noteRun, postponeSchedule, readSchedule, replaceSchedule,
        readClaimBounds, sweepRuns, unfinishedRuns,
        // Schema
        checkRows, freeSessionCount,
        // Sessions
        cancelSessions, changedCredentials, changedSessions, countCredentials, deleteCredential,
        listCredentials, putCredential, readCredential, removeCredentials, countDefaultJobs, countSessionJobs,
        countSessions, deleteSession,
        drainSessions, drainedSessions, endSessions,
        flushSession, invalidateSession, listSessions, lockSessionEpoch,
        putSession, readSession, readSessionEpoch,
        // Submit
        addDependencies, addUploadJobs, keepSubmissionKeys, knownJobs, lockUniqueKeys, markRetried, readKeys,
        readUniqueJobs, submitJobs, submitKeyedJobs,
        // Waiting
        discretionaryJobs, dueBegins, dueQuestions, flagDependencies,
        hasDependencyWork, hasDueQuestions, lockDependents, lockFreeDependents, resolveDependencies,
    ]

    /// Names of the SQL files in `Sources/FerryStore`.
    static var fileNames: Set<String> {
        get throws {
            let root = URL(filePath: "../../../Sources/FerryStore", relativeTo: URL(filePath: #filePath))
            let files = try #require(FileManager.default.enumerator(atPath: root.path))
            let paths = files.compactMap { $0 as? String }.filter { $0.contains("/SQL/") }
            return Set(paths.map { URL(filePath: $0).deletingPathExtension().lastPathComponent })
        }
    }
}
