package import FerryCore

/// The job or the staged upload that an object of the content store belongs to, as its key tells.
package enum ContentOwner: Sendable, Hashable {
    case job(JobID)
    case upload(UploadID)

    /// Folders of the keys of all contents.
    static let folders = ["jobs/", "uploads/"]

    /// Reads a key below the prefix of the cluster. `nil` for keys that Ferry does not write.
    init?(key: String) {
        let parts = key.split(separator: "/", omittingEmptySubsequences: false)
        if let piece = PieceKey(key), piece.text == key {
            self = .job(piece.job)
            return
        }
        guard parts.count == 3 else { return nil }
        if parts[0] == "jobs", let job = JobID(String(parts[1])), job.description == parts[1] {
            let attempt = parts[2].split(separator: "-", omittingEmptySubsequences: false)
            guard attempt.count == 2, Int32(attempt[0])?.description == String(attempt[0]),
                hexDecoded(attempt[1])?.count == 4
            else { return nil }
            self = .job(job)
        } else if parts[0] == "uploads", let upload = UploadID(String(parts[1])),
            upload.description == parts[1], hexDecoded(parts[2])?.count == 8
        {
            self = .upload(upload)
        } else {
            return nil
        }
    }
}
