/// The request with which an attempt begins in place of the job's own. Stored sealed in the job's row, in the
/// column `next_request`.
public enum NextRequest: Sendable, Equatable {
    /// The request that follows a redirect for which the job has waited.
    case redirect(DelayedRedirect)
    /// The question to a server how much of the upload it has.
    case upload(ResumableUpload)

    /// Returns the encrypted form.
    public func encode(_ seal: SecretSeal) -> [UInt8] {
        switch self {
        case .redirect(let redirect): return redirect.encode(seal)
        case .upload(let upload):
            var writer = JSONWriter()
            writer.beginObject()
            writer.name(Self.uploadMember)
            upload.write(into: &writer)
            writer.endObject()
            return seal.seal(writer.bytes)
        }
    }

    /// Reads what `encode` returned. Throws if it cannot be decrypted or read.
    public init(sealed bytes: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        guard let text = seal.open(bytes) else { throw StoredJSONError("sealed") }
        let stored = try StoredObject(text)
        guard let upload = stored.json[Self.uploadMember] else {
            self = .redirect(try DelayedRedirect(stored))
            return
        }
        self = .upload(try stored.need(ResumableUpload(upload), Self.uploadMember))
    }

    private static let uploadMember = "upload"

    /// Returns the request if the attempt with this number may begin with it: a redirect is followed by the
    /// next attempt only.
    public func valid(for attempt: Int32) -> NextRequest? {
        if case .redirect(let redirect) = self, redirect.attempt != attempt { return nil }
        return self
    }
}

extension Attempt {
    /// The request of a redirect with which the attempt begins, or `nil`.
    public var delayedRedirect: DelayedRedirect? {
        if case .redirect(let redirect)? = nextRequest { redirect } else { nil }
    }

    /// The upload that the attempt continues: its job's, or that of the job whose resume data it has.
    public var upload: ResumableUpload? {
        switch nextRequest {
        case .upload(let upload)?: upload
        case .redirect?: nil
        case nil: secrets.resumePoint?.upload
        }
    }

    /// Returns the job from whose resume data the attempt has `upload`; `nil` if the attempt's own job has
    /// noted an upload already, or begun this one.
    public func formerJob(of upload: ResumableUpload) -> JobID? {
        guard nextRequest == nil, let point = secrets.resumePoint, point.upload == upload else { return nil }
        return point.job
    }
}
