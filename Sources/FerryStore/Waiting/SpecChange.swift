import FerryCore
import FerryScheduler
import Postgres

extension JobRequest {
    /// Reads a stored job without its payload. `nil` if its spec or secrets cannot be read.
    init?(_ stored: StoredJob, _ context: StoreContext) {
        guard let spec = stored.record.storedSpec.whole(opening: context.configuration.seal),
            let secrets = stored.secrets(context)
        else { return nil }
        self.init(spec, secrets)
    }

    /// Returns whether its requests differ from those of `before`.
    func sendsOtherRequests(than before: JobRequest) -> Bool {
        secrets != before.secrets || spec.request != before.spec.request
            || spec.redirects != before.spec.redirects
    }

    /// As `AttemptEdit.dropsNextRequest`.
    fileprivate func dropsNextRequest(of before: JobRequest) -> Bool {
        spec.kind == .upload
            ? !isSameLink(spec.request.url, before.spec.request.url) : sendsOtherRequests(than: before)
    }
}

extension Parameters {
    /// Appends whether the secrets have changed, and the sealed secrets to store if they have.
    mutating func appendSecrets(_ draft: JobRequest, _ before: JobRequest, _ context: StoreContext) {
        let isChanged = !draft.secrets.isIdentical(to: before.secrets)
        append(bool: isChanged)
        append(
            bytea: isChanged && !draft.secrets.isEmpty
                ? context.configuration.sealSecrets(draft.secrets) : nil)
    }
}

extension Parameters {
    /// The parameters of edit_spec.sql. `asks`: the job needs a confirmation before it begins. `isCommitted`:
    /// `true` if called outside of any transaction.
    static func spec(
        _ draft: JobRequest, _ before: JobRequest, _ stored: StoredJob, asks: Bool,
        _ connection: inout Connection, _ queueState: QueueState, isCommitted: Bool
    ) throws(PostgresError) -> Parameters {
        let (spec, record) = (draft.spec, stored.record)
        let origin = spec.request.webURL.origin
        let scope = queueState.scope(
            tenant: record.tenant, url: spec.request.url, origin: origin, draft.secrets)
        let name = queueState.claimQueueName(
            scope, session: spec.session, home: stored.home, queueState.context.sessions.current)
        let queue = try queueState.claimQueues.find([name], &connection, isCommitted: isCommitted)[name]?.id
        var parameters = Parameters()
        parameters.append(record.id)
        parameters.append(text: spec.encodeStored(queueState.context.configuration.seal))
        parameters.append(jsonb: spec.metadataJSON)
        parameters.append(float32: Float(spec.schedule.priority))
        parameters.append(spec.schedule.expiry(createdAt: record.createdAt))
        parameters.append(text: origin)
        parameters.append(int64: queue)
        parameters.append(
            spec.urgency(
                createdAt: record.createdAt,
                bytesPerSecond: queueState.hostState.throughputs.bytesPerSecond(origin)))
        parameters.append(bool: asks)
        parameters.appendSecrets(draft, before, queueState.context)
        parameters.append(text: scope.path)
        parameters.appendClaimFlags(of: spec)
        parameters.append(bool: draft.replacesPayload)
        parameters.append(bytea: draft.payload)
        parameters.append(bool: draft.dropsNextRequest(of: before))
        return parameters
    }
}
