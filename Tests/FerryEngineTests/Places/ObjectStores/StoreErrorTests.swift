import FerryCore
import Testing

@testable import FerryEngine

/// A code of a store, and the error that it leads to.
private struct Refusal: Sendable, CustomTestStringConvertible {
    let code: String
    let status: Int
    let error: TransferError.Code
    let isRetryable: Bool
    let sentence: String
    var testDescription: String { code }

    init(_ code: String, _ status: Int, retryable: Bool = false, _ sentence: String) {
        self.init(code, status, .unacceptableStatus, retryable: retryable, sentence)
    }

    init(
        _ code: String, _ status: Int, _ error: TransferError.Code, retryable: Bool = false,
        _ sentence: String
    ) {
        (self.code, self.status, self.error, self.sentence) = (code, status, error, sentence)
        isRetryable = retryable
    }
}

private let refusals: [Refusal] = [
    .init(
        "InvalidAccessKeyId", 403, .authenticationRequired,
        "The store does not know the access key (InvalidAccessKeyId, status 403): correct it."),
    .init(
        "SignatureDoesNotMatch", 403, .authenticationRequired,
        "The signature of the request is wrong (SignatureDoesNotMatch, status 403): correct the secret key; "
            + "or a proxy has changed the request."),
    .init(
        "ExpiredToken", 400, .authenticationRequired,
        "The session token has expired (ExpiredToken, status 400): submit again with a new one."),
    .init(
        "TokenRefreshRequired", 400, .authenticationRequired,
        "The session token has expired (TokenRefreshRequired, status 400): submit again with a new one."),
    .init(
        "InvalidToken", 400, .authenticationRequired,
        "The store rejects the session token (InvalidToken, status 400): correct the token."),
    .init(
        "InvalidSecurity", 403, .authenticationRequired,
        "The store rejects the credentials (InvalidSecurity, status 403): correct them."),
    .init(
        "MissingAuthenticationToken", 403, .authenticationRequired,
        "The store demands credentials (MissingAuthenticationToken, status 403): name them."),
    .init(
        "MissingSecurityHeader", 400, .authenticationRequired,
        "The store demands credentials (MissingSecurityHeader, status 400): name them."),
    .init(
        "AccessDenied", 403,
        "The key has no permission for this (AccessDenied, status 403): grant it, or check the names of "
            + "bucket and object."),
    .init(
        "AllAccessDisabled", 403,
        "The store does not serve this account (AllAccessDisabled, status 403): ask its operator."),
    .init(
        "AccountProblem", 403,
        "The store does not serve this account (AccountProblem, status 403): ask its operator."),
    .init(
        "NotSignedUp", 403,
        "The store does not serve this account (NotSignedUp, status 403): ask its operator."),
    .init(
        "NoSuchBucket", 404,
        "The bucket does not exist (NoSuchBucket, status 404): create it, or correct its name, the region or "
            + "the endpoint."),
    .init(
        "InvalidBucketName", 400,
        "The store accepts no bucket of this name (InvalidBucketName, status 400): correct the name."),
    .init(
        "NoSuchKey", 404,
        "The bucket has no object with this key (NoSuchKey, status 404): correct the key."),
    .init(
        "NoSuchVersion", 404,
        "The object has no such version (NoSuchVersion, status 404): correct the version."),
    .init(
        "InvalidObjectState", 403,
        "The object is in an archive of the store (InvalidObjectState, status 403): restore it first."),
    .init(
        "MethodNotAllowed", 405,
        "The store does not allow this for the object (MethodNotAllowed, status 405)."),
    .init(
        "PreconditionFailed", 412,
        "A condition of the request does not hold (PreconditionFailed, status 412)."),
    .init(
        "EntityTooLarge", 400,
        "The object is larger than the store accepts (EntityTooLarge, status 400)."),
    .init(
        "EntityTooSmall", 400,
        "A part of the upload is smaller than the store accepts (EntityTooSmall, status 400)."),
    .init(
        "KeyTooLong", 400,
        "The key is longer than the store accepts (KeyTooLong, status 400): use a shorter one."),
    .init(
        "KeyTooLongError", 400,
        "The key is longer than the store accepts (KeyTooLongError, status 400): use a shorter one."),
    .init(
        "MetadataTooLarge", 400,
        "The metadata is larger than the store accepts (MetadataTooLarge, status 400): shorten it."),
    .init(
        "MissingContentLength", 411,
        "The store demands the length of the body (MissingContentLength, status 411): name its size."),
    .init(
        "InvalidStorageClass", 400,
        "The store does not have the storage class (InvalidStorageClass, status 400): correct its name."),
    .init(
        "InvalidEncryptionAlgorithmError", 400,
        "The store does not support this encryption (InvalidEncryptionAlgorithmError, status 400): correct "
            + "the encryption."),
    .init(
        "NotImplemented", 501,
        "The store lacks a feature that the request needs (NotImplemented, status 501)."),
    .init(
        "AuthorizationHeaderMalformed", 400,
        "The store cannot read the signature (AuthorizationHeaderMalformed, status 400): correct the access "
            + "key or the region."),
    .init(
        "PermanentRedirect", 301,
        "The bucket is in another region (PermanentRedirect, status 301): correct the region or the "
            + "endpoint."),
    .init(
        "TemporaryRedirect", 307,
        "The bucket is in another region (TemporaryRedirect, status 307): correct the region or the "
            + "endpoint."),
    .init(
        "IllegalLocationConstraintException", 400,
        "The bucket is in another region (IllegalLocationConstraintException, status 400): correct the "
            + "region or the endpoint."),
    .init(
        "KMS.DisabledException", 400,
        "The store cannot use the encryption key (KMS.DisabledException, status 400): correct the key, or "
            + "the permissions for it."),
    .init(
        "BadDigest", 400, .digestMismatch, retryable: true,
        "The digest of the bytes at the store is not the one that was sent (BadDigest, status 400): correct "
            + "the digest if the job names one."),
    .init(
        "XAmzContentSHA256Mismatch", 400, .digestMismatch, retryable: true,
        "The digest of the bytes at the store is not the one that was sent (XAmzContentSHA256Mismatch, "
            + "status 400): correct the digest if the job names one."),
    .init(
        "XAmzContentChecksumMismatch", 400, .digestMismatch, retryable: true,
        "The digest of the bytes at the store is not the one that was sent (XAmzContentChecksumMismatch, "
            + "status 400): correct the digest if the job names one."),
    .init(
        "InvalidDigest", 400, .digestMismatch,
        "The store cannot read the digest that was sent (InvalidDigest, status 400): correct it."),
    .init(
        "RequestTimeTooSkewed", 403, retryable: true,
        "The clocks of the node and of the store differ too much (RequestTimeTooSkewed, status 403): correct "
            + "the clock of the node."),
    .init(
        "RequestExpired", 400, retryable: true,
        "The clocks of the node and of the store differ too much (RequestExpired, status 400): correct the "
            + "clock of the node."),
    .init(
        "SlowDown", 503, retryable: true, "The store gets too many requests (SlowDown, status 503)."),
    .init(
        "SlowDownRead", 503, retryable: true, "The store gets too many requests (SlowDownRead, status 503)."),
    .init(
        "SlowDownWrite", 503, retryable: true,
        "The store gets too many requests (SlowDownWrite, status 503)."),
    .init(
        "RequestLimitExceeded", 400, retryable: true,
        "The store gets too many requests (RequestLimitExceeded, status 400)."),
    .init(
        "Throttling", 400, retryable: true, "The store gets too many requests (Throttling, status 400)."),
    .init(
        "ThrottlingException", 400, retryable: true,
        "The store gets too many requests (ThrottlingException, status 400)."),
    .init(
        "TooManyRequests", 429, retryable: true,
        "The store gets too many requests (TooManyRequests, status 429)."),
    .init(
        "BandwidthLimitExceeded", 503, retryable: true,
        "The store gets too many requests (BandwidthLimitExceeded, status 503)."),
    .init(
        "ServiceUnavailable", 503, retryable: true,
        "The store is not available (ServiceUnavailable, status 503)."),
    .init(
        "XMinioServerNotInitialized", 503, retryable: true,
        "The store is not available (XMinioServerNotInitialized, status 503)."),
    .init("InternalError", 500, retryable: true, "The store has failed (InternalError, status 500)."),
    .init(
        "RequestTimeout", 400, retryable: true,
        "The store waited too long for the body (RequestTimeout, status 400)."),
    .init(
        "IncompleteBody", 400, retryable: true,
        "The store did not get the whole body (IncompleteBody, status 400)."),
    .init(
        "OperationAborted", 409, retryable: true,
        "Another operation on the object is in progress at the store (OperationAborted, status 409)."),
    .init(
        "ConditionalRequestConflict", 409, retryable: true,
        "Another operation on the object is in progress at the store (ConditionalRequestConflict, status "
            + "409)."),
    .init(
        "NoSuchUpload", 404, retryable: true,
        "The store lacks the multipart upload or some of its parts (NoSuchUpload, status 404)."),
    .init(
        "InvalidPart", 400, retryable: true,
        "The store lacks the multipart upload or some of its parts (InvalidPart, status 400)."),
    .init(
        "InvalidPartOrder", 400, retryable: true,
        "The store lacks the multipart upload or some of its parts (InvalidPartOrder, status 400)."),
    .init(
        "QuotaExceeded", 403, retryable: true,
        "The store has no space or quota left (QuotaExceeded, status 403): free space in it."),
    .init(
        "XMinioStorageFull", 507, retryable: true,
        "The store has no space or quota left (XMinioStorageFull, status 507): free space in it."),
    .init(
        "AuthenticationFailed", 401, .authenticationRequired,
        "The store rejects the credentials (AuthenticationFailed, status 401): correct them."),
]

@Suite("Errors of object stores") struct StoreErrorTests {
    private func document(_ inner: String) throws -> StoreErrorDocument {
        try #require(StoreErrorDocument(Array("<Error>\(inner)</Error>".utf8)))
    }

    /// The table of `docs/errors.md` allows phase and retryability.
    private func isAllowed(_ error: TransferError) -> Bool {
        let repetition = error.code.repetition
        return error.code.phases.contains(error.phase)
            && (error.isRetryable ? repetition != .never : repetition != .always)
    }

    @Test("a code leads to its error, whatever the status says about repetition", arguments: refusals)
    fileprivate func row(_ refusal: Refusal) throws {
        for mayPass in [true, false] {
            let error = try document("<Code>\(refusal.code)</Code>")
                .error(status: refusal.status, ifExistsFails: false, mayPass: mayPass)
            #expect(error.code == refusal.error)
            #expect(error.isRetryable == refusal.isRetryable)
            #expect(error.message == refusal.sentence)
            #expect(isAllowed(error))
        }
    }

    @Test("an unknown code is retried if its status is")
    func unknown() throws {
        let document = try document("<Code>InvalidRequest</Code><Message>Odd request</Message>")
        for mayPass in [true, false] {
            let error = document.error(status: 400, ifExistsFails: false, mayPass: mayPass)
            #expect(error.code == .unacceptableStatus)
            #expect(error.isRetryable == mayPass)
            #expect(
                error.message
                    == "The store refused the request (InvalidRequest, status 400). The store says: Odd "
                    + "request.")
            #expect(isAllowed(error))
        }
    }

    @Test("a failed condition of an upload that must not replace an object is destination_exists")
    func existing() throws {
        let error = try document("<Code>PreconditionFailed</Code><Message>It exists.</Message>")
            .error(status: 412, ifExistsFails: true, mayPass: true)
        #expect(error.code == .destinationExists)
        #expect(!error.isRetryable)
        #expect(
            error.message
                == "An object with this key exists (PreconditionFailed, status 412): use another key, or "
                + "another `if_exists`. The store says: It exists.")
        #expect(isAllowed(error))
        let conflict = try document("<Code>ConditionalRequestConflict</Code>")
            .error(status: 409, ifExistsFails: true, mayPass: false)
        #expect(conflict.isRetryable)
    }

    @Test(
        "the region that a store names is part of the error",
        arguments: [
            "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException",
        ])
    func region(code: String) throws {
        let document = try document("<Code>\(code)</Code><Region>eu-west-1</Region>")
        #expect(document.region == "eu-west-1")
        let error = document.error(status: 400, ifExistsFails: false, mayPass: true)
        #expect(
            error.message
                == "The bucket is in the region eu-west-1 (\(code), status 400): correct the region.")
        #expect(!error.isRetryable)
        let other = try self.document("<Code>NoSuchKey</Code><Region>eu-west-1</Region>")
        #expect(!other.error(status: 404, ifExistsFails: false, mayPass: false).message.contains("eu-west-1"))
    }

    @Test(
        "a document is read in each form that stores send",
        arguments: [
            "<Error><Code>NoSuchKey</Code><Message>No &quot;key&quot;</Message></Error>",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>\n  <Code>\n NoSuchKey </Code>\n"
                + "<Message> No\r\n\t\"key\" </Message><RequestId>1</RequestId></Error>\n",
            "<Error xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Code>NoSuchKey</Code>"
                + "<Message><![CDATA[No \"key\"]]></Message></Error>",
            "<s:Error xmlns:s=\"u\"><s:Code>NoSuchKey</s:Code>"
                + "<s:Message>No &#34;key&#x22;</s:Message></s:Error>",
            "<Errors><Error><Message>No \"key\"</Message><Code>NoSuchKey</Code></Error></Errors>",
            "<Error><Code>NoSuchKey</Code><Message>No \"key\"</Message><Code>Other</Code><Resour",
            "<Error><Detail><Code>Other</Code></Detail><Code>NoSuchKey</Code><Message>No \"key\"</Message>",
        ])
    func form(text: String) throws {
        let document = try #require(StoreErrorDocument(Array(text.utf8)))
        #expect(document.code == "NoSuchKey")
        #expect(document.message == "No \"key\"")
        #expect(document.region == nil)
    }

    @Test(
        "a body without a complete code is no document of a store",
        arguments: [
            "", "not found", "<html><head><title>404</title></head><Code>NoSuchKey</Code></html>",
            "{\"Code\":\"NoSuchKey\"}", "<Error><Message>No key</Message></Error>",
            "<Error><Code></Code></Error>",
            "<Error><Code>NoSuch", "<Error><Code>NoSuchKey</Cod", "<Error><Code>No Such Key</Code></Error>",
            "<Error><Code>No<b>1</b></Code></Error>", "<Error><Code>NoSuchKéy</Code></Error>",
            "<Error><Code>\(String(repeating: "a", count: 65))</Code></Error>",
        ])
    func notOne(text: String) {
        #expect(StoreErrorDocument(Array(text.utf8)) == nil)
    }

    @Test("a message that repeats the session token is left out")
    func token() throws {
        let message = "<Message>No a&#43;b/=, sorry</Message>"
        let body = Array("<Error><Code>InvalidToken</Code>\(message)</Error>".utf8)
        #expect(try #require(StoreErrorDocument(body, token: "a+b/=")).message == nil)
        #expect(try #require(StoreErrorDocument(body, token: "other")).message == "No a+b/=, sorry")
    }

    @Test("a message is one line of bounded length without invisible characters")
    func message() throws {
        let hostile = "a\u{7}b\u{202E}c\u{2028}d&#10;&#x85;e\u{200B}f\u{A0}g"
        let document = try document("<Code>A</Code><Message>\(hostile)</Message>")
        #expect(document.message == "a bc d ef g")
        let long = String(repeating: "é", count: 300)
        let cut = try self.document("<Code>A</Code><Message>\(long)</Message><Region>a b</Region>")
        #expect(cut.message == String(repeating: "é", count: 199) + "…")
        #expect(cut.region == nil)
        let error = cut.error(status: 400, ifExistsFails: false, mayPass: false)
        #expect(error.message.hasSuffix("é…"))
        #expect(try self.document("<Code>A</Code><Message> </Message>").message == nil)
    }
}
