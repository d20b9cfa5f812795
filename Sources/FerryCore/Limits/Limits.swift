/// Every bound of the product, with unit and reason.
package enum Limits {
    /// Bytes of the body of one submission: headers and metadata fit many times; larger data goes by file.
    package static let submissionByteCountMax = 1 << 20
    /// Bytes of the body of a batch: 10,000 jobs of about 3 KiB.
    package static let batchByteCountMax = 32 << 20
    package static let batchJobCountMax = 10_000
    /// Bytes of all request bodies that a node has in memory: eight of the largest. Small ones are not
    /// counted; 2,000 connections have 32 MiB of them at most.
    package static let bodyBytesMax = 256 << 20
    package static let smallBodyBytes: Int64 = 16_384
    /// Bytes of all received bodies of a node that gather in memory before they are written at once.
    package static let gatheredBytesMax = 32 << 20
    package static let urlByteCountMax = 8_192
    package static let headerCountMax = 100
    package static let headerByteCountMax = 16_384
    /// Entries of `http_additional_headers_origins`: each request is compared with all of them.
    package static let additionalHeaderOriginCountMax = 100
    /// Bytes of `request.auth` and of a proxy's credentials.
    package static let userByteCountMax = 255
    package static let passwordByteCountMax = 1_024
    package static let tokenByteCountMax = 8_192
    /// Bytes of one PEM text: a private authority with its intermediates, not a system's whole store.
    package static let pemByteCountMax = 64 << 10
    package static let pinCountMax = 10
    package static let proxyBypassCountMax = 100
    package static let metadataCountMax = 50
    package static let metadataNameByteCountMax = 128
    package static let metadataValueByteCountMax = 2_048
    package static let descriptionByteCountMax = 1_024
    package static let nameByteCountMax = 128
    package static let pathByteCountMax = 1_024
    /// Parts of a multipart body: each of them may be an open file.
    package static let partCountMax = 100
    /// Bytes of a part's name and file name: a file system's own limit.
    package static let partNameByteCountMax = 255
    package static let idempotencyKeyByteCountMax = 255
    /// Of `tracestate` (W3C Trace Context §3.3.1.5).
    package static let traceStateByteCountMax = 512
    package static let traceStateMemberCountMax = 32
    /// Bytes of an origin's `Content-Type` up to which its parameters are shown with the content.
    package static let contentTypeByteCountMax = 255
    package static let listLimitDefault = 50
    package static let listLimitMax = 500
    /// A page of a list ends with the entry that passes this.
    package static let listByteCountMax = 8 << 20
    /// Rows that one turn of a list looks at, and one request for a page: a filter that no index serves may
    /// fit hardly any of them.
    package static let listTurnRowCount = 1_000
    package static let listScanRowCount = 20_000
    /// Connections of a node that reads share. One tenant uses all but one of them at most.
    package static let readConnectionCount = 4
    /// Reads of one tenant that may wait on a node, and seconds after which a read is stopped.
    package static let waitingReadCountMax = 256
    package static let readSecondsMax = 5.0
    /// Seconds that `Prefer: wait` may hold an answer.
    package static let waitSecondsMax = 60.0
    /// A `data` job's body up to this many bytes is kept in the database, a longer one becomes a file.
    package static let inlineBodyByteCountMax = 256 << 10
    /// Header bytes of one response (libcurl's own bounds are in `HeadBounds`).
    package static let responseHeaderByteCountMax = 64 << 10
    /// Header lines of one response, trailers and interim answers included: each costs many times the four
    /// bytes that it may have.
    package static let responseHeaderLineCountMax = 1_000
    package static let redirectCountMax = 50
    /// Attempts of a job that are kept, the latest; retries, drains and lost nodes together can make many
    /// more. The SQL says the same number.
    package static let attemptCountMax = 50
    /// `retry.max_attempts`; what background sessions get, whose jobs are tried until their resource timeout.
    package static let jobAttemptCountMax = 1_000_000
    /// Configured sessions of a tenant: every node keeps all of them in memory.
    package static let sessionCountMax = 10_000
    /// Unfinished jobs of a session that are counted when it is shown.
    package static let sessionJobCountMax = 100_000
    /// Transactions of an attempt that are kept: the first ones and the last.
    package static let transactionCountMax = 32
    /// Bytes of an answer's text that nobody keeps which are shown.
    package static let responseExcerptByteCountMax = 2_048
    /// Bytes of `resume_data`.
    package static let resumeDataByteCountMax = 16_384
    /// Seconds for which the bytes of a failed or cancelled job are kept for another one.
    package static let resumeDataSeconds = 86_400.0
    package static let mirrorCountMax = 16
    package static let dependencyCountMax = 100
    /// Seconds that a job may wait for an answer, and bytes of an answer that a webhook gives.
    package static let questionSecondsMax = 604_800.0
    package static let answerByteCountMax = 65_536
    /// Seconds that a finished job may wait for its acknowledgement (BITS: 90 days), reminders meanwhile, and
    /// seconds between two of them.
    package static let acknowledgementSecondsMax = 7_776_000.0
    package static let reminderCountMax: Int64 = 100
    package static let reminderDelayMax = 604_800.0
    /// Connections that one download may hold.
    package static let segmentCountMax = 64
    /// Bytes of a cron expression: all minutes and all hours by name.
    package static let cronByteCountMax = 512
    package static let timeZoneByteCountMax = 64
    /// Seconds by which the runs of a schedule may be spread.
    package static let scheduleJitterSecondsMax = 86_400.0
    /// Seconds after which an occurrence that nobody has submitted is missed.
    package static let scheduleGraceSeconds = 60.0
    /// Seconds for which missed and queued occurrences are made up for; older ones are dropped.
    package static let scheduleCatchUpSeconds = 86_400.0
    /// Off-peak windows of the service.
    package static let windowCountMax = 32
    /// Schedules that one transaction of a node submits for.
    package static let scheduleBatchMax = 200
    /// Runs of a schedule, the latest, that are looked at for one that is not over.
    package static let scheduleOverlapMax = 100
    /// Members of an object in a patch: more than there are fields.
    package static let patchMemberCountMax = 100
    /// Unfinished jobs of one tenant, unless the configuration says otherwise.
    package static let unfinishedJobCountMax: Int64 = 5_000_000
    /// Jobs that may wait on a node for their commit, and seconds that they may be expected to.
    package static let waitingJobCountMax: Int64 = 20_000
    package static let waitingSecondsMax = 2.0
    /// Seconds and entries for which the audit is kept.
    package static let auditSeconds = 90 * 86_400.0
    package static let auditCountMax: Int32 = 100_000
    /// Seconds for which events are kept unless the configuration says otherwise.
    package static let eventRetentionSeconds = 604_800.0
    /// Streams of events that a node serves at once.
    package static let eventListenerCountMax = 1_500
    /// Bytes that wait for one listener; a slower one is dropped.
    package static let eventQueueByteCountMax = 1 << 20
    /// Seconds between signs of life on a stream, and between its news of progress.
    package static let eventHeartbeatSeconds = 15.0
    package static let eventProgressSeconds = 0.5
    /// Bytes of progress that one listener gets at a time, and all of a node together.
    package static let eventProgressByteCountMax = 64 << 10
    package static let eventProgressTotalByteCountMax = 1 << 20
    /// Webhook endpoints of a tenant: each event is compared with all of them.
    package static let webhookCountMax = 500
    /// Bytes of the body that makes or changes one: its metadata alone may have 106 KiB.
    package static let webhookByteCountMax = 256 << 10
    /// Entries of an endpoint's `events`, `retry.delays`.
    package static let webhookEventCountMax = 50
    package static let webhookDelayCountMax = 30
    /// Seconds between two tries of a delivery at most.
    package static let webhookDelayMax = 86_400.0
    /// Seconds of failure after which an endpoint is disabled, at least and at most.
    package static let webhookDisableAfterMin = 3_600.0
    package static let webhookDisableAfterMax = 2_592_000.0
    /// Seconds for which an old secret may go on signing after a rotation.
    package static let webhookOverlapMax = 604_800.0
    /// Keys that sign at once: the newest, and those that rotations have left.
    package static let webhookKeyCountMax = 4
    /// Bytes of a delivery's job for which it counts once more among those that a node has in memory.
    package static let deliveryWeightByteCount = 16 << 10
    /// Seconds for which a sender has a delivery to itself.
    package static let deliveryLeaseSeconds = 40.0
    /// Seconds for which a delivery is kept, pending ones included.
    package static let deliverySeconds = 2_592_000.0
    /// Seconds by which a job of priority 1 goes before one of priority 0.
    package static let priorityHeadStartSeconds = 600.0
    /// Seconds by which a job goes before others at its latest start: queues that keep deadlines are shorter.
    package static let deadlineHeadStartSeconds = 86_400.0
    /// Rows per statement of the intake lane.
    package static let intakeBatchMax = 500
    /// Lots that one look finds at most.
    package static let lookLotCountMax: Int32 = 1_000
    /// Leases per claim.
    package static let claimBatchMax = 200
    /// Results per transaction.
    package static let resultBatchMax = 500
    /// Seconds for which a lane adds to one row of counts.
    package static let shardSeconds = 2
    /// Seconds after which a silent node has lost its jobs, and between its heartbeats.
    package static let leaseSeconds = 15.0
    package static let heartbeatSeconds = 3.0
}
