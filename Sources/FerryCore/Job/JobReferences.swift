// What a job takes from elsewhere in the service, and what came along with it.

extension JobSpec {
    /// The jobs whose files it sends, each with its place in the job. No allocation where there is none.
    package var sourceJobs: [(job: JobID, pointer: String)] {
        switch (source, request.body) {
        case (.job(let job)?, _): return [(job, "/source/job")]
        case (.form(let parts)?, _):
            // Its fields are texts; the file comes last.
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

    /// Of an upload whose file came along with it: how many bytes that has, the last ones of the payload.
    package var inlineFileByteCount: Int? {
        switch source {
        case .inline(let body)?: return body.byteCount
        case .form(let parts)?:
            guard case .inline(let body)? = parts.last?.source else { return nil }
            return body.byteCount
        case .path?, .job?, nil: return nil
        }
    }
}

extension JobDecoding {
    /// A file that came along has the size that it shall have.
    func checkSize(_ spec: JobSpec, at prefix: String) {
        guard let size = spec.integrity.size, let given = spec.inlineFileByteCount, size != given else {
            return
        }
        complaints.add(
            "\(prefix)/integrity/size", "invalid_combination", "The source has \(given) bytes.")
    }
}
