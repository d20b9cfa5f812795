import FerryCore
import FerryEngine

/// The place of results without a destination, and of kept bodies (`FERRY_CONTENT_STORE`).
package enum ContentStoreSetting: Sendable, Equatable {
    /// Files of each node; `nil` for the directory of a node that names none.
    case files(directory: String?)
    /// Objects of a bucket, as the setting names it.
    case bucket(String)

    /// Reads `file:`, `file:` with an absolute path, or `s3://bucket/prefix?endpoint=…`.
    init(_ text: String) throws(ContentBucket.Invalid) {
        guard text.hasPrefix("file:") else {
            // Whether it names a bucket does not depend on the cluster.
            _ = try ContentBucket(text, cluster: "cluster")
            self = .bucket(text)
            return
        }
        var path = String(text.dropFirst(5))
        if path.hasPrefix("///") { path.removeFirst(2) }
        guard path.isEmpty || path.hasPrefix("/") && !path.hasPrefix("//") else {
            throw ContentBucket.Invalid(message: "The path after file: is not absolute.")
        }
        self = .files(directory: path.isEmpty ? nil : path)
    }

    /// The directory that the setting names; `nil` if it names none.
    var directory: String? {
        if case .files(let directory) = self { directory } else { nil }
    }
}

extension ContentObjects.Settings {
    /// `bucket`: of the setting.
    init(
        _ configuration: Configuration, _ bucket: String, cluster: String
    ) throws(ContentBucket.Invalid) {
        self.init(
            try ContentBucket(bucket, cluster: cluster), accessKeyID: configuration.contentStoreAccessKeyID,
            secretAccessKey: configuration.contentStoreSecretAccessKey ?? "",
            sessionToken: configuration.contentStoreSessionToken)
    }
}
