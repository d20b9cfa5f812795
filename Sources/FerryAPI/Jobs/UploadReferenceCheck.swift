internal import FerryCore
internal import HTTPServer

extension JobReferenceCheck {
    /// Calls `then` with the jobs, in which references to uploads are identifiers, and which depend on those
    /// that are not complete. Responds with an error for each upload that does not exist, unless the key was
    /// accepted before: the jobs of that time are then shown.
    func resolveUploads(
        _ jobs: [NewJob], _ request: RequestContext, _ key: Submission.Idempotency?, _ secrets: SecretSeal,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable ([NewJob]) -> Void
    ) {
        guard jobs.contains(where: \.spec.namesUploads) else { return then(jobs) }
        let named = Set(jobs.flatMap { $0.spec.namedUploads.map(\.upload) })
        uploads.prepareUploads(
            Array(named), tenant: request.tenant,
            reply: request.onSuccess { [earlier] found in
                do throws(InvalidFields) {
                    then(try Self.resolved(jobs, found, secrets, place))
                } catch {
                    earlier.find(key, request, then: { _ in then(jobs) }) { request.fail(Problem(error)) }
                }
            })
    }

    /// Calls `then` if the uploads exist that jobs of a schedule name by identifier, or if the key was
    /// accepted before. Names are looked up at each run. Otherwise responds with an error for each that does
    /// not exist.
    func checkUploads(
        of specs: [JobSpec], _ request: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        let named = specs.enumerated().flatMap { number, spec in
            spec.sourceUploads.compactMap { upload, pointer in
                if case .id = upload { (upload: upload, pointer: place(number) + pointer) } else { nil }
            }
        }
        guard !named.isEmpty else { return then() }
        uploads.prepareUploads(
            Array(Set(named.map(\.upload))), tenant: request.tenant,
            reply: request.onSuccess { [earlier] found in
                let known = NamedUploads(found)
                let errors = ValidationErrors()
                for (upload, pointer) in named where known[upload] == nil {
                    errors.add(pointer, "invalid_value", noSuchUpload)
                }
                guard !errors.isEmpty else { return then() }
                let problem = Problem(InvalidFields(errors.all))
                earlier.find(key, request, then: { _ in then() }) { request.fail(problem) }
            })
    }

    private static func resolved(
        _ jobs: [NewJob], _ found: [NamedUpload], _ secrets: SecretSeal, _ place: (Int) -> String
    ) throws(InvalidFields) -> [NewJob] {
        let known = NamedUploads(found)
        let errors = ValidationErrors()
        var resolved: [NewJob] = []
        for (number, job) in jobs.enumerated() {
            for (upload, pointer) in job.spec.namedUploads where known[upload] == nil {
                errors.add(place(number) + pointer, "invalid_value", noSuchUpload)
            }
            guard !job.spec.sourceUploads.isEmpty else {
                resolved.append(job)
                continue
            }
            var changed = job.request
            try changed.spec.nameUploads(known, at: place(number))
            resolved.append(
                NewJob(
                    id: job.id, tenant: job.tenant, changed, sealing: secrets, traceparent: job.traceparent,
                    retryOf: job.retryOf))
        }
        guard errors.all.isEmpty else { throw InvalidFields(errors.all) }
        return resolved
    }
}

extension JobSpec {
    fileprivate var namesUploads: Bool {
        !sourceUploads.isEmpty || schedule.dependencies.contains { $0.upload != nil }
    }
}

private let noSuchUpload = "No upload has this identifier or name."
