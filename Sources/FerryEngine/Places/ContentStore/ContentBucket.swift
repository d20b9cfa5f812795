import Curl
import FerryCore

/// The bucket of the content store, and how it is addressed (`FERRY_CONTENT_STORE`). A pure value.
package struct ContentBucket: Sendable, Equatable {
    /// The store and the bucket; its key is empty.
    private let bucket: JobSpec.StoreObject
    /// Begin of all keys of this cluster, with a slash at its end.
    let prefix: String

    /// A setting that names no bucket.
    package struct Invalid: Error {
        /// One sentence.
        package let message: String

        package init(message: String) { self.message = message }
    }

    /// Reads `s3://bucket/prefix?endpoint=…&region=…&addressing=path`, in which the prefix and all parameters
    /// may be missing. `cluster` is the first part of each key after the prefix.
    package init(_ text: String, cluster: String) throws(Invalid) {
        let halves = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves[0].hasPrefix("s3://") else {
            throw Invalid(message: "It is neither file: nor s3://bucket/prefix?endpoint=….")
        }
        let address = halves[0].dropFirst(5)
        let names = address.split(separator: "/", omittingEmptySubsequences: true)
        guard let name = names.first, address.first != "/" else {
            throw Invalid(message: "It names no bucket.")
        }
        var object = JobSpec.StoreObject()
        object.bucket = String(name)
        for parameter in halves.count > 1 ? halves[1].split(separator: "&") : [] {
            let parts = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let text = parts.count > 1 ? parts[1] : ""
            let value = String(decoding: ContentDisposition.percentDecoded(text.utf8), as: UTF8.self)
            switch parts[0] {
            case "endpoint":
                // The caller says what is wrong.
                guard let url = try? WebURL.parse(value), url.path == "/", url.query == nil else {
                    throw Invalid(message: "Its endpoint is not the URL of a store, without a path.")
                }
                object.endpoint = value
            case "region":
                guard JobSpec.StoreObject.isRegion(value) else {
                    throw Invalid(message: "Its region has other characters than letters, digits, - and _.")
                }
                object.region = value
            case "addressing":
                guard let addressing = JobSpec.StoreObject.Addressing(rawValue: value) else {
                    throw Invalid(message: "Its addressing is neither virtual nor path.")
                }
                object.addressing = addressing
            default:
                throw Invalid(message: "It has the unknown parameter \(parts[0]).")
            }
        }
        let path = names.dropFirst().map(String.init) + [cluster]
        let isVisible = { (part: Substring) in part.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }
        guard names.allSatisfy({ $0 != "." && $0 != ".." && isVisible($0) }) else {
            throw Invalid(
                message: "Its bucket or prefix has parts that are . or .., or that are not visible ASCII.")
        }
        prefix = path.joined(separator: "/") + "/"
        object.key = prefix
        guard prefix.utf8.count <= Self.prefixByteCountMax, object.url != nil else {
            throw Invalid(message: "It makes no URL.")
        }
        bucket = object
    }

    /// Bytes of the prefix and the cluster together. A key has at most 1,024.
    private static let prefixByteCountMax = 512

    /// Returns the object of a key below the prefix.
    func object(_ key: String) -> JobSpec.StoreObject {
        var object = bucket
        object.key = prefix + key
        return object
    }

    /// Returns the address of the bucket itself; `nil` if a region makes none.
    func address(_ correction: StoreCorrection) -> WebURL? {
        var object = bucket
        object.key = "-"
        guard let url = object.address(correction), url.path.hasSuffix("/-") else { return nil }
        return try? WebURL.parse(url.origin + url.path.dropLast(1))
    }
}
