import FerryCore

extension StoreErrorDocument {
    /// Returns the error of an attempt whose request the store has refused with this document.
    ///
    /// `ifExistsFails`: whether the request demands that no object with its key exists. `mayPass`: whether a
    /// later response to the same request may have another status, for codes that do not tell. Assumes that
    /// the request is idempotent, as `PUT`, `GET` and `HEAD` are.
    func error(status: Int, ifExistsFails: Bool, mayPass: Bool) -> TransferError {
        let meaning = meaning(status: status, ifExistsFails: ifExistsFails, mayPass: mayPass)
        var text = "\(meaning.fact) (\(code), status \(status))"
        text += meaning.advice.map { ": \($0)." } ?? "."
        if let message {
            let isSentence = message.unicodeScalars.last.map { ".!?…".unicodeScalars.contains($0) } ?? false
            text += " The store says: \(message)\(isSentence ? "" : ".")"
        }
        return TransferError(
            meaning.code, text, phase: meaning.phase, isRetryable: meaning.passes)
    }

    private func meaning(status: Int, ifExistsFails: Bool, mayPass: Bool) -> StoreRefusal {
        if code == "PreconditionFailed", ifExistsFails { return .exists }
        if let region, StoreRefusal.regionCodes.contains(code) {
            return StoreRefusal("The bucket is in the region \(region)", "correct the region")
        }
        if let known = StoreRefusal.table[code] { return known }
        if code.hasPrefix("KMS.") {
            return StoreRefusal(
                "The store cannot use the encryption key", "correct the key, or the permissions for it")
        }
        if status == 401 { return .authentication("The store rejects the credentials", "correct them") }
        return StoreRefusal("The store refused the request", nil, passes: mayPass)
    }
}

/// The meaning of a store's error code for a job.
private struct StoreRefusal: Sendable {
    var code = TransferError.Code.unacceptableStatus
    var phase = TransferError.Phase.waiting
    /// Whether another attempt can succeed.
    var passes = false
    let fact: String
    let advice: String?

    init(_ fact: String, _ advice: String?, passes: Bool = false) {
        self.fact = fact
        self.advice = advice
        self.passes = passes
    }

    static func authentication(_ fact: String, _ advice: String) -> Self {
        var refusal = Self(fact, advice)
        refusal.code = .authenticationRequired
        return refusal
    }

    private static func digest(_ fact: String, _ advice: String, passes: Bool) -> Self {
        var refusal = Self(fact, advice, passes: passes)
        refusal.code = .digestMismatch
        refusal.phase = .finishing
        return refusal
    }

    static let exists: Self = {
        var refusal = Self("An object with this key exists", "use another key, or another `if_exists`")
        refusal.code = .destinationExists
        refusal.phase = .finishing
        return refusal
    }()

    /// Codes whose documents may name the region of the bucket.
    static let regionCodes: Set<String> = [
        "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect",
        "IllegalLocationConstraintException",
    ]

    static let table: [String: Self] = {
        let throttled = Self("The store gets too many requests", nil, passes: true)
        let unavailable = Self("The store is not available", nil, passes: true)
        let inUse = Self("Another operation on the object is in progress at the store", nil, passes: true)
        let full = Self("The store has no space or quota left", "free space in it", passes: true)
        let disabled = Self("The store does not serve this account", "ask its operator")
        let lost = Self("The store lacks the multipart upload or some of its parts", nil, passes: true)
        let elsewhere = Self("The bucket is in another region", "correct the region or the endpoint")
        let encryption = Self("The store does not support this encryption", "correct the encryption")
        let skewed = Self(
            "The clocks of the node and of the store differ too much", "correct the clock of the node",
            passes: true)
        let expired = authentication("The session token has expired", "submit again with a new one")
        let bytes = digest(
            "The digest of the bytes at the store is not the one that was sent",
            "correct the digest if the job names one", passes: true)
        return [
            "InvalidAccessKeyId": .authentication("The store does not know the access key", "correct it"),
            "SignatureDoesNotMatch": .authentication(
                "The signature of the request is wrong",
                "correct the secret key; or a proxy has changed the request"),
            "ExpiredToken": expired, "TokenRefreshRequired": expired,
            "InvalidToken": .authentication("The store rejects the session token", "correct the token"),
            "InvalidSecurity": .authentication("The store rejects the credentials", "correct them"),
            "MissingAuthenticationToken": .authentication("The store demands credentials", "name them"),
            "MissingSecurityHeader": .authentication("The store demands credentials", "name them"),

            "AccessDenied": Self(
                "The key has no permission for this",
                "grant it, or check the names of bucket and object"),
            "AllAccessDisabled": disabled, "AccountProblem": disabled, "NotSignedUp": disabled,
            "NoSuchBucket": Self(
                "The bucket does not exist", "create it, or correct its name, the region or the endpoint"),
            "InvalidBucketName": Self("The store accepts no bucket of this name", "correct the name"),
            "NoSuchKey": Self("The bucket has no object with this key", "correct the key"),
            "NoSuchVersion": Self("The object has no such version", "correct the version"),
            "InvalidObjectState": Self("The object is in an archive of the store", "restore it first"),
            "MethodNotAllowed": Self("The store does not allow this for the object", nil),
            "PreconditionFailed": Self("A condition of the request does not hold", nil),
            "EntityTooLarge": Self("The object is larger than the store accepts", nil),
            "EntityTooSmall": Self("A part of the upload is smaller than the store accepts", nil),
            "KeyTooLong": Self("The key is longer than the store accepts", "use a shorter one"),
            "KeyTooLongError": Self("The key is longer than the store accepts", "use a shorter one"),
            "MetadataTooLarge": Self("The metadata is larger than the store accepts", "shorten it"),
            "MissingContentLength": Self("The store demands the length of the body", "name its size"),
            "InvalidStorageClass": Self("The store does not have the storage class", "correct its name"),
            "InvalidEncryptionAlgorithmError": encryption,
            "NotImplemented": Self("The store lacks a feature that the request needs", nil),
            "AuthorizationHeaderMalformed": Self(
                "The store cannot read the signature", "correct the access key or the region"),
            "PermanentRedirect": elsewhere, "TemporaryRedirect": elsewhere,
            "IllegalLocationConstraintException": elsewhere,

            "BadDigest": bytes, "XAmzContentSHA256Mismatch": bytes, "XAmzContentChecksumMismatch": bytes,
            "InvalidDigest": .digest(
                "The store cannot read the digest that was sent", "correct it", passes: false),

            "RequestTimeTooSkewed": skewed, "RequestExpired": skewed,
            "SlowDown": throttled, "SlowDownRead": throttled, "SlowDownWrite": throttled,
            "RequestLimitExceeded": throttled, "Throttling": throttled, "ThrottlingException": throttled,
            "TooManyRequests": throttled, "BandwidthLimitExceeded": throttled,
            "ServiceUnavailable": unavailable, "XMinioServerNotInitialized": unavailable,
            "InternalError": Self("The store has failed", nil, passes: true),
            "RequestTimeout": Self("The store waited too long for the body", nil, passes: true),
            "IncompleteBody": Self("The store did not get the whole body", nil, passes: true),
            "OperationAborted": inUse, "ConditionalRequestConflict": inUse,
            "NoSuchUpload": lost, "InvalidPart": lost, "InvalidPartOrder": lost,
            "QuotaExceeded": full, "XMinioStorageFull": full,
        ]
    }()
}
