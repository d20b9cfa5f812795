import FerryCore
import Logging

extension Attempt {
    /// Returns `true` if an earlier attempt was lost with its node and may have sent a request that must not
    /// be sent twice.
    func mayHaveActed(before stored: StoredJob) -> Bool {
        guard let error = stored.record.storedError, !spec.isRequestRepeatable else {
            return false
        }
        return error == .attemptLost
    }

    /// Makes an attempt of a leased row. `nil` if its spec or secrets cannot be read.
    convenience init?(_ stored: StoredJob, _ queueState: QueueState) {
        let fromRow = stored.record.storedSpec
        let storedSpec = queueState.specs.take(stored.record.id, json: fromRow.json) ?? fromRow
        guard let spec = storedSpec.whole(opening: queueState.context.configuration.seal),
            let secrets = stored.secrets(queueState.context)
        else { return nil }
        let record = stored.record
        self.init(
            job: record.id, number: record.attempt, failedAttemptCount: record.failedAttemptCount,
            revision: record.revision, tenant: record.tenant, createdAt: record.createdAt,
            startedAt: record.startedAt ?? record.createdAt, spec: spec,
            storedSpec: storedSpec, secrets: secrets, sealedSecrets: stored.sealedSecrets,
            payload: stored.payload, origin: stored.origin,
            scopePath: queueState.scope(
                tenant: record.tenant, url: spec.request.url, origin: stored.origin, secrets
            ).path, traceparent: stored.traceparent,
            retryOf: record.retryOf, isCancelRequested: stored.isCancelRequested, home: stored.home,
            nextRequest: stored.nextRequest(queueState.context),
            session: queueState.context.cookies.session(of: spec, tenant: record.tenant))
    }
}

extension StoredJob {
    /// Returns the request with which this attempt begins, if an attempt before has named it.
    fileprivate func nextRequest(_ context: StoreContext) -> NextRequest? {
        guard let sealedNextRequest else { return nil }
        do throws(StoredJSONError) {
            return try NextRequest(sealed: sealedNextRequest, opening: context.configuration.seal)
                .valid(for: record.attempt)
        } catch {
            context.logger.warning(
                "the next request cannot be read: the job begins with its own",
                metadata: ["job.id": "\(record.id)", "error": "\(error)"])
            return nil
        }
    }

    /// Returns the job's secrets; `nil` if they cannot be decrypted.
    func secrets(_ context: StoreContext) -> JobSecrets? {
        guard let sealedSecrets else { return JobSecrets() }
        return context.configuration.openSecrets(sealedSecrets)
    }
}
