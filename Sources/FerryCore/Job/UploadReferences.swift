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

/// The uploads of a tenant that jobs name, by identifier and by name.
public struct NamedUploads: Sendable {
    private var known: [UploadReference: NamedUpload] = [:]

    /// Creates a directory of the uploads that were found.
    public init(_ found: [NamedUpload]) {
        for upload in found {
            known[.id(upload.id)] = upload
            if let name = upload.name { known[.name(name)] = upload }
        }
    }

    /// Returns the upload to which the reference leads, or `nil` if there is none.
    public subscript(reference: UploadReference) -> NamedUpload? { known[reference] }
}

extension JobSpec {
    /// The uploads whose bytes this job sends, with the JSON pointers of the references. Allocates nothing if
    /// there are none.
    public var sourceUploads: [(upload: UploadReference, pointer: String)] {
        switch (source, request.body) {
        case (.upload(let upload)?, _): return [(upload, "/source/upload")]
        case (.form(let parts, _)?, _):
            // Fields are texts; the file is the last part.
            guard case .upload(let upload)? = parts.last?.source else { return [] }
            return [(upload, "/source/upload")]
        case (_, let body?) where body.form == .multipart:
            return body.parts.enumerated().compactMap { index, part in
                guard case .upload(let upload) = part.source else { return nil }
                return (upload, "/request/body/multipart/\(index)/upload")
            }
        default: return []
        }
    }

    /// The identifiers of those uploads, each once, in a job that was submitted.
    public var sourceUploadIDs: [UploadID] {
        var ids: [UploadID] = []
        for (upload, _) in sourceUploads {
            if case .id(let id) = upload, !ids.contains(id) { ids.append(id) }
        }
        return ids
    }

    /// The uploads that this job names, with the JSON pointers of the references.
    public var namedUploads: [(upload: UploadReference, pointer: String)] {
        var named = sourceUploads
        for (index, dependency) in schedule.dependencies.enumerated() {
            if let upload = dependency.upload {
                named.append((.id(upload), "/schedule/depends_on/\(index)"))
            }
        }
        return named
    }

    /// Replaces the references to uploads by identifiers. Makes the job depend on the uploads that are not
    /// complete. Throws if it cannot depend on one. `pointer`: of the job. All uploads are known.
    public mutating func nameUploads(_ known: NamedUploads, at pointer: String) throws(InvalidFields) {
        for (reference, place) in sourceUploads {
            guard let upload = known[reference] else { continue }
            try depend(on: upload, "\(pointer)\(place)", at: pointer)
        }
        switch source {
        case .upload(let upload)?: source = .upload(known.identified(upload))
        case .form(var parts, let isList)?:
            parts.nameUploads(known)
            source = .form(parts, isList: isList)
        case .path?, .job?, .inline?, .object?, .server?, nil: break
        }
        request.body?.parts.nameUploads(known)
    }

    /// Makes the job depend on an upload that is not complete. `place`: pointer to the reference.
    private mutating func depend(
        on upload: NamedUpload, _ place: String, at pointer: String
    ) throws(InvalidFields) {
        guard !upload.isComplete, !schedule.dependencies.contains(.upload(upload.id)) else { return }
        if schedule.isDiscretionary {
            throw InvalidFields(
                place, "not_supported",
                "The upload is not complete. Dependencies of a discretionary job are not supported yet by "
                    + "this version of Ferry.")
        }
        if schedule.onDependencyFailure == .ignore {
            throw InvalidFields(
                "\(pointer)/schedule/on_dependency_failure", "invalid_combination",
                "This must be fail: an upload that the job sends is not complete.")
        }
        guard schedule.dependencies.count < Limits.dependencyCountMax else {
            throw InvalidFields(
                place, "too_many",
                "A job has at most \(Limits.dependencyCountMax) dependencies, the upload included.")
        }
        schedule.dependencies.append(.upload(upload.id))
    }
}

extension NamedUploads {
    /// Returns the reference by identifier.
    fileprivate func identified(_ reference: UploadReference) -> UploadReference {
        self[reference].map { .id($0.id) } ?? reference
    }
}

extension [JobSpec.Part] {
    fileprivate mutating func nameUploads(_ known: NamedUploads) {
        for index in indices {
            if case .upload(let upload) = self[index].source {
                self[index].source = .upload(known.identified(upload))
            }
        }
    }
}
