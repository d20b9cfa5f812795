// References of a job to other jobs, and files that came with it.

extension JobSpec {
    /// The jobs whose files this one sends, with the JSON pointers of the references. Allocates nothing if
    /// there are none.
    public var sourceJobs: [(job: JobID, pointer: String)] {
        switch (source, request.body) {
        case (.job(let job)?, _): return [(job, "/source/job")]
        case (.form(let parts, _)?, _):
            // Fields are texts; the file is the last part.
            guard case .job(let job)? = parts.last?.source else { return [] }
            return [(job, "/source/job")]
        case (_, let body?) where body.form == .multipart:
            return body.parts.enumerated().compactMap { index, part in
                guard case .job(let job) = part.source else { return nil }
                return (job, "/request/body/multipart/\(index)/job")
            }
        default: return []
        }
    }

    /// Replaces references to jobs, and returns the new ones. A job to which two others lead is named once.
    public mutating func replaceReferences(_ jobs: [JobID: JobID]) -> [JobID] {
        var new: [JobID] = []
        var dependencies: [JobID] = []
        for dependency in schedule.dependsOn {
            let job = jobs[dependency] ?? dependency
            if job != dependency { new.append(job) }
            if !dependencies.contains(job) { dependencies.append(job) }
        }
        if !new.isEmpty { schedule.dependsOn = dependencies }
        return new
    }

    /// Bytes of the file that came with an upload, which are the last ones of the payload; `nil` if none did.
    public var inlineFileByteCount: Int? {
        switch source {
        case .inline(let body)?: return body.byteCount
        case .form(let parts, _)?:
            guard case .inline(let body)? = parts.last?.source else { return nil }
            return body.byteCount
        case .path?, .job?, nil: return nil
        }
    }
}
