/// Content of the events `host.unreachable` and `host.recovered`, as one tenant gets them.
public struct HostChange: Sendable, Equatable {
    /// The origin: `scheme://host:port`.
    public let host: String
    /// One sentence for people.
    public let detail: String
    /// Unfinished jobs of the tenant that wait until the host can be reached.
    public let waitingJobCount: Int64

    /// Creates the content.
    public init(host: String, detail: String, waitingJobCount: Int64) {
        self.host = host
        self.detail = detail
        self.waitingJobCount = waitingJobCount
    }

    /// Reads `json`; `nil` if it is damaged.
    public init?(json: [UInt8]) {
        guard let json = try? JSON.parse(json), let host = json["host"]?.string,
            let detail = json["detail"]?.string, let count = json["waiting_jobs"]?.integer
        else { return nil }
        self.init(host: host, detail: detail, waitingJobCount: count)
    }

    /// The content as JSON.
    public var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        writer.member("host", host)
        writer.member("detail", detail)
        writer.member("waiting_jobs", waitingJobCount)
        writer.endObject()
        return writer.bytes
    }
}

extension EventRecord {
    /// The change that an event of a host is about; `nil` for other events.
    public var hostChange: HostChange? { type.isOfHost ? HostChange(json: detail) : nil }
}
