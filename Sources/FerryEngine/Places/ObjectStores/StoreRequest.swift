import Curl
import FerryCore

/// Facts that a store's response has told about requests to it.
struct StoreCorrection: Sendable, Equatable {
    /// Region of the bucket; `nil` for that of the job.
    var region: String?
    /// Seconds by which the store's clock is ahead of the node's.
    var clockOffset = 0.0
}

/// Values of a body that a request to a store names before the body is sent.
struct PayloadDigests: Sendable, Equatable {
    /// SHA-256 in lower-case hexadecimal.
    let sha256: String
    /// The checksum that the job asks for, with its algorithm; `nil` if it asks for none.
    let checksum: (algorithm: DigestAlgorithm, value: [UInt8])?
    /// Number of bytes.
    let byteCount: Int64

    /// SHA-256 of nothing.
    static let empty = PayloadDigests(
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", checksum: nil,
        byteCount: 0)

    static func == (a: Self, b: Self) -> Bool {
        a.sha256 == b.sha256 && a.byteCount == b.byteCount
            && a.checksum?.algorithm == b.checksum?.algorithm && a.checksum?.value == b.checksum?.value
    }
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

extension TransferRequest {
    /// Adds the fields of a request to a store, and signs it if there is a key and the hop may have
    /// credentials. `payload`: of the body that is sent. The clock of the signature is the store's, as far as
    /// it has told.
    mutating func address(
        _ object: JobSpec.StoreObject, of attempt: Attempt, _ hop: Hop, _ payload: PayloadDigests,
        key: StoreCredential?, at now: Timestamp
    ) {
        if let destination = attempt.spec.destination?.object, hop.sendsBody {
            addFields(of: destination, payload, mayReplace: attempt.spec.destination?.ifExists != .fail)
        }
        if hop.method == "GET" { headers.append(.init("x-amz-checksum-mode", "ENABLED")) }
        let correction = hop.storeCorrection?.value
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
        func add(_ name: String, _ value: String?) {
            if let value { headers.append(.init(name, value)) }
        }
        add("x-amz-storage-class", object.storageClass)
        add("x-amz-server-side-encryption", object.encryption)
        for pair in object.metadata { add("x-amz-meta-" + pair.name, pair.value) }
        if let checksum = payload.checksum {
            add("x-amz-checksum-\(checksum.algorithm.rawValue)", Base64.encode(checksum.value))
        }
        if !mayReplace { add("If-None-Match", "*") }
    }
}

extension Attempt {
    /// Returns the key that signs requests for the job's object: its own, else that of the node where the
    /// operator allows it. `nil` for requests without signature.
    func storeKey(_ node: NodeCredentials?) -> StoreCredential? {
        guard let object = spec.storeObject else { return nil }
        guard let credential = object.credential else { return node?.key(for: object, of: tenant) }
        let secrets = secrets.connection
        return secrets?.secretAccessKey.map { secret in
            StoreCredential(
                accessKeyID: credential.accessKeyID, secretAccessKey: secret,
                sessionToken: secrets?.sessionToken)
        }
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
        guard let object = spec.storeObject, keepsCredentials, [301, 307, 400, 403].contains(head.status)
        else { return nil }
        var correction = storeCorrection?.value ?? StoreCorrection()
        var next = self
        let region = object.region(correction)
        if correction.region == nil,
            let named = head.first("x-amz-bucket-region"), named != region,
            JobSpec.StoreObject.isRegion(named), let url = object.url(in: named)
        {
            correction.region = named
            // Only the hosts of Amazon S3 name a region.
            if object.isInAmazonS3 { next.url = url }
        } else if correction.clockOffset == 0, head.status == 403,
            let date = head.first("date").flatMap({ Timestamp(httpDate: $0, now: now) }),
            abs(date - now) > Self.clockOffsetMin
        {
            correction.clockOffset = date - now
        } else {
            return nil
        }
        next.storeCorrection = Boxed(correction)
        return next
    }

    /// Seconds by which two clocks differ before a refused signature may be due to them. Stores allow 15
    /// minutes.
    private static let clockOffsetMin = 300.0
}

extension AttemptResult {
    /// The result with the store's own reason for a refusal, if it has given one. `retry.statuses` decides
    /// about repetitions where the job has it. The excerpt of a response to a temporary key is left out: it
    /// may repeat the token. `node`: the node's own key.
    func explainedByStore(_ node: NodeCredentials?) -> AttemptResult {
        guard case .failed(let error, let retryAfter) = outcome,
            [.unacceptableStatus, .authenticationRequired].contains(error.code),
            attempt.spec.storeObject != nil, let response
        else { return self }
        let token = attempt.storeKey(node)?.sessionToken
        let document = response.bodyExcerpt.flatMap { StoreErrorDocument(Array($0.utf8), token: token) }
        guard let document else { return token == nil ? self : with(outcome, keepsExcerpt: false) }
        let reason = document.error(
            status: response.status, ifExistsFails: attempt.spec.destination?.ifExists == .fail,
            mayPass: error.isRetryable)
        let mayPass =
            attempt.spec.retry.statuses != nil
            ? error.isRetryable
            : reason.isRetryable || reason.code == error.code && error.isRetryable
        var explained = TransferError(
            reason.code, reason.message, phase: reason.phase, isRetryable: mayPass)
        explained.cost = error.cost
        return with(.failed(explained, retryAfter: retryAfter), keepsExcerpt: token == nil)
    }
}

extension TransferError {
    /// A source has more bytes than one PUT to a store takes.
    static func tooLargeForStore(_ byteCount: Int64) -> TransferError {
        TransferError(
            .sizeMismatch,
            "The source has \(byteCount) bytes, and one PUT to a store has at most "
                + "\(Limits.objectByteCountMax).",
            phase: .sending, isRetryable: false)
    }
}
