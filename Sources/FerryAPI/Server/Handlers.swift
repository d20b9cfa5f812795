internal import FerryCore

/// The handlers of all operations. Each holds only the ports that it uses.
final class Handlers: Sendable {
    let jobCreation: JobCreation
    let batchCreation: BatchCreation
    let jobRetry: JobRetry
    let jobReading: JobReading
    let jobListing: JobListing
    let jobCommands: JobCommands
    let jobAnswers: JobAnswers
    let bulkOperations: BulkOperationHandlers
    let groups: GroupHandlers
    let groupOperations: GroupOperations
    let uploads: UploadHandlers
    let content: ContentHandlers
    let sessions: SessionHandlers
    let cookies: CookieHandlers
    let credentials: CredentialHandlers
    let schedules: ScheduleHandlers
    let windows: WindowHandlers
    let events: EventHandlers
    let webhooks: WebhookHandlers
    let deliveries: DeliveryHandlers
    let status: StatusHandlers
    let limits: LimitHandlers
    let hosts: HostHandlers
    let keys: KeyHandlers
    let serviceControl: ServiceControlHandlers
    let tenantLimits: TenantLimitHandlers
    let contentStore: ContentStoreHandlers
    let audit: AuditTrail
    let probes: ProbeHandlers
    let documents = DocumentHandlers()

    init(
        _ configuration: APIConfiguration, _ ports: APIPorts, _ identifiers: IdentifierGenerator,
        keys table: KeyTable, audit: AuditTrail, streams: EventStreams,
        followers: ContentFollowers, batches: BatchThread
    ) {
        var node = NodeAbilities.reading(hasHTTP3: configuration.hasHTTP3, hasNTLM: configuration.hasNTLM)
        node.retentionSeconds = configuration.retentionSeconds
        node.connectionsPerHostMax = ports.store.sessions.sessionCache.current.connectionsPerHostMax
        let view = JobView(ports)
        let wait = JobWait(ports)
        let validation = JobValidation(ports, node)
        let earlier = EarlierSubmissions(ports.store.submissions)
        let references = JobReferenceCheck(ports.store, earlier)
        let factory = JobFactory(identifiers, ports.secrets)
        let submission = JobSubmission(ports, view, wait, earlier, batches)
        jobCreation = JobCreation(validation, factory, references, submission)
        batchCreation = BatchCreation(
            ports.submissions, identifiers, validation, factory, references, earlier, batches)
        jobRetry = JobRetry(ports, identifiers, references, submission)
        jobReading = JobReading(ports, view, wait)
        jobListing = JobListing(ports.store, view)
        jobCommands = JobCommands(ports, validation, view, wait)
        jobAnswers = JobAnswers(ports, node, view)
        bulkOperations = BulkOperationHandlers(ports.store.bulkOperations, identifiers)
        groups = GroupHandlers(ports, node, identifiers)
        groupOperations = GroupOperations(ports.store.groups, bulkOperations)
        content = ContentHandlers(ports, followers)
        uploads = UploadHandlers(
            UploadServices(
                store: ports.store.uploads, files: ports.uploads, content: ports.content, node: ports.id,
                quotas: ports.quotas,
                clock: ports.clock, identifiers: identifiers, others: ports.others,
                byteCountMax: configuration.uploadByteCountMax,
                retentionSeconds: configuration.retentionSeconds))
        sessions = SessionHandlers(ports, node)
        cookies = CookieHandlers(ports)
        credentials = CredentialHandlers(ports, node)
        schedules = ScheduleHandlers(ports, identifiers, validation, references, view, batches)
        windows = WindowHandlers(ports)
        events = EventHandlers(ports.store, streams)
        webhooks = WebhookHandlers(ports, node, identifiers)
        deliveries = DeliveryHandlers(ports)
        status = StatusHandlers(ports, version: configuration.version)
        limits = LimitHandlers(ports.store.limits)
        hosts = HostHandlers(ports.store.hosts)
        keys = KeyHandlers(ports, identifiers, table)
        serviceControl = ServiceControlHandlers(ports)
        tenantLimits = TenantLimitHandlers(ports.store.tenantLimits)
        contentStore = ContentStoreHandlers(ports)
        self.audit = audit
        probes = ProbeHandlers(ports)
    }
}
