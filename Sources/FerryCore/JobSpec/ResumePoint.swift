/// Content of `resume_data`: the job whose bytes another job can resume from, or its upload. It is encrypted
/// before a client gets it.
public struct ResumePoint: Sendable, Equatable {
    /// Tenant of the job.
    public let tenant: String
    /// The job that has the bytes.
    public let job: JobID
    /// Its URL.
    public let url: String
    /// URL of the job when it was submitted, or `nil` if it has not changed; the bytes are recorded under
    /// this URL.
    public let originalURL: String?
    /// Location at which the job's file was to be.
    public let location: ContentLocation
    /// The upload that the job has begun; `nil` for downloads.
    public let upload: ResumableUpload?

    /// Creates a resume point.
    public init(
        tenant: String, job: JobID, url: String, originalURL: String? = nil, location: ContentLocation,
        upload: ResumableUpload? = nil
    ) {
        self.tenant = tenant
        self.job = job
        self.url = url
        self.originalURL = originalURL
        self.location = location
        self.upload = upload
    }

    private static let type = "resume_data"

    /// Returns the JSON to encrypt.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        write(into: &writer)
        return writer.bytes
    }

    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("type", Self.type)
        writer.member("tenant", tenant)
        writer.member("job", job)
        writer.member("url", url)
        if let originalURL { writer.member("original_url", originalURL) }
        writer.name("location")
        location.write(into: &writer)
        if let upload {
            writer.name("upload")
            upload.write(into: &writer)
        }
        writer.endObject()
    }

    /// Reads what `encode` returned; `nil` for other data encrypted with the same key.
    public init?(json: [UInt8]) {
        // Data that is not JSON is no resume point.
        guard let parsed = try? JSON.parse(json) else { return nil }
        self.init(parsed)
    }

    init?(_ json: JSON) {
        guard json["type"]?.string == Self.type, let tenant = json["tenant"]?.string,
            let job = json["job"]?.string.flatMap({ JobID($0) }), let url = json["url"]?.string,
            let location = json["location"].flatMap({ ContentLocation($0) })
        else { return nil }
        self.init(
            tenant: tenant, job: job, url: url, originalURL: json["original_url"]?.string,
            location: location, upload: json["upload"].flatMap(ResumableUpload.init))
    }

    /// Returns `true` if `link` may be a link to the same file: it differs at most in the query, as signed
    /// URLs do.
    public func allows(_ link: String) -> Bool {
        [url, originalURL].contains { $0.map { isSameLink($0, link) } ?? false }
    }

    /// Returns the original request of a job that resumes from here, or `nil` if its URL is the same.
    public func original(of request: JobSpec.RequestSpec) -> OriginalRequest? {
        let before = originalURL ?? url
        return before == request.url ? nil : OriginalRequest(url: before, headers: request.headers)
    }
}

/// Opens the resume data of a body, and keeps what it means. Lives as long as the body is decoded.
final class OpenedResumeData: Resumption {
    private let open: (String) -> ResumePoint?
    /// The job whose bytes this one resumes from, or `nil`.
    fileprivate(set) var point: ResumePoint?

    /// `open` returns `nil` if the resume data is none of this tenant's.
    init(_ open: @escaping (String) -> ResumePoint?) { self.open = open }

    fileprivate func read(_ text: String) -> Bool {
        point = open(text)
        return point != nil
    }
}

extension FieldContext {
    /// The job whose bytes this one resumes from, or `nil`.
    var resumePoint: ResumePoint? { (resumption as? OpenedResumeData)?.point }

    /// Opens resume data. Returns `false` if it is none of this tenant's.
    func openResumeData(_ text: String) -> Bool { (resumption as? OpenedResumeData)?.read(text) ?? false }
}
