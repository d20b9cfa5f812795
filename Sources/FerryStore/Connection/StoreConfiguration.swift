package import FerryCore
package import Logging

/// The settings of a `Store`.
package struct StoreConfiguration: Sendable {
    /// A libpq URI.
    package var url: String
    package var node: NodeID
    /// The host's name, for people.
    package var nodeName: String
    /// Address at which other nodes reach this one; `nil` to advertise none.
    package var nodeURL: String?
    package var version: String
    /// `true` if this node runs transfers. Other nodes lease nothing.
    package var isWorker: Bool
    /// Slots of this node, shared by all threads that lease.
    package var slots: WorkerSlots
    /// Closed while this node must not lease downloads.
    package var downloads = DownloadAdmission()
    /// Credits of this node's sender. A delivery that gets one is leased as it is made; others are claimed.
    package var credits = DeliveryCredits()
    /// Returns a short keyed hash of credentials, by which host control distinguishes requests.
    package var hashCredentials: @Sendable ([UInt8]) -> String
    /// The scopes of requests that are limited now; the store keeps it current.
    package var hosts = HostLimits()
    /// Limits until an operator changes them over the API.
    package var limits = TransferLimits()
    /// The limits of tenants; the store keeps it current.
    package var quotas = TenantQuotas()
    /// The sessions; the store keeps it current.
    package var sessions = SessionCache()
    /// Receives the addresses at which the database answers.
    package var own = OwnEndpoints()
    package var clock: DatabaseClock
    /// The time zone rules for schedules.
    package var zones: any TimeZoneSource = KnownTimeZones()
    /// Encrypts values that may be secret in specs, sessions, responses, questions and attempts.
    package var seal: SecretSeal
    /// Opens sealed secrets; `nil` if they cannot be opened.
    package var openSecrets: @Sendable ([UInt8]) -> JobSecrets?
    /// Opens the sealed keys of a webhook endpoint; `nil` if they cannot be opened.
    package var openWebhookKeys: @Sendable ([UInt8]) -> WebhookKeys? = { _ in nil }
    /// Makes resume data; `nil` if there is none.
    package var sealResumePoint: @Sendable (ResumePoint) -> String? = { _ in nil }
    /// Opens resume data; `nil` if this service has not made it.
    package var openResumePoint: @Sendable (String) -> ResumePoint? = { _ in nil }
    /// Policy for the addresses that jobs may use.
    package var egress = EgressPolicy()
    /// `true` to receive notifications of other nodes; else polling alone finds changes.
    package var listens = true
    /// `true` if `start` pauses the service, with deliveries, schedules and probes, until an operator resumes
    /// it.
    package var startsPaused = false
    /// Unfinished jobs that one tenant may have.
    package var jobCountMax = Limits.unfinishedJobCountMax
    /// Seals the secrets of a job that a client has changed.
    package var sealSecrets: @Sendable (JobSecrets) -> [UInt8]
    package var logger: Logger
    /// Seconds for which events are kept.
    package var eventRetention = Limits.eventRetentionSeconds
    /// Seconds for which finished jobs stay at least, unless their session has a shorter retention.
    package var retentionSeconds = 604_800.0
    /// Seconds of creation times in one partition of finished jobs; `nil` to derive it from the retention.
    package var historySeconds: Double?
    var historyWidthSeconds: Double { historySeconds ?? max(3_600, retentionSeconds / 4) }
    /// Seconds without a heartbeat after which a node has lost its jobs.
    package var leaseSeconds = Limits.leaseSeconds
    /// Seconds between heartbeats.
    package var heartbeatSeconds = Limits.heartbeatSeconds
    /// Seconds after which a prefetched job that has no slot goes back to the queue.
    package var heldSeconds = 0.1
    /// Maximum number of jobs that a node leases as it inserts them and holds in memory until it has a free
    /// slot; 10,000 take about 30 MB.
    package var heldSubmissionMax = 10_000

    package init(
        url: String, node: NodeID, nodeName: String, version: String, isWorker: Bool, slots: WorkerSlots,
        clock: DatabaseClock, logger: Logger, seal: SecretSeal,
        openSecrets: @escaping @Sendable ([UInt8]) -> JobSecrets?,
        sealSecrets: @escaping @Sendable (JobSecrets) -> [UInt8],
        hashCredentials: @escaping @Sendable ([UInt8]) -> String
    ) {
        self.seal = seal
        self.sealSecrets = sealSecrets
        self.hashCredentials = hashCredentials
        self.url = url
        self.node = node
        self.nodeName = nodeName
        self.version = version
        self.isWorker = isWorker
        self.slots = slots
        self.clock = clock
        self.openSecrets = openSecrets
        self.logger = logger
    }
}
