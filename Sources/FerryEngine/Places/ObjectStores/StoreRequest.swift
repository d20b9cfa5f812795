import Curl
import FerryCore

/// Facts that a store's response has told about requests to it.
struct StoreCorrection: Sendable, Equatable {
    /// Region of the bucket; `nil` for that of the job.
    var region: String?
    /// Seconds by which the store's clock is ahead of the node's.
    var clockOffset = 0.0
}

/// The part of a hop that only a request to a store has.
struct StoreHop: Sendable, Equatable {
    /// Facts that the store has told.
    var correction = StoreCorrection()
    /// The request of a multipart upload; `nil` for the job's own request.
    var request: MultipartRequest?
}

/// Values of a body that a request to a store names before the body is sent.
struct PayloadDigests: Sendable, Equatable {
    /// SHA-256 in lower-case hexadecimal.
    let sha256: String
    /// A checksum that the store compares with the bytes.
    struct Checksum: Sendable, Equatable {
        let algorithm: DigestAlgorithm
        let value: [UInt8]
    }

    /// The checksum that the job asks for; `nil` if it asks for none.
    let checksum: Checksum?
    /// Number of bytes.
    let byteCount: Int64
    /// MD5, if an object that exists may have to be compared with the bytes; else `nil`.
    var md5: [UInt8]?

    /// SHA-256 of nothing.
    static let empty = PayloadDigests(
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", checksum: nil,
        byteCount: 0)
}

extension JobSpec {
    /// Algorithm of the checksum that the job asks its store to compare; `nil` if it asks for none.
    var storeChecksum: DigestAlgorithm? {
        switch destination?.object?.checksum {
        case .sha256: .sha256
        case .crc32c: .crc32c
        case .crc64nvme: .crc64nvme
        case nil: nil
        }
    }
}

extension JobSpec {
    /// Whether an object that exists may have to be compared with the body, because the response to the one
    /// request that sends it is lost.
    func comparesObject(_ byteCount: Int64?) -> Bool {
        isSentToStore && destination?.ifExists == .fail
            && byteCount ?? .max <= Limits.singlePutByteCountMax
    }
}

extension TransferRequest {
    /// Adds the fields of a request to a store, and signs it if there is a key and the hop may have
    /// credentials. `payload`: of the body that is sent. The clock of the signature is the store's, as far as
    /// it has told.
    mutating func addStoreFields(
        for object: JobSpec.StoreObject, of attempt: Attempt, _ hop: Hop, _ payload: PayloadDigests,
        key: AccessKey?, at now: Timestamp
    ) {
        let own = hop.store?.value.request
        if let destination = attempt.spec.destination?.object {
            let mayReplace = attempt.spec.destination?.ifExists != .fail
            if let own {
                let fields = own.fields(of: destination, attempt.spec.storeChecksum, mayReplace: mayReplace)
                headers += fields.map { .init($0.name, $0.value) }
            } else if hop.sendsBody {
                addFields(of: destination, payload, mayReplace: mayReplace)
            }
        }
        if hop.method == "GET", own == nil { headers.append(.init("x-amz-checksum-mode", "ENABLED")) }
        let correction = hop.store?.value.correction
        // A redirect may lead to another origin, also where the job allows credentials.
        guard let key, hop.keepsCredentials, object.address(correction).map(hop.url.isSameOrigin) ?? false
        else { return }
        let signer = StoreSigner(region: object.region(correction), credential: key)
        headers.removeAll { field in
            ["authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"].contains {
                equalIgnoringCase($0, field.name)
            }
        }
        headers += signer.fields(
            method: hop.method, url: hop.url, headers: headers, payloadHash: payload.sha256,
            at: now + (correction?.clockOffset ?? 0))
    }

    private mutating func addFields(
        of object: JobSpec.ObjectDestination, _ payload: PayloadDigests, mayReplace: Bool
    ) {
        headers += object.kept.map { .init($0.name, $0.value) }
        if let field = payload.checksumField { headers.append(.init(field.name, field.value)) }
        if !mayReplace { headers.append(.init("If-None-Match", "*")) }
    }
}

extension JobSpec.ObjectDestination {
    /// Fields of what the store is to keep with the object.
    var kept: [JobSpec.Pair] {
        var fields: [JobSpec.Pair] = []
        if let storageClass { fields.append(.init("x-amz-storage-class", storageClass)) }
        if let encryption { fields.append(.init("x-amz-server-side-encryption", encryption)) }
        for pair in metadata { fields.append(.init("x-amz-meta-" + pair.name, pair.value)) }
        return fields
    }
}

extension PayloadDigests {
    /// The field with the checksum; `nil` if there is none.
    var checksumField: JobSpec.Pair? {
        checksum.map { .init("x-amz-checksum-\($0.algorithm.rawValue)", Base64.encode($0.value)) }
    }
}

extension Attempt {
    /// Returns the key that signs requests for the job's object: its own, else that of the node where the
    /// operator allows it. `nil` for requests without signature.
    func storeKey(_ node: NodeCredentials?) -> AccessKey? {
        guard let object = spec.storeObject else { return nil }
        guard let credential = object.credential else { return node?.key(for: object, of: tenant) }
        let secrets = secrets.connection
        return secrets?.secretAccessKey.map { secret in
            AccessKey(
                accessKeyID: credential.accessKeyID, secretAccessKey: secret,
                sessionToken: secrets?.sessionToken)
        }
    }
}

extension Attempt {
    /// Whether the request to a store names the digest of its body, which therefore has to be known first.
    func namesDigestOfBody(_ node: NodeCredentials?) -> Bool {
        spec.isSentToStore && (spec.storeChecksum != nil || storeKey(node) != nil)
    }
}

extension JobSpec.StoreObject {
    func region(_ correction: StoreCorrection?) -> String {
        correction?.region ?? region ?? Self.standardRegion
    }

    /// URL of the object in the region that its store has named.
    func address(_ correction: StoreCorrection?) -> WebURL? { url(in: region(correction)) }
}

extension Hop {
    /// Returns the request that a store's response asks for in place of this one: in another region, or with
    /// the time of the store's clock. `nil` if it asks for none, or has got such a request.
    func corrected(_ head: ResponseHead, for spec: JobSpec, now: Timestamp) -> Hop? {
        guard let object = spec.storeObject, keepsCredentials else { return nil }
        let before = store?.value.correction ?? StoreCorrection()
        guard
            let correction = before.corrected(
                by: head.status, region: head.first("x-amz-bucket-region"), date: head.first("date"),
                of: object, now: now)
        else { return nil }
        var next = self
        // Only the hosts of Amazon S3 name a region.
        if correction.region != before.region, object.isInAmazonS3, let url = object.address(correction) {
            next.url = store?.value.request?.url(of: url) ?? url
        }
        next.store = Boxed(StoreHop(correction: correction, request: store?.value.request))
        return next
    }
}

extension StoreCorrection {
    /// Seconds by which two clocks differ before a refused signature may be due to them. Stores allow 15
    /// minutes.
    private static let clockOffsetMin = 300.0

    /// Returns these facts with what a store's response tells; `nil` if it asks for no other request, or has
    /// got such a request. `region`: `x-amz-bucket-region`. `date`: `Date`.
    func corrected(
        by status: Int, region named: String?, date: String?, of object: JobSpec.StoreObject, now: Timestamp
    ) -> StoreCorrection? {
        guard [301, 307, 400, 403].contains(status) else { return nil }
        var next = self
        if region == nil, let named, named != object.region(self), JobSpec.StoreObject.isRegion(named),
            object.url(in: named) != nil
        {
            next.region = named
        } else if clockOffset == 0, status == 403,
            let date = date.flatMap({ Timestamp(httpDate: $0, now: now) }),
            abs(date - now) > Self.clockOffsetMin
        {
            next.clockOffset = date - now
        } else {
            return nil
        }
        return next
    }
}

extension AttemptResult {
    /// The result with the store's own reason for a refusal, if it has given one. `retry.statuses` decides
    /// about repetitions where the job has it. The excerpt of a response to a temporary key is left out: it
    /// may repeat the token. `attempt`: whose request the response answers. `node`: the node's own key.
    func explainedByStore(of attempt: Attempt, _ node: NodeCredentials?) -> AttemptResult {
        guard case .failed(let error, let retryAfter) = outcome,
            [.unacceptableStatus, .authenticationRequired].contains(error.code),
            attempt.spec.storeObject != nil, let response
        else { return self }
        let token = attempt.storeKey(node)?.sessionToken
        let document = response.bodyExcerpt.flatMap { StoreErrorDocument(Array($0.utf8), token: token) }
        guard let document else { return token == nil ? self : with(outcome, keepsExcerpt: false) }
        let explained = error.explained(by: document, status: response.status, for: attempt.spec)
        return with(.failed(explained, retryAfter: retryAfter), keepsExcerpt: token == nil)
    }
}

extension TransferError {
    /// Returns the error with the reason that the store has given. `retry.statuses` decides about repetitions
    /// where the job has it.
    func explained(by document: StoreErrorDocument, status: Int, for spec: JobSpec) -> TransferError {
        let reason = document.error(
            status: status, ifExistsFails: spec.destination?.ifExists == .fail, mayPass: isRetryable)
        let mayPass =
            spec.retry.statuses != nil
            ? isRetryable : reason.isRetryable || reason.code == code && isRetryable
        var explained = TransferError(
            reason.code, reason.message, phase: reason.phase, isRetryable: mayPass)
        explained.cost = cost
        return explained
    }

    /// A copy has more bytes than one request sends, and parts are for signed requests.
    static func tooLargeUnsigned(limit: Int64) -> TransferError {
        TransferError(
            .sizeMismatch,
            "A copy with a checksum and without a credential has at most \(limit) bytes.",
            phase: .sending, isRetryable: false)
    }

    /// A source has more bytes than a store takes.
    static func tooLargeForStore(_ byteCount: Int64, limit: Int64) -> TransferError {
        TransferError(
            .sizeMismatch, "The source has \(byteCount) bytes, and a store takes \(limit).",
            phase: .sending, isRetryable: false)
    }
}
