/// The place where the bytes of a job are kept: a sink has committed them there, and a source opens them
/// again.
public enum ContentLocation: Sendable, Equatable {
    /// A file that Ferry names, below a directory of its own. The job's id determines its path.
    case managedFile
    /// A file at a path below the tenant's storage root.
    case namedFile(path: String)
    /// An object in the bucket of the content store, in place of a managed file. The key is below the prefix
    /// of the cluster.
    case object(key: String)

    /// Path below the tenant's storage root; `nil` if the job names none.
    public var path: String? {
        switch self {
        case .namedFile(let path): path
        case .managedFile, .object: nil
        }
    }

    /// Whether Ferry has chosen the name: the bytes go with their job, and count as stored by its tenant.
    public var isManaged: Bool { path == nil }
}

extension ContentLocation {
    /// Reads the object that `write` writes; `nil` for anything else.
    init?(_ json: JSON) {
        if let path = json["path"]?.string {
            self = .namedFile(path: path)
        } else if let key = json["object"]?.string {
            self = .object(key: key)
        } else if json["managed"]?.bool == true {
            self = .managedFile
        } else {
            return nil
        }
    }

    /// Writes an object with one member, whose name tells the kind of the location.
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        switch self {
        case .managedFile: writer.member("managed", true)
        case .namedFile(let path): writer.member("path", path)
        case .object(let key): writer.member("object", key)
        }
        writer.endObject()
    }
}

extension JobSpec {
    /// The location of the bytes that the job receives. A path with a slash at its end names a directory: the
    /// response completes it.
    public var contentLocation: ContentLocation {
        guard let destination, destination.object == nil, destination.server == nil else {
            return .managedFile
        }
        return .namedFile(path: destination.path)
    }
}
