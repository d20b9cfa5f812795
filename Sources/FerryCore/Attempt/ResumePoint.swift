/// What `resume_data` says: whose bytes another job may go on from. Sealed before anybody sees it.
package struct ResumePoint: Sendable, Equatable {
    package let tenant: String
    package let job: JobID
    package let url: String
    /// The link that the job had at first, if somebody has changed it: the bytes are recorded under that one.
    package let originalURL: String?
    /// The destination below the tenant's storage root; nil: the service kept the file.
    package let path: String?

    package init(tenant: String, job: JobID, url: String, originalURL: String? = nil, path: String?) {
        self.tenant = tenant
        self.job = job
        self.url = url
        self.originalURL = originalURL
        self.path = path
    }

    private static let type = "resume_data"

    package func encode() -> [UInt8] {
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
        writer.memberOrNull("path", path)
        writer.endObject()
    }

    /// Reads what `encode` wrote; nil for anything else that may have been sealed with the same key.
    package init?(json: [UInt8]) {
        guard let parsed = try? JSON.parse(json) else { return nil }
        self.init(parsed)
    }

    init?(_ json: JSON) {
        guard json["type"]?.string == Self.type, let tenant = json["tenant"]?.string,
            let job = json["job"]?.string.flatMap({ JobID($0) }), let url = json["url"]?.string
        else { return nil }
        self.init(
            tenant: tenant, job: job, url: url, originalURL: json["original_url"]?.string,
            path: json["path"]?.string)
    }

    /// Whether the link may be one to the same file: it differs in its query at most, as signatures do.
    package func allows(_ link: String) -> Bool {
        [url, originalURL].contains { $0?.prefix { $0 != "?" } == link.prefix { $0 != "?" } }
    }

    /// What a job that goes on from here has asked for before, if that is another link than its own.
    package func original(of request: JobSpec.RequestSpec) -> OriginalRequest? {
        let before = originalURL ?? url
        return before == request.url ? nil : OriginalRequest(url: before, headers: request.headers)
    }
}
