// Ports of the API that several handlers use. Every reply is called exactly once, on a thread that must not
// block.
package import FerryCore

/// Reads jobs. A job of another tenant is `notFound`.
package protocol JobReader: JobLookup {
    /// Returns the job if this node has finished it within the last two seconds, without reading the
    /// database; otherwise `nil`.
    func recentResult(_ id: JobID, tenant: String) -> JobRecord?
    /// Replies with the jobs that match, without their bodies.
    func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>)
    /// Replies with the numbers of the jobs that match, by their values of the dimensions. The limit of the
    /// query does not matter.
    func summary(of query: JobQuery, by dimensions: [SummaryDimension], reply: @escaping Reply<JobSummary>)
    /// Replies with those of these jobs that the tenant does not have.
    func missing(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>)
    /// Replies with what is needed to submit a terminal job again; any other job is `invalidState`.
    func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>)
}

/// Operations that need the engine and the disks of this node as well as the store.
package protocol NodeOperations: Sendable {
    /// Replies with the attempts of a job, the running one included.
    func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>)
    /// Deletes a terminal job and the managed file of its content; any other job is `invalidState`.
    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Replies with the state of the service. The counts of unfinished jobs are exact.
    func status(reply: @escaping Reply<ServiceStatus>)
}

/// Changes jobs. `revision`: the one that `If-Match` names; a job with another revision is `stale`. `nil`
/// means no condition.
package protocol JobControl: Sendable {
    /// Cancels a job, or asks the node that runs it to cancel it: the record may still say `running`. A
    /// terminal job is `invalidState`. `keepsBytes`: keeps the bytes of a download for another job
    /// (`resume_data`).
    func cancel(
        _ id: JobID, tenant: String, revision: Int32?, keepsBytes: Bool, reply: @escaping Reply<JobRecord>)
    /// Suspends a job, or asks the node that runs it to suspend it: the record may still say `running`. A
    /// suspended or terminal job is `invalidState`.
    func suspend(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>)
    /// Resumes a suspended job; any other is `invalidState`.
    func resume(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>)
    /// Acknowledges the result of a terminal job. Idempotent. Any other job is `invalidState`; a job that
    /// does not ask for an acknowledgement is `acknowledgementNotRequired`.
    func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>)
    /// Replaces the job by what `change` returns. The store may call `change` more than once; what it throws
    /// is the inner failure. A terminal job is `invalidState`, and so is a running job if the change concerns
    /// its attempt.
    func edit(
        _ id: JobID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (JobRequest) throws(InvalidFields) -> JobRequest,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>)
}

/// A job's complete content, open for reading as long as this object exists. Any thread.
package protocol OpenContent: ReadableContent {
    /// Returns a descriptor of the regular file that has the bytes, which the caller owns and closes; `nil`
    /// if there is no such file on this node, or no descriptor is left.
    func file() -> Int32?
    /// Returns a URL that gives the bytes without a key for a while, with these fields of the response; `nil`
    /// if there is none.
    func presignedURL(mediaType: String, disposition: String) -> String?
}

extension OpenContent {
    package func presignedURL(mediaType: String, disposition: String) -> String? { nil }
}

/// Maximum of a tenant's requests that wait while files are compared with their digests.
package let contentWaiterCountMax = 64

/// Opens the content of a succeeded job. `notFound` if it does not exist any more or is another one;
/// `contentMissing` if the content store has lost it;
/// `overloaded` if too many requests wait for the comparison with its digest; `unavailable` if its place does
/// not answer.
package protocol ContentStore: Sendable {
    /// Opens the content of a job for reading.
    func open(_ job: JobRecord, reply: @escaping Reply<any OpenContent>)
    /// Opens an object of the content store for reading.
    func openObject(_ key: String, byteCount: Int64, reply: @escaping Reply<any OpenContent>)
}

/// Bytes of a job's content that a response sends. Any thread.
package protocol ReadableContent: AnyObject, Sendable {
    /// Identity of the file that has the bytes; `nil` if they are in no file.
    var key: FollowedContentKey? { get }
    /// Bytes that can be read from byte 0 on.
    var byteCount: Int64 { get }
    /// Reads bytes from `offset` on. Does not block for long.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead
    /// Calls `body` once, on any thread, perhaps at once, as soon as a read that found no bytes can be
    /// repeated.
    func whenReadable(_ body: @escaping @Sendable () -> Void)
}

/// Result of `ReadableContent.read`.
package enum ContentRead: Sendable, Equatable {
    /// So many bytes; 0 at the end.
    case bytes(Int)
    /// None yet: `whenReadable` tells when to read again.
    case none
    /// The bytes cannot be read.
    case failed
}

/// Content of which more bytes may arrive, which readers follow. Any thread.
package protocol FollowedContent: ReadableContent {
    /// Asks for a call of `changed` (`ArrivingContent.follow`) when there are more bytes than `byteCount`.
    /// Returns `false` if there are more already.
    func awaitBytes(after byteCount: Int64) -> Bool
}

/// Identifies a file while it is open, whatever its name.
package struct FollowedContentKey: Hashable, Sendable {
    private let device: UInt64
    private let inode: UInt64
    /// Creates a key (stat(2)).
    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// The content of jobs that run on this node.
package protocol ArrivingContent: Sendable {
    /// Calls `changed` when more of the job's content can be read, or another file has it: on a thread that
    /// must not block. The job need not run here. A job has one observer.
    func follow(_ job: JobID, changed: @escaping @Sendable () -> Void)
    /// Ends `follow`.
    func unfollow(_ job: JobID)
    /// Whether an attempt of the job runs on this node.
    func isRunning(_ job: JobID) -> Bool
    /// Returns the file with the bytes of the job's running attempt: the same object while it is the same
    /// file. `nil` if there is none on this node. May block.
    func content(of job: JobID) -> (any FollowedContent)?
}

/// Reads deliveries with their tries, and redelivers them.
package protocol DeliveryReader: Sendable {
    /// Replies with deliveries of one job, newest first, only those before `before`. A job of another tenant
    /// is `notFound`.
    func deliveries(
        of job: JobID, tenant: String, before: DeliveryID?, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>)
    /// Replies with one delivery.
    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
    /// Makes a delivery due now, whatever its state.
    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
}

/// Stores API keys, revoked ones included.
package protocol KeyStore: Sendable {
    /// Replies with all keys.
    func keys(reply: @escaping Reply<[APIKey]>)
    /// Replies with keys, newest first, only those before `before`.
    func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>)
    /// Replies with one key.
    func key(_ id: KeyID, reply: @escaping Reply<APIKey>)
    /// Stores a new key. A repeated idempotency key replies with the first one.
    func createKey(_ new: NewKey, reply: @escaping Reply<KeyCreation>)
    /// Revokes a key for ever; `notFound` if it does not exist or is revoked already.
    func revokeKey(_ id: KeyID, reply: @escaping Reply<Void>)
}

/// State of the service, as `GET /v1/admin/status` shows it.
package struct ServiceStatus: Sendable {
    /// State that the store reports.
    package var store: StoreStatus
    /// Bytes that this node receives per second.
    package var bytesReceivedPerSecond: Double = 0
    /// Bytes that this node sends per second.
    package var bytesSentPerSecond: Double = 0
    /// Jobs that this node finishes per second.
    package var jobsFinishedPerSecond: Double = 0
    /// `true` if the database can be reached.
    package var isDatabaseOK = true
    /// Free bytes of the storage; `nil` if unknown.
    package var storageFreeBytes: Int64?
    /// `true` if this node starts no downloads because its storage is nearly full.
    package var holdsDownloads = false

    package init(_ store: StoreStatus) { self.store = store }
}

/// Reads the log of events. A job of another tenant is `notFound`.
package protocol EventReader: Sendable {
    /// Replies with the events that match, newest first, those included that were committed before the call.
    func events(_ query: EventQuery, reply: @escaping Reply<ListPage<EventEntry, EventKindTag>>)
    /// Replies with events of one job, newest first.
    func events(
        of job: JobID, tenant: String, before: EventID?, limit: Int, reply: @escaping Reply<[EventEntry]>)
    /// Replies with events of one job after an event, oldest first.
    func events(
        of job: JobID, tenant: String, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>)
    /// Replies with events of a tenant or a session after an event, oldest first.
    func replay(
        tenant: String, session: String?, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>)
    /// Replies with the identifier of the last event that was committed before the call, or a later one; zero
    /// if there is none.
    func lastEvent(reply: @escaping Reply<EventID>)
}

/// Passes new events to the event streams of this node.
package protocol EventFeed: Sendable {
    /// Passes new events to the sink. Calls `ready` when no later event will be missed.
    func follow(_ sink: any EventSink, ready: @escaping @Sendable () -> Void)
    /// Ends `follow`, unless `isNeeded` returns `true` when this is carried out.
    func stopFollowing(unless isNeeded: @escaping @Sendable () -> Bool)
}
