package import FerryCore
package import Logging

/// What the store must be told.
package struct StoreConfiguration: Sendable {
    /// A libpq URI.
    package var url: String
    package var node: NodeID
    /// The host's name, for people.
    package var nodeName: String
    package var version: String
    /// Whether this node runs transfers. One that does not leases nothing.
    package var isWorker: Bool
    /// How many transfers this node may begin; shared by the lanes that lease.
    package var slots: WorkerSlots
    /// Closed while downloads are not to be leased here.
    package var downloads = DownloadAdmission()
    /// Where deliveries go as they are made; without places they wait until they are claimed.
    package var places = DeliveryCredits()
    /// A short keyed hash of credentials, by which host control tells requests with different ones apart.
    package var hashCredentials: @Sendable ([UInt8]) -> String
    /// The scopes of requests that are limited now; kept by the store.
    package var hosts = HostLimits()
    /// What holds until somebody changes it over the API.
    package var limits = TransferLimits()
    /// What is known of the sessions; the store keeps it current.
    package var sessions = SessionCache()
    /// Is told where the database answers.
    package var own = OwnEndpoints()
    package var clock: DatabaseClock
    /// Where schedules find the rules of their places.
    package var zones: any TimeZoneSource = KnownTimeZones()
    /// Encrypts what is not harmless in specs, sessions, responses, questions and attempts.
    package var seal: SecretSeal
    /// Opens sealed secrets; nil when they cannot be opened.
    package var openSecrets: @Sendable ([UInt8]) -> JobSecrets?
    /// Opens the sealed keys of a webhook endpoint; nil when they cannot be opened.
    package var openWebhookKeys: @Sendable ([UInt8]) -> WebhookKeys? = { _ in nil }
    /// Makes resume data of what it says; nil: there is none.
    package var sealResumePoint: @Sendable (ResumePoint) -> String? = { _ in nil }
    /// Whether to hear what other nodes notify; else only polling finds it.
    package var listens = true
    /// Unfinished jobs that one tenant may have.
    package var jobCountMax = Limits.unfinishedJobCountMax
    /// Seals the secrets of a job that somebody has changed.
    package var sealSecrets: @Sendable (JobSecrets) -> [UInt8]
    package var logger: Logger
    /// Seconds for which events are kept.
    package var eventRetention = Limits.eventRetentionSeconds
    /// Seconds for which finished jobs stay, at least, where their session does not say less.
    package var retentionSeconds = 604_800.0
    /// Of the jobs in one partition, by when they were made; nil: as fits the retention.
    package var historySeconds: Double?
    var historyWidthSeconds: Double { historySeconds ?? max(3_600, retentionSeconds / 4) }
    /// Seconds of silence after which a node has lost its jobs, and between its heartbeats.
    package var leaseSeconds = Limits.leaseSeconds
    package var heartbeatSeconds = Limits.heartbeatSeconds
    /// Where results wait for the next start that cannot be committed before the end; nil: they are lost, and
    /// their jobs run again.
    package var spool: ResultSpool?
    /// For how long a job is held at most for which there is no slot yet.
    package var heldSeconds = 0.1

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
