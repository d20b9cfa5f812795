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

    /// Replaces references to jobs, and returns the new dependencies. A job to which two others lead is named
    /// once. A source that is a job of the same batch is a dependency as well.
    public mutating func replaceReferences(_ jobs: [JobID: JobID]) -> [JobID] {
        var new: [JobID] = []
        var dependencies: [JobDependency] = []
        for var dependency in schedule.dependencies {
            if let job = dependency.job, let other = jobs[job] {
                new.append(other)
                dependency = .job(other)
            }
            if !dependencies.contains(dependency) { dependencies.append(dependency) }
        }
        guard !new.isEmpty else { return [] }
        schedule.dependencies = dependencies
        replaceSources(jobs)
        return new
    }

    private mutating func replaceSources(_ jobs: [JobID: JobID]) {
        switch source {
        case .job(let job)?:
            if let other = jobs[job] { source = .job(other) }
        case .form(var parts, let isList)?:
            parts.replaceSources(jobs)
            source = .form(parts, isList: isList)
        case .path?, .upload?, .inline?, .object?, .server?, nil: break
        }
        request.body?.parts.replaceSources(jobs)
    }

    /// Bytes of the file that came with an upload, which are the last ones of the payload; `nil` if none did.
    public var inlineFileByteCount: Int? {
        switch source {
        case .inline(let body)?: return body.byteCount
        case .form(let parts, _)?:
            guard case .inline(let body)? = parts.last?.source else { return nil }
            return body.byteCount
        case .path?, .job?, .upload?, .object?, .server?, nil: return nil
        }
    }
}

extension [JobSpec.Part] {
    fileprivate mutating func replaceSources(_ jobs: [JobID: JobID]) {
        for index in indices {
            if case .job(let job) = self[index].source, let other = jobs[job] {
                self[index].source = .job(other)
            }
        }
    }
}
