import Curl
import FerryCore

/// A request of a multipart upload to a store: what it adds to a request to the address of the object. A pure
/// value.
struct MultipartRequest: Sendable, Equatable {
    enum Kind: Sendable, Equatable {
        /// Begins the upload (`CreateMultipartUpload`).
        case create
        /// Asks which parts the store has, after the part with that number (`ListParts`).
        case list(after: Int)
        /// Sends a part (`UploadPart`).
        case part(Int)
        /// Makes the object of the parts (`CompleteMultipartUpload`).
        case complete
        /// Asks for the object itself (`HeadObject`).
        case look
        /// Removes the upload with its parts (`AbortMultipartUpload`).
        case abort
    }

    let kind: Kind
    /// Identifier of the upload; empty for requests without one.
    var upload = ""
    /// Digests of the bytes that are sent.
    var payload = PayloadDigests.empty
    /// Digests of the whole object, for `complete`; else `nil`.
    var object: PayloadDigests?
    /// Media type of the object if the job names none; `nil` if that is unknown.
    var contentType: String?

    /// Entries that the store lists at once.
    static let listedPartCountMax = 1_000

    var method: String {
        switch kind {
        case .create, .complete: "POST"
        case .list: "GET"
        case .part: "PUT"
        case .look: "HEAD"
        case .abort: "DELETE"
        }
    }

    var sendsBody: Bool {
        switch kind {
        case .part, .complete: true
        case .create, .list, .look, .abort: false
        }
    }

    /// Returns the URL of the request. `object`: that of the object. `nil` if the identifier makes it too
    /// long.
    func url(of object: WebURL) -> WebURL? {
        guard let query else { return object }
        return try? WebURL.parse("\(object.string)?\(query)")
    }

    private var query: String? {
        let id = "uploadId=\(percentEncoded(upload))"
        switch kind {
        case .create: return "uploads="
        case .list(let part):
            let marker = part == 0 ? "" : "&part-number-marker=\(part)"
            return "max-parts=\(Self.listedPartCountMax)\(marker)&\(id)"
        case .part(let number): return "partNumber=\(number)&\(id)"
        case .complete, .abort: return id
        case .look: return nil
        }
    }

    /// Returns the fields of the request that members of `destination` stand for. `checksum`: the algorithm
    /// that the job asks for.
    func fields(
        of destination: JobSpec.ObjectDestination, _ checksum: DigestAlgorithm?, mayReplace: Bool
    ) -> [JobSpec.Pair] {
        switch kind {
        case .create:
            var fields = destination.kept
            if let checksum {
                fields.append(.init("x-amz-checksum-algorithm", checksum.rawValue.uppercased()))
                fields.append(.init("x-amz-checksum-type", checksum.storeType))
            }
            return fields
        case .part: return payload.checksumField.map { [$0] } ?? []
        case .complete:
            var fields: [JobSpec.Pair] = []
            if let checksum, checksum.coversObject, let field = object?.checksumField {
                fields += [field, .init("x-amz-checksum-type", checksum.storeType)]
            }
            if !mayReplace { fields.append(.init("If-None-Match", "*")) }
            return fields
        case .look: return [.init("x-amz-checksum-mode", "ENABLED")]
        case .list, .abort: return []
        }
    }

    /// Returns whether the request has a field of the job, by its name in lower case. Fields that describe
    /// the object are for the request that creates the upload, and conditions for the one that completes it.
    func has(_ name: String) -> Bool {
        let isCondition = name.hasPrefix("if-")
        let isAboutObject =
            name.hasPrefix("content-") || name.hasPrefix("x-amz-") || name == "cache-control"
            || name == "expires"
        // The digests and the key are those of the one request that the job would be.
        if ["content-md5", "content-digest", "repr-digest", "digest", "idempotency-key"].contains(name) {
            return false
        }
        if Self.isForAll(name) { return true }
        return switch kind {
        case .create: !isCondition
        case .complete: !isAboutObject
        case .list, .part, .look, .abort: !isAboutObject && !isCondition
        }
    }

    /// Whether a field is about the account, or has the client's own key for the encryption.
    private static func isForAll(_ name: String) -> Bool {
        name == "x-amz-expected-bucket-owner" || name == "x-amz-request-payer"
            || name.hasPrefix("x-amz-server-side-encryption-customer-")
    }
}

extension DigestAlgorithm {
    /// Whether the store keeps one checksum of all bytes, not one of the checksums of parts.
    fileprivate var coversObject: Bool { self == .crc32c || self == .crc64nvme }
    fileprivate var storeType: String { coversObject ? "FULL_OBJECT" : "COMPOSITE" }
}

extension TransferRequest {
    /// Leaves out the fields that the request of a multipart upload does not have, and sets its body.
    mutating func take(_ own: MultipartRequest) {
        headers.removeAll { !own.has($0.name.lowercased()) }
        if own.kind == .create, let type = own.contentType,
            !headers.contains(where: { equalIgnoringCase($0.name, "content-type") })
        {
            headers.append(.init("Content-Type", type))
        }
        if own.sendsBody { body = .known(own.payload.byteCount) }
    }
}
