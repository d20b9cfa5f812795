// References of a job to staged uploads.

/// State of an upload that jobs name.
public struct NamedUpload: Sendable {
    public let id: UploadID
    /// Name that the client has given it, or `nil`.
    public let name: String?
    public let isComplete: Bool

    /// Creates a state.
    public init(id: UploadID, name: String?, isComplete: Bool) {
        self.id = id
        self.name = name
        self.isComplete = isComplete
    }
}

extension JobSpec {
    /// The upload that this job sends. Allocates nothing if there is none.
    public var sourceUpload: UploadReference? {
        switch source {
        case .upload(let upload)?: return upload
        case .form(let parts, _)?:
            // Fields are texts; the file is the last part.
            guard case .upload(let upload)? = parts.last?.source else { return nil }
            return upload
        default: return nil
        }
    }

    /// The identifier of that upload, in a job that was submitted.
    public var sourceUploadID: UploadID? { if case .id(let id)? = sourceUpload { id } else { nil } }

    /// The uploads that this job names, with the JSON pointers of the references.
    public var namedUploads: [(upload: UploadReference, pointer: String)] {
        var named: [(upload: UploadReference, pointer: String)] = []
        if let sourceUpload { named.append((sourceUpload, "/source/upload")) }
        for (index, dependency) in schedule.dependencies.enumerated() {
            if let upload = dependency.upload {
                named.append((.id(upload), "/schedule/depends_on/\(index)"))
            }
        }
        return named
    }

    /// Replaces the reference of the source by the identifier of the upload. Makes the job depend on it if it
    /// is not complete. Throws if the job cannot depend on it. `pointer`: of the job.
    public mutating func nameUpload(_ upload: NamedUpload, at pointer: String) throws(InvalidFields) {
        switch source {
        case .upload?: source = .upload(.id(upload.id))
        case .form(var parts, let isList)?:
            parts[parts.count - 1].source = .upload(.id(upload.id))
            source = .form(parts, isList: isList)
        default: return
        }
        guard !upload.isComplete, !schedule.dependencies.contains(.upload(upload.id)) else { return }
        if schedule.isDiscretionary {
            throw InvalidFields(
                "\(pointer)/source/upload", "not_supported",
                "The upload is not complete. Dependencies of a discretionary job are not supported yet by "
                    + "this version of Ferry.")
        }
        if schedule.onDependencyFailure == .ignore {
            throw InvalidFields(
                "\(pointer)/schedule/on_dependency_failure", "invalid_combination",
                "This must be fail: the upload that the job sends is not complete.")
        }
        guard schedule.dependencies.count < Limits.dependencyCountMax else {
            throw InvalidFields(
                "\(pointer)/source/upload", "too_many",
                "A job has at most \(Limits.dependencyCountMax) dependencies, the upload included.")
        }
        schedule.dependencies.append(.upload(upload.id))
    }
}
