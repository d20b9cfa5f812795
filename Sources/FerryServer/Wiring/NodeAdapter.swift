import FerryAPI
import FerryCore
import FerryEngine
import FerryStore

// The parts of the store that are ports of the API as they are.
extension JobQueries: JobReader {}
extension JobCommands: JobControl {}
extension SubmissionQueries: SubmissionReader {}
extension Dependencies: DependencyStore {}
extension QuestionAnswers: AnswerSink {}
extension BulkCommands: BulkOperationStore {}
extension GroupCommands: GroupStore {}
extension UploadCommands: UploadStore {}
extension SessionCommands: SessionStore {}
extension CookieCommands: CookieStore {}
extension CredentialCommands: CredentialStore {}
extension ScheduleCommands: ScheduleStore {}
extension WindowCommands: WindowStore {}
extension EventQueries: EventReader {}
extension WebhookCommands: WebhookStore {}
extension DeliveryQueries: DeliveryReader {}
extension HostCommands: HostStore {}
extension LimitCommands: LimitStore {}
extension TenantLimitCommands: TenantLimitStore {}
extension KeyCommands: KeyStore {}
extension OperatorCommands: ServiceControl {}
extension AuditCommands: AuditLog {}
extension EventTail: EventFeed {}
extension TenantCounts: TenantReader {}

extension StorePorts {
    /// The parts of the store.
    init(_ store: Store) {
        self.init(
            jobs: store.jobs, jobControl: store.jobCommands, submissions: store.submissionQueries,
            dependencies: store.dependencies, answers: store.questions, bulkOperations: store.bulkCommands,
            groups: store.groups, uploads: store.uploads, sessions: store.sessions,
            cookies: store.cookies, credentials: store.credentials,
            schedules: store.scheduleCommands,
            windows: store.windows, events: store.events, webhooks: store.webhooks,
            deliveries: store.deliveryQueries, hosts: store.hostCommands, limits: store.limits,
            tenantLimits: store.tenantLimits,
            keys: store.keys, control: store.operators, audit: store.audit)
    }
}

/// Operations of the API that the store and the engine of this node carry out together.
struct NodeAdapter: NodeOperations {
    let store: Store
    let places: Places
    let engine: Engine?
    let health: Health
    let throughput = Throughput()

    func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>) {
        let read = { @Sendable (running: AttemptSnapshot?) in
            store.jobs.attempts(of: id, tenant: tenant) { result in
                reply(
                    result.map { attempts in
                        var attempts = attempts
                        if let running { attempts.add(running) }
                        return attempts
                    })
            }
        }
        if let engine { engine.snapshot(of: id, reply: read) } else { read(nil) }
    }

    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        store.jobCommands.delete(id, tenant: tenant, revision: revision) { result in
            if case .success(let record) = result {
                places.removeContent(of: id, at: JobContent(record)?.location)
                if let point = ResumePoint(of: record) { engine?.forget(point) }
            }
            reply(result.map { _ in })
        }
    }

    func status(reply: @escaping Reply<ServiceStatus>) {
        store.status.read { result in
            reply(
                result.map { stored in
                    var status = ServiceStatus(stored)
                    status.isDatabaseOK = store.isReady
                    // Last measured by the engine.
                    status.storageFreeBytes = engine?.storageSpaces.map(\.free).min() ?? health.freeBytes
                    status.holdsDownloads = health.holdsDownloads
                    let counts = engine?.snapshot
                    let rates = throughput.rates(
                        received: counts?.bytesReceived ?? 0, sent: counts?.bytesSent ?? 0,
                        finished: store.metrics.recordedResults)
                    status.bytesReceivedPerSecond = rates.bytesReceived
                    status.bytesSentPerSecond = rates.bytesSent
                    status.jobsFinishedPerSecond = rates.jobsFinished
                    return status
                })
        }
    }
}
