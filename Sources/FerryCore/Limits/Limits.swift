/// Every limit of the product. `docs/limits.md` is generated from this file: run `scripts/generate-limits`
/// after a change.
///
/// The first sentence of a comment names what is limited and its unit; the rest is the page's last column.
public enum Limits {
    // MARK: Submissions
    /// Body of one submission, in bytes.
    /// If exceeded: 413. Larger data goes by file.
    public static let submissionByteCountMax = 1 << 20
    /// Body of a batch, in bytes.
    /// If exceeded: 413. That is 10,000 jobs of about 3 KiB.
    public static let batchByteCountMax = 32 << 20
    /// Jobs of a batch.
    /// If exceeded: 422.
    public static let batchJobCountMax = 10_000
    /// Request bodies in memory on a node, in bytes.
    /// If exceeded: 429 `overloaded`. An eighth of the memory that the node may use, if that is less. A
    /// tenant has at most as much as it leaves free.
    public static let bodyBytesMax = 256 << 20
    /// Size above which a request body counts toward that total, in bytes.
    public static let smallBodyBytes: Int64 = 16_384
    /// Jobs that wait on a node for their commit.
    /// If exceeded: 429 `overloaded`.
    public static let waitingJobCountMax: Int64 = 20_000
    /// Expected wait for a commit, in seconds.
    /// If exceeded: 429 `overloaded`.
    public static let waitingSecondsMax = 2.0
    /// Unfinished jobs of a tenant, by default.
    /// If exceeded: 429 `too_many_jobs`. Setting `FERRY_MAX_UNFINISHED_JOBS`.
    public static let unfinishedJobCountMax: Int64 = 5_000_000
    /// Connections of a session to one host, by default.
    /// If exceeded: jobs stay `queued`. Setting `FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST`.
    public static let sessionConnectionCountMax = 6
    /// `Idempotency-Key`, in bytes.
    /// If exceeded: 400. Kept for 24 h.
    public static let idempotencyKeyByteCountMax = 255
    /// Key of a unique job, in bytes.
    /// If exceeded: 422.
    public static let uniqueKeyByteCountMax = 255
    /// Time after its success for which a job has its unique key, in seconds.
    /// If exceeded: 422.
    public static let uniqueSecondsMax = 604_800.0
    /// `Prefer: wait`, in seconds.
    /// If exceeded: reduced to this value.
    public static let waitSecondsMax = 60.0
    /// `tracestate` of a submission, in bytes (W3C Trace Context §3.3.1.5).
    /// If exceeded: long members are omitted first, then the last ones.
    public static let traceStateByteCountMax = 512
    /// Members of `tracestate`.
    /// If exceeded: `tracestate` is omitted.
    public static let traceStateMemberCountMax = 32

    // MARK: Object stores
    /// Metadata of an object in a store, in bytes.
    /// If exceeded: 422. That is the limit of Amazon S3.
    public static let objectMetadataByteCountMax = 2_048
    /// Object that one PUT writes to a store, in bytes.
    /// If exceeded: it is sent as a multipart upload. That is the limit of Amazon S3.
    public static let objectByteCountMax: Int64 = 5 << 30
    /// Object that is sent with one PUT if a key signs the request, in bytes.
    /// If exceeded: it is sent as a multipart upload.
    public static let singlePutByteCountMax: Int64 = 64 << 20
    /// Object of a multipart upload, in bytes.
    /// If exceeded: the job fails with `size_mismatch`.
    public static let multipartByteCountMax: Int64 = 5 << 40
    /// Parts of a multipart upload.
    /// If exceeded: the parts are larger instead. That is the limit of Amazon S3.
    public static let multipartPartCountMax = 10_000

    // MARK: Staged uploads
    /// Staged uploads of a tenant.
    /// If exceeded: 409 `limit_reached`.
    public static let uploadCountMax: Int64 = 100_000
    /// `Upload-Metadata`, in bytes.
    /// If exceeded: 400.
    public static let uploadMetadataByteCountMax = 8_192
    /// Bytes of one upload that a node has in memory.
    /// If exceeded: reading from the client pauses until the disk has taken some.
    public static let uploadBufferByteCount = 512 << 10
    /// Requests of a node that add bytes to staged uploads at once.
    /// If exceeded: 429 `overloaded`. A tenant has at most as many as it leaves free: half of them if it is
    /// the only one. The last quarter is for tenants that have none: one each.
    public static let uploadRequestCountMax = 500
    /// Retention of an incomplete upload after its last byte, in seconds.
    /// If exceeded: removed.
    public static let incompleteUploadSeconds = 86_400.0

    // MARK: Fields of a job
    /// URL of a job, in bytes.
    /// If exceeded: 422.
    public static let urlByteCountMax = 8_192
    /// URL of a redirect, in bytes.
    /// If exceeded: `redirect_invalid`.
    public static let redirectURLByteCountMax = 16_384
    /// Header fields of a job.
    /// If exceeded: 422.
    public static let headerCountMax = 100
    /// Header fields of a job together, in bytes.
    /// If exceeded: 422.
    public static let headerByteCountMax = 16_384
    /// `user` of `request.auth` and of a proxy, in bytes.
    /// If exceeded: 422.
    public static let userByteCountMax = 255
    /// `password` of `request.auth` and of a proxy, in bytes.
    /// If exceeded: 422.
    public static let passwordByteCountMax = 1_024
    /// `token` of `request.auth`, in bytes.
    /// If exceeded: 422.
    public static let tokenByteCountMax = 8_192
    /// Each PEM text of `tls` of a request, a session and a webhook, and of a proxy, in bytes.
    /// If exceeded: 422.
    public static let pemByteCountMax = 64 << 10
    /// Entries of `pins` in `tls` of a request, a session and a webhook.
    /// If exceeded: 422.
    public static let pinCountMax = 10
    /// Entries of `request.proxy.no_proxy`.
    /// If exceeded: 422.
    public static let proxyBypassCountMax = 100
    /// Entries of `metadata`.
    /// If exceeded: 422.
    public static let metadataCountMax = 50
    /// Name of a `metadata` entry, in bytes.
    /// If exceeded: 422.
    public static let metadataNameByteCountMax = 128
    /// Value of a `metadata` entry, in bytes.
    /// If exceeded: 422.
    public static let metadataValueByteCountMax = 2_048
    /// `description`, in bytes.
    /// If exceeded: 422.
    public static let descriptionByteCountMax = 1_024
    /// Names of sessions, tenants and keys, in bytes.
    /// If exceeded: 422.
    public static let nameByteCountMax = 128
    /// `destination.path` and `source.path`, in bytes.
    /// If exceeded: 422.
    public static let pathByteCountMax = 1_024
    /// Parts of a multipart body.
    /// If exceeded: 422. Each part may be an open file.
    public static let partCountMax = 100
    /// Name and file name of a part, in bytes.
    /// If exceeded: 422. File systems have the same limit.
    public static let partNameByteCountMax = 255
    /// `retry.max_attempts`.
    /// If exceeded: 422. Background sessions use this value.
    public static let jobAttemptCountMax = 1_000_000
    /// Entries of `mirrors`.
    /// If exceeded: 422.
    public static let mirrorCountMax = 16
    /// `segments`: connections of one download.
    /// If exceeded: 422.
    public static let segmentCountMax = 64
    /// Entries of `schedule.depends_on`.
    /// If exceeded: 422.
    public static let dependencyCountMax = 100
    /// `questions.timeout`, in seconds.
    /// If exceeded: 422.
    public static let questionSecondsMax = 604_800.0
    /// Answer to a question, in bytes.
    /// If exceeded: 413; in the response of a webhook, ignored.
    public static let answerByteCountMax = 65_536
    /// Bytes of the header fields that a question shows of its response.
    /// If exceeded: the further ones are left out.
    public static let questionHeaderByteCountMax = 4_096
    /// `acknowledgement.timeout`, in seconds.
    /// If exceeded: 422. BITS has the same limit.
    public static let acknowledgementSecondsMax = 7_776_000.0
    /// `acknowledgement.reminders.max_count`.
    /// If exceeded: 422.
    public static let reminderCountMax: Int64 = 100
    /// Delays of `acknowledgement.reminders`, in seconds.
    /// If exceeded: 422.
    public static let reminderDelayMax = 604_800.0

    // MARK: Sessions
    /// Configured sessions of a tenant.
    /// If exceeded: 409 `too_many_sessions`. Every node keeps all of them in memory.
    public static let sessionCountMax = 10_000
    /// Unfinished jobs that `GET` of a session counts.
    /// If exceeded: `is_exact` is false.
    public static let sessionJobCountMax = 100_000
    /// Credentials of a session.
    /// If exceeded: 409 `limit_reached`.
    public static let sessionCredentialCountMax = 100
    /// Credentials of all sessions of a tenant.
    /// If exceeded: 409 `limit_reached`. Every node keeps all of them in memory.
    public static let tenantCredentialCountMax = 10_000
    /// Body of a credential, in bytes.
    /// If exceeded: 413.
    public static let credentialByteCountMax = 64 << 10
    /// Entries of `http_additional_headers_origins`.
    /// If exceeded: 422. Each request is compared with all of them.
    public static let additionalHeaderOriginCountMax = 100

    // MARK: Cookies
    /// Name and value of a cookie (RFC 6265bis §5.6), in bytes.
    /// If exceeded: the cookie is ignored; in a body, 422.
    public static let cookieByteCountMax = 4_096
    /// Value of an attribute of a cookie (RFC 6265bis §5.6), in bytes.
    /// If exceeded: the attribute is ignored; in a body, 422.
    public static let cookieAttributeByteCountMax = 1_024
    /// Time until a cookie expires (RFC 6265bis §5.5), in seconds.
    /// If exceeded: reduced to this value.
    public static let cookieSecondsMax = 34_560_000.0
    /// Cookies of a session with the same domain.
    /// If exceeded: the cookie that was not used for the longest time is removed, one without `Secure` first.
    public static let cookieDomainCountMax = 180
    /// Cookies of a session.
    /// If exceeded: the cookie that was not used for the longest time is removed.
    public static let cookieCountMax = 3_000
    /// Memory of the cookies of a session, in bytes.
    /// If exceeded: the cookie that was not used for the longest time is removed. Each counts its texts and
    /// 256 bytes.
    public static let cookieJarByteCountMax = 2 << 20
    /// Body with the cookies of a session, in bytes.
    /// If exceeded: 413.
    public static let cookieListByteCountMax = 8 << 20
    /// Cookies of all sessions that a node has in memory, in bytes.
    /// If exceeded: those of the sessions that were not used for the longest time are read from the database
    /// again when they are needed.
    public static let cookieMemoryByteCountMax = 64 << 20
    /// Age of the stored `last_access_at` from which another access is stored, in seconds.
    public static let cookieAccessSeconds = 3_600.0

    // MARK: Lists
    /// Entries of a page, by default.
    public static let listLimitDefault = 50
    /// Entries of a page.
    /// If exceeded: 400.
    public static let listLimitMax = 500
    /// A page of jobs or events, in bytes.
    /// If exceeded: the page ends with that entry and has a `next_cursor`.
    public static let listByteCountMax = 8 << 20
    /// Rows that one turn of a list reads.
    /// If exceeded: another turn follows.
    public static let listTurnRowCount = 1_000
    /// Rows that one page reads for a filter without an index.
    /// If exceeded: the page is shorter than `limit`, or empty, and has a `next_cursor`.
    public static let listScanRowCount = 20_000
    /// Fields that the parameter `fields` of a list names.
    /// If exceeded: 400.
    public static let selectedFieldCountMax = 100
    /// Properties by which a summary counts jobs.
    /// If exceeded: 400.
    public static let summaryDimensionCountMax = 2
    /// Connections of a node to the database for reads.
    /// If exceeded: reads wait. One tenant uses all but one of them at most.
    public static let readConnectionCount = 4
    /// Reads of one tenant that wait on a node.
    /// If exceeded: 429 `overloaded`.
    public static let waitingReadCountMax = 256
    /// One read in the database, in seconds.
    /// If exceeded: 503 `store_unavailable`.
    public static let readSecondsMax = 5.0

    // MARK: Bulk operations
    /// Body that starts a bulk operation, in bytes.
    /// If exceeded: 413.
    public static let bulkByteCountMax = 512 << 10
    /// `ids` of a bulk operation.
    /// If exceeded: 422.
    public static let bulkJobCountMax = 10_000
    /// Groups of a tenant.
    /// If exceeded: 409 `limit_reached`.
    public static let jobGroupCountMax: Int64 = 100_000
    /// Running bulk operations of a tenant.
    /// If exceeded: 409 `limit_reached`.
    public static let bulkOperationCountMax = 100
    /// Jobs that one step of a bulk operation looks at.
    /// If exceeded: another step follows. Each step is one transaction.
    public static let bulkStepRowCount = 1_000
    /// Jobs that one step of a bulk operation changes.
    /// If exceeded: another step follows.
    public static let bulkStepChangeCount = 200
    /// Jobs with inline bytes that one step of a bulk operation submits again.
    /// If exceeded: another step follows.
    public static let bulkStepPayloadCount = 8
    /// Retention of ended bulk operations, in seconds.
    /// If exceeded: removed.
    public static let bulkOperationSeconds = 604_800.0

    // MARK: Transfers
    /// Size of a body from which `request.resumable_upload` `auto` says that the upload may be resumed, in
    /// bytes.
    /// If exceeded: Below, sending the body again costs less than asking for the offset.
    public static let resumableUploadByteCountMin: Int64 = 1 << 20
    /// Head of a response with its trailers and interim responses, in bytes.
    /// If exceeded: `response_too_large`. libcurl has further limits (`HeadBounds`).
    public static let responseHeaderByteCountMax = 64 << 10
    /// Lines of a response head, its trailers and interim responses.
    /// If exceeded: `response_too_large`. A line of four bytes takes many times as much memory. Each 104 of
    /// an upload counts alone.
    public static let responseHeaderLineCountMax = 1_000
    /// `redirects.max`.
    /// If exceeded: 422.
    public static let redirectCountMax = 50
    /// Response body of a `data` job or an upload that is kept in the database, in bytes.
    /// If exceeded: kept as a file.
    public static let inlineBodyByteCountMax = 256 << 10
    /// Received bodies of a node that wait in memory for one write, in bytes.
    /// If exceeded: bodies go to files as they arrive. A sixteenth of the node's memory, if that is less.
    public static let gatheredBytesMax = 32 << 20
    /// `resume_data`, in bytes.
    /// If exceeded: 422.
    public static let resumeDataByteCountMax = 16_384
    /// Time for which bytes of a failed or cancelled job stay for another job, in seconds.
    /// If exceeded: the next job starts at byte 0.
    public static let resumeDataSeconds = 86_400.0
    /// `response.body_excerpt`, in bytes.
    /// If exceeded: truncated.
    public static let responseExcerptByteCountMax = 2_048
    /// `Content-Type` of an origin that `GET …/content` repeats, in bytes.
    /// If exceeded: repeated without its parameters.
    public static let contentTypeByteCountMax = 255
    /// Attempts of a job that `…/attempts` lists, the latest.
    /// If exceeded: `omitted_attempts` counts the earlier ones. The SQL has the same number.
    public static let attemptCountMax = 50
    /// Transactions of an attempt: the first and the last ones, half each.
    /// If exceeded: `omitted_transactions` counts the others.
    public static let transactionCountMax = 40

    // MARK: Webhooks
    /// Webhook endpoints of a tenant.
    /// If exceeded: 409 `limit_reached`. Each event is compared with all of them.
    public static let webhookCountMax = 500
    /// Body that creates or changes an endpoint, in bytes.
    /// If exceeded: 413.
    public static let webhookByteCountMax = 256 << 10
    /// Entries of `events` of an endpoint.
    /// If exceeded: 422.
    public static let webhookEventCountMax = 50
    /// Entries of `retry.delays` of an endpoint.
    /// If exceeded: 422.
    public static let webhookDelayCountMax = 30
    /// Each entry of `retry.delays`, in seconds.
    /// If exceeded: 422.
    public static let webhookDelayMax = 86_400.0
    /// Smallest `disable_after`, in seconds.
    /// If below: 422.
    public static let webhookDisableAfterMin = 3_600.0
    /// Largest `disable_after`, in seconds.
    /// If exceeded: 422.
    public static let webhookDisableAfterMax = 2_592_000.0
    /// `overlap_seconds` of a secret rotation, in seconds.
    /// If exceeded: 422.
    public static let webhookOverlapMax = 604_800.0
    /// Keys of an endpoint that sign at once.
    /// If exceeded: the oldest one stops signing.
    public static let webhookKeyCountMax = 4
    /// Body of a delivery with `payload: thin`, in bytes.
    /// If exceeded: members of the job are left out.
    public static let thinPayloadByteCountMax = 4_096
    /// Size of a job with its encrypted secrets for which its delivery counts once more, in bytes.
    /// Applies to the deliveries that a node has in memory.
    public static let deliveryWeightByteCount = 16 << 10
    /// Lease of a delivery by one sender, in seconds.
    /// If exceeded: another node may send it.
    public static let deliveryLeaseSeconds = 40.0
    /// Retention of deliveries, pending ones included, in seconds.
    /// If exceeded: removed.
    public static let deliverySeconds = 2_592_000.0

    // MARK: Events
    /// Retention of events, by default, in seconds.
    /// Setting `FERRY_EVENT_RETENTION`.
    public static let eventRetentionSeconds = 604_800.0
    /// Event streams of a node.
    /// If exceeded: 429 `too_many_streams`. A tenant has at most as many as it leaves free: half of them if
    /// it is the only one. The last quarter is for tenants that have none: one each.
    public static let eventListenerCountMax = 1_500
    /// Events that wait for one stream's reader, in bytes.
    /// If exceeded: the stream ends.
    public static let eventQueueByteCountMax = 1 << 20
    /// Interval of comments on an idle stream, in seconds.
    public static let eventHeartbeatSeconds = 15.0
    /// Interval of progress on a stream, in seconds.
    public static let eventProgressSeconds = 0.5
    /// Progress that one stream gets per interval, in bytes.
    /// If exceeded: jobs take turns.
    public static let eventProgressByteCountMax = 64 << 10
    /// Progress that all streams of a node get per interval, in bytes.
    /// If exceeded: jobs take turns.
    public static let eventProgressTotalByteCountMax = 1 << 20
    /// Requests of a node that follow the content of jobs (`follow=true`).
    /// If exceeded: 429 `too_many_streams`. A tenant has at most as many as it leaves free: half of them if
    /// it is the only one. The last quarter is for tenants that have none: one each.
    public static let contentFollowerCountMax = 500
    /// Wait of a follower for further bytes of the content, in seconds.
    /// If exceeded: the response ends incomplete.
    public static let contentFollowerWaitSecondsMax = 600.0

    // MARK: Requests between nodes
    /// Difference between the time of a node's request and this node's clock, in seconds.
    /// If exceeded: 401 `node_request_refused`.
    public static let nodeRequestSecondsMax = 30.0
    /// Nonces of nodes' requests that are remembered, in each of two spans of a minute.
    /// If exceeded: 401 `node_request_refused`.
    public static let nodeNonceCountMax = 100_000
    /// Age of another node's progress that is passed on without a further request, in seconds.
    public static let nodeProgressSeconds = 1.0
    /// Wait for another node's progress, in seconds.
    /// If exceeded: `progress.unavailable`.
    public static let nodeProgressWaitSeconds = 1.0
    /// Jobs that one request for progress names.
    /// If exceeded: it asks for all running jobs of the node.
    public static let nodeProgressJobCountMax = 200
    /// Response with the progress of a node's jobs, in bytes.
    /// If exceeded: `progress.unavailable`.
    public static let nodeProgressByteCountMax = 16 << 20
    /// Other nodes whose progress is kept.
    /// If exceeded: all of it is asked for again.
    public static let nodeReadingCountMax = 1_000
    /// Connection to another node, in seconds.
    /// If exceeded: 503 `node_unavailable`.
    public static let nodeConnectSeconds = 3.0
    /// Part of another node's response that waits for one reader, in bytes.
    /// If exceeded: reading pauses.
    public static let nodeResponseByteCountMax = 256 << 10
    /// Requests to other nodes for content and attempts at once.
    /// If exceeded: 429 `overloaded`. A tenant has at most as many as it leaves free: half of them if it is
    /// the only one. The last quarter is for tenants that have none: one each.
    public static let nodeRequestCountMax = 100
    /// Time for which a node that has left is remembered, in seconds.
    public static let formerNodeSeconds = 7_776_000.0

    // MARK: Schedules and windows
    /// `cron`, in bytes.
    /// If exceeded: 422. All minutes and all hours fit by name.
    public static let cronByteCountMax = 512
    /// `time_zone`, in bytes.
    /// If exceeded: 422.
    public static let timeZoneByteCountMax = 64
    /// `jitter`, in seconds.
    /// If exceeded: 422.
    public static let scheduleJitterSecondsMax = 86_400.0
    /// Delay after which an occurrence counts as missed, in seconds.
    /// Added to its jitter.
    public static let scheduleGraceSeconds = 60.0
    /// Age of missed and queued occurrences that are made up for, in seconds.
    /// If exceeded: dropped and counted.
    public static let scheduleCatchUpSeconds = 86_400.0
    /// Jobs of each run of a schedule.
    /// If exceeded: 422.
    public static let scheduleJobCountMax = 1_000
    /// `group` of a schedule, in bytes, with its placeholders.
    /// If exceeded: 422.
    public static let scheduleGroupByteCountMax = 512
    /// Latest jobs of a schedule that `overlap` looks at.
    /// Besides them, it looks at all jobs of the last run.
    public static let scheduleOverlapMax = 100
    /// Schedules that one transaction submits for.
    /// If exceeded: the next transaction continues.
    public static let scheduleBatchMax = 200
    /// Jobs of schedules that one transaction reads, in bytes as PostgreSQL stores them.
    /// If exceeded: the next transaction continues.
    public static let scheduleBatchByteCountMax: Int64 = 4 << 20
    /// Off-peak windows.
    /// If exceeded: 422.
    public static let windowCountMax = 32

    // MARK: Queue
    /// Head start of `priority` 1 over `priority` 0, in seconds.
    public static let priorityHeadStartSeconds = 600.0
    /// Head start of a job at its latest start, in seconds.
    /// Queues that keep deadlines are shorter.
    public static let deadlineHeadStartSeconds = 86_400.0
    /// Rows of one insert.
    /// If exceeded: the next statement continues.
    public static let submissionBatchMax = 500
    /// Jobs of one claim.
    /// If exceeded: the next claim continues.
    public static let claimBatchMax = 200
    /// Results of one transaction.
    /// If exceeded: the next transaction continues.
    public static let resultBatchMax = 500
    /// Claim queues that one search finds.
    /// If exceeded: the next search continues.
    public static let scanQueueCountMax: Int32 = 1_000

    // MARK: Cluster
    /// Interval of a node's heartbeats, in seconds.
    public static let heartbeatSeconds = 3.0
    /// Lease of a node, in seconds.
    /// If exceeded: other nodes take its jobs.
    public static let leaseSeconds = 15.0
    /// Time for which a node may leave a transaction idle, in seconds. Shorter than the time after which a
    /// statement that waits for a lock is cancelled: the locks of a frozen node are free before.
    /// If exceeded: PostgreSQL ends the transaction and its session.
    public static let idleTransactionSeconds = 10.0
    /// Time for which a connection adds to one row of counts, in seconds.
    /// If exceeded: it starts another row.
    public static let shardSeconds = 2
    /// Time until the expiry of a job below which a node waits for it from its acceptance on, in seconds.
    /// If exceeded: a heartbeat reads the expiry from the database.
    public static let expiryNoticeSeconds = 60.0
    /// Retention of the audit, in seconds.
    /// If exceeded: removed.
    public static let auditSeconds = 90 * 86_400.0
    /// Entries of the audit.
    /// If exceeded: the oldest ones are removed.
    public static let auditCountMax: Int32 = 100_000
}
