// What the API asks of the rest of Ferry. Every reply is called exactly once, on a thread that must not
// block.
package import FerryCore

/// Reads jobs. A job of another tenant is `notFound`.
package protocol JobReader: JobLookup {
    /// Records without bodies.
    func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>)
    func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>)
}

/// Changes jobs. `revision`: what `If-Match` names; another one of the job is `stale`, nil is no condition.
package protocol JobControl: Sendable {
    /// Cancels a job, or asks the node that runs it to: the record may still say `running`. A terminal job is
    /// `invalidState`. `keepsBytes`: leaves what a download has got to another job (`resume_data`).
    func cancel(
        _ id: JobID, tenant: String, revision: Int32?, keepsBytes: Bool, reply: @escaping Reply<JobRecord>)
    /// Suspends a job, or asks the node that runs it to: the record may still say `running`. A suspended or
    /// terminal job is `invalidState`.
    func suspend(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>)
    /// Lets a suspended job go on; any other is `invalidState`.
    func resume(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>)
    /// Notes that the result of a terminal job has arrived; once more it changes nothing. Any other is
    /// `invalidState`, one that does not ask for it `notAwaited`.
    func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>)
    /// Deletes a terminal job with the file that the service keeps for it; any other is `invalidState`.
    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Reads a terminal job as something to submit again; any other is `invalidState`.
    func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>)
}

/// What a finished job leaves for a repetition.
package struct RetrySource: Sendable {
    package let record: JobRecord
    package let secrets: JobSecrets
    /// The bytes of an inline source or body; nil when there were none or they are not kept.
    package let payload: [UInt8]?

    package init(record: JobRecord, secrets: JobSecrets, payload: [UInt8]?) {
        self.record = record
        self.secrets = secrets
        self.payload = payload
    }
}

/// Reads deliveries with their tries, and makes one due again.
package protocol DeliveryReader: Sendable {
    /// Of one job, newest first, only those before `before`; a job that is not the tenant's is `notFound`.
    func deliveries(
        of job: JobID, tenant: String, before: DeliveryID?, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>)
    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
    /// Due at once, whatever became of it before.
    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
}

/// Where API keys are kept, revoked ones included.
package protocol KeyStore: Sendable {
    func keys(reply: @escaping Reply<[APIKey]>)
    /// Newest first, only those before `before`.
    func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>)
    func key(_ id: KeyID, reply: @escaping Reply<APIKey>)
    func create(_ new: NewKey, reply: @escaping Reply<KeyCreation>)
    /// For good; `notFound` when there is no such key, or none that is valid.
    func revoke(_ id: KeyID, reply: @escaping Reply<Void>)
}

/// `GET /v1/admin/status`.
package struct ServiceStatus: Sendable {
    package var store: StoreStatus
    package var bytesReceivedPerSecond: Double = 0
    package var bytesSentPerSecond: Double = 0
    package var jobsFinishedPerSecond: Double = 0
    package var isDatabaseOK = true
    package var storageFreeBytes: Int64?
    /// Whether the node that answers starts no downloads, because there is too little room.
    package var holdsDownloads = false

    package init(_ store: StoreStatus) { self.store = store }
}

/// Exact about unfinished work, and cheap.
package protocol StatusSource: Sendable {
    func status(reply: @escaping Reply<ServiceStatus>)
    func nodes(reply: @escaping Reply<[NodeStatus]>)
}

/// Bytes that can be sent: an open regular file. Whoever receives it closes the descriptor.
package struct OpenContent: Sendable {
    package let descriptor: Int32
    package let byteCount: Int64
    package init(descriptor: Int32, byteCount: Int64) {
        self.descriptor = descriptor
        self.byteCount = byteCount
    }
}

/// Requests of a tenant that may wait until files have been compared with their digests.
package let contentWaiterCountMax = 64

/// Opens the file of a succeeded job. `notFound`: it is not there any more; `overloaded`: too many requests
/// wait for that to be known.
package protocol ContentStore: Sendable {
    func open(_ job: JobRecord, reply: @escaping Reply<OpenContent>)
}

/// The log of events. A job of another tenant is `notFound`.
package protocol EventReader: Sendable {
    /// What was committed before the call is among them.
    func events(_ query: EventQuery, reply: @escaping Reply<ListPage<EventEntry, EventKindTag>>)
    /// Newest first.
    func events(
        of job: JobID, tenant: String, before: EventID?, limit: Int, reply: @escaping Reply<[EventEntry]>)
    /// What follows an event, in its order.
    func events(
        of job: JobID, tenant: String, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>)
    /// What follows an event, in its order.
    func replay(
        tenant: String, session: String?, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>)
    /// Not before any event that was committed until now; zero: there was none.
    func lastEvent(reply: @escaping Reply<EventID>)
    /// Gives the sink what gets its number from now on. `ready`: from here on nothing is missed.
    func follow(_ sink: any EventSink, ready: @escaping @Sendable () -> Void)
    /// Ends that, unless `isNeeded` when its turn has come.
    func stopFollowing(unless isNeeded: @escaping @Sendable () -> Bool)
}
