package import FerryCore

/// The ports that the store implements alone. Each handler takes those that it uses.
package struct StorePorts: Sendable {
    /// Reads jobs.
    let jobs: any JobReader
    /// Changes jobs.
    let jobControl: any JobControl
    /// Reads earlier submissions.
    let submissions: any SubmissionReader
    /// Prepares jobs for others that depend on them.
    let dependencies: any DependencyStore
    /// Takes answers to the questions of jobs.
    let answers: any AnswerSink
    /// Starts and shows bulk operations.
    let bulkOperations: any BulkOperationStore
    /// Creates, reads and closes groups.
    let groups: any GroupStore
    /// Stores staged uploads.
    let uploads: any UploadStore
    /// Reads and changes sessions.
    let sessions: any SessionStore
    /// Reads and changes the cookies of sessions.
    let cookies: any CookieStore
    /// Reads and changes credentials of sessions.
    let credentials: any CredentialStore
    /// Reads, changes and runs schedules.
    let schedules: any ScheduleStore
    /// Reads and changes the off-peak windows.
    let windows: any WindowStore
    /// Reads the log of events.
    let events: any EventReader
    /// Reads and changes webhook endpoints.
    let webhooks: any WebhookStore
    /// Reads deliveries, and redelivers them.
    let deliveries: any DeliveryReader
    /// Reads hosts, and changes their settings.
    let hosts: any HostStore
    /// Reads and changes the limits of the service.
    let limits: any LimitStore
    /// Reads and changes the limits of tenants.
    let tenantLimits: any TenantLimitStore
    /// Stores API keys.
    let keys: any KeyStore
    /// Pauses the service and drains nodes.
    let control: any ServiceControl
    /// Writes and reads the audit log.
    let audit: any AuditLog

    package init(
        jobs: any JobReader, jobControl: any JobControl, submissions: any SubmissionReader,
        dependencies: any DependencyStore, answers: any AnswerSink,
        bulkOperations: any BulkOperationStore, groups: any GroupStore, uploads: any UploadStore,
        sessions: any SessionStore, cookies: any CookieStore, credentials: any CredentialStore,
        schedules: any ScheduleStore, windows: any WindowStore, events: any EventReader,
        webhooks: any WebhookStore,
        deliveries: any DeliveryReader, hosts: any HostStore, limits: any LimitStore,
        tenantLimits: any TenantLimitStore, keys: any KeyStore, control: any ServiceControl,
        audit: any AuditLog
    ) {
        self.jobs = jobs
        self.jobControl = jobControl
        self.submissions = submissions
        self.dependencies = dependencies
        self.answers = answers
        self.bulkOperations = bulkOperations
        self.groups = groups
        self.uploads = uploads
        self.sessions = sessions
        self.cookies = cookies
        self.credentials = credentials
        self.schedules = schedules
        self.windows = windows
        self.events = events
        self.webhooks = webhooks
        self.deliveries = deliveries
        self.hosts = hosts
        self.limits = limits
        self.tenantLimits = tenantLimits
        self.keys = keys
        self.control = control
        self.audit = audit
    }
}
